"""One training step of lab and of what people would use instead, at equal sizes, each to be called again and again.

A contestant is imported by ``load(name, checkout)``, which gives a function that builds it at a size in a precision
and returns its step. lab's step is a whole one of ``lab train``: batch, forward, backward, clip, update, with the
gradient norm recorded and the metrics written. The others' are what their own training loops do at a step that
validates and saves nothing. All have the architecture of GPT-2: LayerNorm, GELU, learned positions, tied head.
"""

import queue
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import torch

Step = Callable[[], None]


@dataclass(frozen=True)
class Size:
    """A model and its batch."""

    dim: int
    layers: int
    heads: int
    length: int
    batch: int
    vocab: int

    def __str__(self) -> str:
        return " / ".join(map(str, (self.dim, self.layers, self.heads, self.length, self.batch, self.vocab)))


SIZES = {
    "small": Size(dim=128, layers=4, heads=4, length=128, batch=16, vocab=2048),
    "medium": Size(dim=256, layers=6, heads=4, length=256, batch=8, vocab=4096),
    "wide-vocabulary": Size(dim=256, layers=4, heads=4, length=512, batch=8, vocab=32_768),
}

Build = Callable[[Size, str], Step]
"""From a size and a precision, ``fp32`` or ``bf16``, to a step."""


def load(name: str, checkout: Path | None) -> Build:
    """Import a contestant, from a checkout of its repository where it needs one."""
    if checkout is not None:
        sys.path.insert(0, str(checkout))
    return LOADERS[name]()


def tokens(vocab: int) -> np.ndarray:
    """A million random tokens; speed does not depend on what they say."""
    return np.random.default_rng(0).integers(0, vocab, 1_000_000).astype(np.uint16)


def _windows(data: np.ndarray, size: Size, *, apart: bool) -> list[torch.Tensor]:
    """A batch as nanoGPT draws it: inputs and targets ``apart``, or in one tensor."""
    starts = torch.randint(len(data) - size.length - 1, (size.batch,))
    cuts = [(0, 0), (1, 0)] if apart else [(0, 1)]
    return [
        torch.stack([torch.from_numpy(data[i + a : i + size.length + a + b].astype(np.int64)) for i in starts])
        for a, b in cuts
    ]


def _nanogpt() -> Build:
    """The body of the loop in ``train.py``, which on a CPU computes in fp32 as it comes."""
    from model import GPT, GPTConfig  # type: ignore[import-not-found]

    def build(size: Size, precision: str) -> Step:
        config = GPTConfig(
            block_size=size.length,
            vocab_size=size.vocab,
            n_layer=size.layers,
            n_head=size.heads,
            n_embd=size.dim,
            dropout=0.0,
            bias=False,
        )
        with redirect_stdout(StringIO()):
            model = GPT(config)
            optimizer = model.configure_optimizers(0.1, 1e-3, (0.9, 0.95), "cpu")
        data = tokens(size.vocab)

        def step() -> None:
            x, y = _windows(data, size, apart=True)
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                _, loss = model(x, y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        return step

    return build


def _litgpt() -> Build:
    """The body of ``fit`` in ``pretrain.py``; its model is compiled, as there."""
    import lightning
    from litgpt.config import Config  # type: ignore[import-not-found]
    from litgpt.model import GPT  # type: ignore[import-not-found]
    from litgpt.utils import chunked_cross_entropy  # type: ignore[import-not-found]

    def build(size: Size, precision: str) -> Step:
        kind = {"fp32": "32-true", "bf16": "bf16-mixed"}[precision]
        fabric = lightning.Fabric(accelerator="cpu", devices=1, precision=kind)  # type: ignore[arg-type]
        config = Config(
            block_size=size.length,
            padded_vocab_size=size.vocab,
            n_layer=size.layers,
            n_head=size.heads,
            n_embd=size.dim,
            rotary_percentage=1.0,
            parallel_residual=False,
            bias=False,
            lm_head_bias=False,
        )
        model = GPT(config)
        model.transformer.wte.weight = model.lm_head.weight
        model = fabric.setup(torch.compile(model))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, betas=(0.9, 0.95))
        optimizer = fabric.setup_optimizers(optimizer)
        data = tokens(size.vocab)

        def step() -> None:
            (both,) = _windows(data, size, apart=False)
            logits = model(both[:, :-1].contiguous())
            loss = chunked_cross_entropy(logits, both[:, 1:].contiguous())
            fabric.backward(loss)
            fabric.clip_gradients(model, optimizer, max_norm=1.0)
            optimizer.step()
            optimizer.zero_grad()

        return step

    return build


class Windows(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Random tokens as samples."""

    def __init__(self, size: Size) -> None:
        self.data, self.length = tokens(size.vocab), size.length

    def __len__(self) -> int:
        return 1_000_000 // self.length

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        ids = self.data[index * self.length : (index + 1) * self.length]
        row = torch.from_numpy(ids.astype(np.int64))
        return {"input_ids": row, "labels": row}


def _trainer() -> Build:
    """A step of ``transformers.Trainer`` on its GPT-2; it runs in a thread that waits to be let on."""
    import transformers

    def build(size: Size, precision: str) -> Step:
        config = transformers.GPT2Config(
            vocab_size=size.vocab,
            n_positions=size.length,
            n_embd=size.dim,
            n_layer=size.layers,
            n_head=size.heads,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
        asked, done = queue.Queue[None](), queue.Queue[None]()

        arguments = transformers.TrainingArguments(
            output_dir=tempfile.mkdtemp(),
            per_device_train_batch_size=size.batch,
            max_steps=1_000_000,
            learning_rate=1e-3,
            bf16=precision == "bf16",
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
        )
        trainer = transformers.Trainer(
            model=transformers.GPT2LMHeadModel(config),
            args=arguments,
            train_dataset=Windows(size),
            callbacks=[_turns(asked, done)],
        )
        thread = threading.Thread(target=trainer.train, daemon=True)

        def step() -> None:
            if thread.is_alive():
                asked.put(None)
            else:
                thread.start()
            done.get()

        return step

    return build


def _turns(asked: queue.Queue[None], done: queue.Queue[None]) -> Any:
    """What stops the Trainer after each step until the next is asked for."""
    import transformers

    class Turns(transformers.TrainerCallback):
        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            done.put(None)
            asked.get()

    return Turns()


def _lab() -> Build:
    """A step of ``lab train`` in the architecture of GPT-2."""
    from lab.compose import compose_config
    from lab.data.batches import Batches
    from lab.runs.metrics import JsonLines
    from lab.track.none import Silent
    from lab.training.loop import train_step
    from lab.training.recorder import Recorder
    from lab.training.resolve import resolve
    from lab.training.state import new_state

    def build(size: Size, precision: str) -> Step:
        config = resolve(compose_config([*GPT2, *sized(size), f"precision={precision}"]))
        state = new_state(config, config.architecture(size.vocab))
        batches = Batches(tokens(size.vocab), tokens_hash="", seq_len=size.length, batch_size=size.batch, seed=0)
        folder = Path(tempfile.mkdtemp())
        recorder = Recorder(
            JsonLines(folder / "metrics.jsonl", keep_steps=0),
            JsonLines(folder / "timing.jsonl", keep_steps=0),
            Silent(),
            steps_at_once=1,
            tokens_per_step=size.batch * size.length,
        )

        def step() -> None:
            recorder.note(state.step, *train_step(config, state, batches))
            recorder.settle()
            recorder.write(None)

        return step

    return build


def sized(size: Size) -> list[str]:
    """The overrides of a size, for a run that is long and not compiled."""
    return [
        f"model.dim={size.dim}",
        f"model.n_layers={size.layers}",
        f"model.n_heads={size.heads}",
        f"model.max_seq_len={size.length}",
        f"train.batch_size={size.batch}",
        "train.steps=100000",
        "device=cpu",
        "compile=false",
    ]


GPT2 = [
    "norm=layernorm",
    "activation=gelu",
    "position=learned",
    "regularization=weight_decay",
    "model.tie_embeddings=true",
]
"""The overrides that make lab's model nanoGPT's."""

LOADERS: dict[str, Callable[[], Build]] = {
    "lab": _lab,
    "nanogpt": _nanogpt,
    "litgpt": _litgpt,
    "trainer": _trainer,
}

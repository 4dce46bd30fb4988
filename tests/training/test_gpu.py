"""On a GPU: the CPU's losses, no wait for the device at each step, resume. Skipped where there is none."""

import json

import pytest
import torch

from lab.training.loop import train_step
from lab.training.plan import plan
from lab.training.state import new_state

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]

VARIANTS = [
    ("attn=gqa",),
    ("attn=gqa", "attn_path=plain"),
    ("norm=layernorm", "activation=gelu", "position=learned", "model.tie_embeddings=true"),
    ("stability=[qk_norm,z_loss]",),
]


def first_losses(config, device, *overrides, steps=5):
    planned = plan(config("threads=1", f"device={device}", *overrides))
    state = new_state(planned.config, planned.architecture)
    return [train_step(planned.config, state, planned.batches)[0].item() for _ in range(steps)]


@pytest.mark.parametrize("overrides", VARIANTS, ids=lambda words: " ".join(words))
def test_losses_in_fp32_are_the_cpus(config, overrides):
    on_cpu = first_losses(config, "cpu", "precision=fp32", *overrides)
    assert first_losses(config, "cuda", "precision=fp32", *overrides) == pytest.approx(on_cpu, rel=1e-4)


@pytest.mark.parametrize("overrides", VARIANTS, ids=lambda words: " ".join(words))
def test_losses_in_bf16_are_near_the_cpus_in_fp32(config, overrides):
    on_cpu = first_losses(config, "cpu", "precision=fp32", *overrides)
    assert first_losses(config, "cuda", "precision=bf16", *overrides) == pytest.approx(on_cpu, rel=1e-2)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("overrides", VARIANTS, ids=lambda words: " ".join(words))
def test_a_step_does_not_wait_for_the_device(config, overrides, precision):
    planned = plan(config("threads=1", "device=cuda", f"precision={precision}", *overrides))
    state = new_state(planned.config, planned.architecture)
    train_step(planned.config, state, planned.batches)  # the first one sets things up
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(3):
            train_step(planned.config, state, planned.batches)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_resumed_run_goes_on(train, at_step, outputs):
    def fail():
        raise RuntimeError("stop here")

    at_step(13, fail)
    with pytest.raises(Exception, match="stop here"):
        train("device=cuda", "train.checkpoint_every=5")
    result = train("device=cuda", "train.checkpoint_every=5").result
    assert result["status"] == "done"
    (folder,) = (outputs / "runs").iterdir()
    steps = [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(1, len(steps) + 1))

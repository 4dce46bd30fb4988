"""Every choice of every group with the values of its YAML, and tiny models made of them."""

import functools
from collections.abc import Iterator
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import Tensor

from lab import choices
from lab.component import Component
from lab.model.attention_mask import attention_mask
from lab.model.sizes import Dims, ModelConfig
from lab.model.transformer import Architecture, Transformer
from lab.paths import conf_dir

MODEL_GROUPS = ("norm", "activation", "attn", "block", "position", "stability", "regularization", "init")
"""Groups whose choice changes the model or its initial weights."""

DEFAULTS = {
    "norm": "rmsnorm",
    "activation": "swiglu",
    "attn": "mha",
    "block": "pre",
    "position": "rope",
    "stability": "none",
    "regularization": "none",
    "init": "gpt2",
}

SIZES = Dims(dim=32, n_layers=2, n_heads=4, head_dim=8, max_seq_len=16, vocab_size=61)
PATHS = ("plain", "sdpa")
EVERY = [(group, name) for group in MODEL_GROUPS for name in choices.names(group)]


def label(value: Any) -> str | None:
    """The name of a parametrised case, as it is typed on the command line."""
    return "=".join(value) if isinstance(value, tuple) else None


@functools.cache
def section() -> dict[str, Any]:
    """The ``model`` section of conf/model/tiny.yaml."""
    return OmegaConf.to_container(OmegaConf.load(conf_dir() / "model" / "tiny.yaml"))


@functools.cache
def values(group: str, name: str) -> dict[str, Any]:
    tree = OmegaConf.create({"model": {"bias": False}})
    tree.choice = OmegaConf.load(conf_dir() / group / f"{name}.yaml")
    tree.choice.pop("defaults", None)
    return OmegaConf.to_container(tree, resolve=True)["choice"]


def config(group: str, name: str, **changed: Any) -> Component:
    """A choice with the values of conf/GROUP/NAME.yaml, some of them changed."""
    return choices.load(group, name).Config(**{**values(group, name), **changed})


def architecture(
    *, dims: Dims = SIZES, tied: bool = False, path: str = "sdpa", ends: dict[str, Any] | None = None, **chosen: Any
) -> Architecture:
    """A tiny architecture; each group may be given as a name, a Config, or (combined groups) a list of either.

    ``ends`` changes keys of the ``model`` section that are no sizes: scales, head, sharing.
    """
    parts = {}
    for group in MODEL_GROUPS:
        value = chosen.pop(group, DEFAULTS[group])
        made = [
            config(group, v) if isinstance(v, str) else v for v in (value if isinstance(value, list) else [value])
        ]
        parts[group] = {part.name: part for part in made} if group in choices.COMBINED else made[0]
    assert not chosen, f"no such group: {list(chosen)}"
    given = ModelConfig(**{**section(), "tie_embeddings": tied, **(ends or {})})
    return Architecture(dims=dims, model=given, path=path, **parts)


def model(*, seed: int = 1, **chosen: Any) -> Transformer:
    """A tiny model in training mode."""
    return architecture(**chosen).build(study_seed=0, seed=seed)


def shaken(net: Transformer, *, scale: float = 0.2, seed: int = 5) -> Transformer:
    """The model with every parameter moved well away from its start, so that attention is far from uniform."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter += scale * torch.randn(parameter.shape, generator=generator).to(parameter.dtype)
    return net


def tokens(
    batch: int = 2, length: int = SIZES.max_seq_len, *, seed: int = 3, size: int = SIZES.vocab_size
) -> Tensor:
    return torch.randint(size, (batch, length), generator=torch.Generator().manual_seed(seed))


def reach(net: Transformer, length: int) -> Tensor:
    """Which inputs an output position can see through all layers, (T, S): the product of the layers' masks,
    each with what the residual stream carries past it."""
    seen = torch.eye(length)
    for attn in net.attention():
        allowed = attention_mask(attn.layer.mask, range(length), range(length), seen) == 0
        seen = allowed.view(-1, length, length).any(dim=0).float() @ seen + seen
    return seen > 0


TIMES = (0, 1, 4, 7, 8, 11, 15)
"""Output positions whose dependence on the inputs is looked at."""


def seen(net: Transformer) -> Tensor:
    """Which inputs the outputs at ``TIMES`` depend on, by gradients, (a sequence for each and one more, S)."""
    embedded: list[Tensor] = []
    handle = net.embedding.register_forward_hook(lambda _, __, out: embedded.append(out))
    x_BTD, _ = net(tokens(len(TIMES) + 1))
    handle.remove()
    outputs_BD = x_BTD[torch.arange(len(TIMES)), torch.tensor(TIMES)]
    (gradient_BSD,) = torch.autograd.grad(outputs_BD[:, ::3].sum(), embedded)
    return gradient_BSD.any(dim=-1)


def seeable(net: Transformer) -> Tensor:
    """What ``seen`` has to find by the masks: nothing in the sequence of which no output is looked at."""
    reached = reach(net, SIZES.max_seq_len)[list(TIMES)]
    return torch.cat([reached, torch.zeros_like(reached[:1])])


def assert_sees_what_it_may(net: Transformer) -> None:
    """Outputs depend on all that the masks show, or on less where an attention selects, and on nothing else."""
    found, may = seen(net), seeable(net)
    if any(attn.selects for attn in net.attention()):
        may &= found
        assert may.any(dim=-1).tolist() == [True] * len(TIMES) + [False]
    assert found.tolist() == may.tolist()


def held(thing: Any) -> Iterator[Tensor]:
    """The tensors inside a cache, whatever it is made of."""
    if isinstance(thing, Tensor):
        yield thing
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from held(value)
    elif isinstance(thing, list | tuple):
        for value in thing:
            yield from held(value)
    elif hasattr(thing, "__dict__"):
        yield from held(vars(thing))

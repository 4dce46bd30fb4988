"""A preset and its reference side by side: the same weights, logits, loss and the gradient of every parameter."""

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lab.config import RunConfig
from lab.model.loss import token_loss
from oracles import composed
from oracles.weight_maps import Table, to_lab

VOCAB, LENGTH = 61, 24
SIZES = {
    "model.dim": 32,
    "model.n_layers": 4,
    "model.n_heads": 4,
    "model.head_dim": 8,
    "model.max_seq_len": 64,
    "activation.d_ff": 48,
}
"""What is given to every preset: the sizes of a reference are the same."""

LOGITS, GRADIENTS, ZERO = 5e-5, 1e-3, 1e-4
"""Allowed: absolute in logits; relative to a tensor's largest gradient; to the largest of all, for gradients that
are zero but for rounding, as a key bias' is without positions."""

FAINT = 0.1
"""Factor of weights that are drawn small, for an eps to matter."""

Weights = dict[str, Tensor]


def plain_logits(net: Any, ids_BT: Tensor) -> Tensor:
    """Logits of a causal language model of transformers."""
    return net(input_ids=ids_BT, use_cache=False).logits


def same(weights: Weights) -> Weights:
    """What is passed on as it is."""
    return weights


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """A preset, what it has to equal, and how the names of the two go together."""

    preset: str
    table: Table
    oracle: Callable[[], nn.Module]
    """Makes the reference, with random weights."""
    changed: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Keys of the preset beside ``SIZES``: windows and caps so small that they bite."""
    note: str = ""
    """Tells cases of one preset apart."""
    logits: Callable[[Any, Tensor], Tensor] = plain_logits
    values: Callable[[Weights], Weights] = same
    """What is done to mapped values and not to gradients, where the reference stores something else."""
    faint: str = r"(?!)"
    """Pattern of weights that a norm follows, so that only its eps tells how large they are: drawn ``FAINT``."""
    unused: str = r"(?!)"
    """Pattern of the reference's parameters that have no part in its logits."""

    def __str__(self) -> str:
        return f"{self.preset}-{self.note}" if self.note else self.preset

    @functools.cached_property
    def config(self) -> RunConfig:
        """The preset at the sizes of the reference."""
        return self.wrong({})

    def wrong(self, changed: Mapping[str, Any]) -> RunConfig:
        """The same with more changed."""
        return composed.configuration(self.preset, {**SIZES, **self.changed, **changed})


@dataclass(frozen=True)
class Outcome:
    """Logits, loss and gradients."""

    logits: Tensor
    loss: Tensor
    gradients: Weights


@dataclass(frozen=True)
class Difference:
    """How far two outcomes are apart."""

    logits: float
    """Largest absolute difference."""
    loss: float
    """Relative."""
    gradients: Mapping[str, float]
    """Largest difference of each tensor over what is allowed."""

    @property
    def equal(self) -> bool:
        """Whether all is within what is allowed."""
        return self.logits <= LOGITS and self.loss <= 1e-5 and max(self.gradients.values()) <= 1


def tokens() -> tuple[Tensor, Tensor]:
    """Inputs and targets; the first numbers are left out, which some references treat as special."""
    ids_BT = torch.randint(4, VOCAB, (2, LENGTH), generator=torch.Generator().manual_seed(3))
    return ids_BT, ids_BT.roll(-1, dims=1)


def randomise(net: nn.Module, faint: str) -> None:
    """Draw every trained parameter so that each shows in the logits: initial weights hide most mistakes."""
    generator = torch.Generator().manual_seed(7)
    kinds = {id(p): type(module).__name__ for module in net.modules() for p in module.parameters(recurse=False)}
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if not parameter.requires_grad:
                continue
            noise, kind = torch.randn(parameter.shape, generator=generator), kinds[id(parameter)]
            if parameter.ndim == 1 or "norm" in kind.lower():
                parameter += 0.2 * noise
            else:
                fan_in = parameter.shape[0 if kind == "Conv1D" else -1]
                parameter.copy_(noise * (FAINT if re.search(faint, name) else 1.0) / math.sqrt(fan_in))


def penalty(config: RunConfig, z_MV: Tensor) -> Tensor | float:
    """What the preset's z-loss adds to the loss, written plainly."""
    if "z_loss" not in config.stability:
        return 0.0
    choice = config.stability["z_loss"]
    variants = {
        "squared_lse": z_MV.logsumexp(-1).square().mean(),
        "squared_mean_lse": z_MV.logsumexp(-1).mean().square(),
        "max_logit": z_MV.amax(-1).square().mean(),
    }
    return choice.weight * variants[choice.variant]


@functools.cache
def reference(case: Case) -> tuple[Weights, Outcome, frozenset[str]]:
    """The reference's weights under lab's names, and what it computes."""
    config = case.config
    oracle = case.oracle().eval()
    randomise(oracle, case.faint)
    ids_BT, target_BT = tokens()
    z_BTV = case.logits(oracle, ids_BT)
    z_MV, target_M = z_BTV.flatten(0, 1), target_BT.flatten()
    smoothing = config.regularization.get("label_smoothing")
    loss = F.cross_entropy(z_MV, target_M, label_smoothing=smoothing.share if smoothing else 0.0)
    loss = loss + penalty(config, z_MV)
    loss.backward()
    named = {name: p for name, p in oracle.named_parameters() if not re.search(case.unused, name)}
    net = composed.model(config, path="plain", vocab_size=VOCAB)
    gradients = {n: p.grad if p.grad is not None else torch.zeros_like(p) for n, p in named.items()}
    values, left_out = to_lab({name: p.detach() for name, p in named.items()}, case.table, net)
    mapped, _ = to_lab(gradients, case.table, net)
    return values, Outcome(z_BTV.detach(), loss.detach(), mapped), frozenset(left_out)


def ours(config: RunConfig, weights: Weights, *, path: str) -> Outcome:
    """What lab computes with these weights."""
    net = composed.model(config, path=path, vocab_size=VOCAB)
    net.load_state_dict(weights, strict=True)
    ids_BT, target_BT = tokens()
    x_BTD, _ = net(ids_BT)
    objective = token_loss(net, x_BTD, target_BT, denominator=target_BT.numel()).objective
    objective.backward()
    with torch.no_grad():
        z_BTV = net.logits(ids_BT)
    gradients = {n: p.grad if p.grad is not None else torch.zeros_like(p) for n, p in net.named_parameters()}
    return Outcome(z_BTV, objective.detach(), gradients)


def difference(found: Outcome, wanted: Outcome) -> Difference:
    """How far what was found is from what was wanted."""
    assert found.gradients.keys() == wanted.gradients.keys(), found.gradients.keys() ^ wanted.gradients.keys()
    largest = max(g.abs().max().item() for g in wanted.gradients.values())
    gradients = {}
    for name, gradient in wanted.gradients.items():
        allowed = GRADIENTS * gradient.abs().max().item() + ZERO * largest
        gradients[name] = (found.gradients[name] - gradient).abs().max().item() / allowed
    logits = (found.logits - wanted.logits).abs().max().item()
    loss = (found.loss / wanted.loss - 1).abs().item()
    return Difference(logits, loss, gradients)


def compare(
    case: Case,
    changed: Mapping[str, Any] | None = None,
    *,
    path: str = "plain",
    weights: Callable[[Weights], Weights] = same,
) -> Difference:
    """The preset against its reference, with some keys or weights changed."""
    values, outcome, left_out = reference(case)
    assert not left_out, f"no place in lab for {sorted(left_out)}"
    config = case.wrong(changed) if changed else case.config
    found = ours(config, weights(case.values(values)), path=path)
    return difference(found, dataclasses.replace(outcome, gradients=weights(outcome.gradients)))

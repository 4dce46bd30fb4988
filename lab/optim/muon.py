"""Muon: momentum with its singular values set near one, for matrices of the blocks: arXiv:2502.16982, section 2.1.

The update is orthogonalised by Newton-Schulz steps in bf16 on every device, as PyTorch does it. It is multiplied by
sqrt(max(1, rows / columns)), as in Jordan's code (``original``), or by 0.2 sqrt(max(rows, columns)), the paper's
form, for which AdamW's rates fit (``match_rms_adamw``). Token and position tables, the head, gains and biases are
AdamW's, at a rate of their own.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
from torch.optim import Optimizer

from lab.component import check, check_number
from lab.optim import OptimConfig


class Adjust(StrEnum):
    """How the rate follows a matrix's shape."""

    original = "original"
    match_rms_adamw = "match_rms_adamw"


@dataclass(frozen=True, kw_only=True)
class Config(OptimConfig):
    """Two optimizers side by side; ``lr`` is Muon's."""

    momentum: float
    """Decay rate of Muon's running mean of gradients, in [0, 1)."""
    nesterov: bool
    """Whether Muon's update looks one step ahead."""
    ns_steps: int
    """Newton-Schulz steps, from 1 to 99."""
    adjust: Adjust
    """How Muon's rate follows a matrix's shape."""
    adam_lr: float
    """Peak learning rate of AdamW's parameters."""
    beta1: float
    """AdamW's decay rate of the running mean of gradients, in [0, 1)."""
    beta2: float
    """AdamW's decay rate of the running mean of squared gradients, in [0, 1)."""
    eps: float
    """Added to the root of AdamW's second moment."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("momentum", self.momentum, least=0, below=1)
        check(not self.nesterov or self.momentum > 0, "nesterov", "true", "needs optim.momentum > 0")
        check_number("ns_steps", self.ns_steps, least=1, most=99)
        check_number("adam_lr", self.adam_lr, above=0)
        check_number("beta1", self.beta1, least=0, below=1)
        check_number("beta2", self.beta2, least=0, below=1)
        check_number("eps", self.eps, above=0)

    def peak_lr(self, *, hidden: bool) -> float:
        """Muon's rate or AdamW's."""
        return self.lr if hidden else self.adam_lr

    def build(self, groups: Iterable[dict[str, Any]]) -> Optimizer:
        """The optimizer."""
        return MuonWithAdamW(groups, self)


class MuonWithAdamW(Optimizer):
    """One list of groups and one state, of which Muon and AdamW see their part."""

    def __init__(self, groups: Iterable[dict[str, Any]], config: Config) -> None:
        super().__init__(groups, {"lr": config.lr})
        muon = torch.optim.Muon(
            self._part(hidden=True) or [{"params": []}],
            lr=config.lr,
            momentum=config.momentum,
            nesterov=config.nesterov,
            ns_steps=config.ns_steps,
            adjust_lr_fn=str(config.adjust),
        )
        betas = (config.beta1, config.beta2)
        others = self._part(hidden=False) or [{"params": []}]
        adamw = torch.optim.AdamW(others, lr=config.lr, betas=betas, eps=config.eps, fused=True)
        self._parts: dict[bool, Optimizer] = {True: muon, False: adamw}
        self._share()

    def _part(self, *, hidden: bool) -> list[dict[str, Any]]:
        return [group for group in self.param_groups if group["hidden"] == hidden]

    def _share(self) -> None:
        """Give both parts the groups and the state that are held here."""
        for hidden, part in self._parts.items():
            part.param_groups = self._part(hidden=hidden)
            part.state = self.state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state; what is held here is replaced, so it is shared anew."""
        super().load_state_dict(state_dict)
        self._share()

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update of every parameter that has a gradient."""
        for part in self._parts.values():
            part.step()

"""What Lion and SGD share: decay apart from the gradient, one moment, all tensors of a group in one call."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


class MomentOptimizer(Optimizer, ABC):
    """Decays, then adds a direction that a subclass computes; nothing waits for the device."""

    def __init__(self, groups: Iterable[dict[str, Any]], *, lr: float) -> None:
        super().__init__(groups, {"lr": lr, "weight_decay": 0.0})

    @abstractmethod
    def direction(self, gradients: list[Tensor], moments: list[Tensor]) -> list[Tensor]:
        """What is subtracted at a rate of one; moves ``moments`` on, which begin at zero."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update of every parameter that has a gradient."""
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            if not parameters:
                continue
            for parameter in parameters:
                if "moment" not in self.state[parameter]:
                    self.state[parameter]["moment"] = torch.zeros_like(parameter)
            moments = [self.state[p]["moment"] for p in parameters]
            direction = self.direction([p.grad for p in parameters], moments)
            if group["weight_decay"]:
                torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_add_(parameters, direction, alpha=-group["lr"])

"""Several models of one shape with their weights side by side, in tensors with an axis in front, computed as one.

Each stays a model by itself: its weights and gradients are slices of what all have together. The code of the first
is run for all by ``torch.vmap``; what it keeps for itself from pass to pass, it keeps for all.
"""

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lab.errors import one_line
from lab.model.attn import Losses
from lab.model.stacking import stacking
from lab.model.transformer import Transformer


class Together:
    """Models whose weights lie side by side."""

    def __init__(self, models: Sequence[Transformer]) -> None:
        self._code = _Code(copy.deepcopy(models[0]))
        self.keep(models)

    def keep(self, models: Sequence[Transformer]) -> None:
        """Be these models from now on: all that it has been, or some of them."""
        self._own = {name: [model.get_parameter(name) for model in models] for name in _weights(models[0])}
        self.weights = {name: _beside(own) for name, own in self._own.items()}
        self._buffers = {name: _beside([model.get_buffer(name) for model in models]) for name in _state(models[0])}

    def __call__(self, ids_KBT: Tensor) -> tuple[Tensor, Losses, Tensor]:
        """Vectors that enter each model's head, auxiliary losses, the head's weight."""
        return _of_all(self._code, self.weights, self._buffers, ids_KBT)

    def forget_gradients(self) -> None:
        """Begin anew."""
        for weight in self.weights.values():
            weight.grad = None

    def hand_out_gradients(self) -> None:
        """Give each model its slices."""
        for name, weight in self.weights.items():
            if weight.grad is not None:
                for own, grad in zip(self._own[name], weight.grad.unbind(), strict=True):
                    own.grad = grad


def refusal(model: Transformer, ids_BT: Tensor) -> str | None:
    """Why several models like this one cannot be computed together, in a few words; None where they can.

    Tried with two on some tokens; the model is left as it is. Refused are noise, which would not be that of each
    model by itself, and what would be done model by model.
    """
    one, *two = (copy.deepcopy(model) for _ in range(3))
    with torch.no_grad():
        if _draws_noise(one, ids_BT):
            return "noise is drawn while they train"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                Together(two)(ids_BT.expand(2, -1, -1))
        except (RuntimeError, Warning) as error:
            return one_line(error).partition(". ")[0]
    return None


def _draws_noise(model: Transformer, ids_BT: Tensor) -> bool:
    """Whether a pass moves the generator of its device."""
    now = torch.cuda.get_rng_state if ids_BT.device.type == "cuda" else torch.get_rng_state
    before = now()
    model.forward(ids_BT)
    return not torch.equal(before, now())


class _Code(nn.Module):
    """A pass up to the head."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids_BT: Tensor) -> tuple[Tensor, Losses, Tensor]:
        x_BTD, losses = self.model(ids_BT)
        return x_BTD, losses, self.model.head_weight()


def _of_all(
    code: _Code, weights: Mapping[str, Tensor], buffers: Mapping[str, Tensor], ids_KBT: Tensor
) -> tuple[Tensor, Losses, Tensor]:
    def one(tensors: Mapping[str, Tensor], ids_BT: Tensor) -> Any:
        return torch.func.functional_call(code, dict(tensors), (ids_BT,))

    tensors = {f"model.{name}": tensor for name, tensor in {**weights, **buffers}.items()}
    with stacking():
        x_KBTD, losses, head_KVD = torch.vmap(one)(tensors, ids_KBT)
    return x_KBTD, losses, head_KVD


def _weights(model: Transformer) -> list[str]:
    return [name for name, _ in model.named_parameters()]


def _state(model: Transformer) -> list[str]:
    """Buffers that change; the others are the same in all models."""
    weights = set(_weights(model))
    return [name for name in model.state_dict() if name not in weights]


def _beside(tensors: Sequence[Tensor]) -> Tensor:
    """All of them in one tensor, of which each becomes a slice."""
    together = torch.stack([tensor.detach() for tensor in tensors])
    for tensor, own in zip(tensors, together.unbind(), strict=True):
        tensor.data = own
    return together.requires_grad_(tensors[0].requires_grad)

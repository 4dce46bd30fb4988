"""The state of training: weights, optimizer, step. Batches and noise are functions of the step."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from lab.config import RunConfig
from lab.model.transformer import Architecture, Transformer
from lab.training.allocator import keep_freed_memory
from lab.training.compiled import compile_model
from lab.training.layer_stats import LayerStats


@dataclass
class TrainState:
    """All that a checkpoint has to hold."""

    model: Transformer
    optimizer: Optimizer
    step: int
    """Updates done."""
    layers: LayerStats | None = None
    """What looks at the layers before an update is clipped; in no checkpoint."""

    def tensors(self) -> dict[str, Tensor]:
        """Weights as ``model.NAME``, the optimizer's state as ``optim.NAME.KEY``."""
        named = {f"model.{name}": tensor.detach() for name, tensor in self.model.state_dict().items()}
        for name, parameter in trained(self.model):
            for key, value in self.optimizer.state[parameter].items():
                named[f"optim.{name}.{key}"] = torch.as_tensor(value)
        return named

    def load(self, tensors: Mapping[str, Tensor], step: int) -> None:
        """Take over what ``tensors`` gave."""
        weights = {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
        self.model.load_state_dict(weights)
        place = {id(p): n for n, p in enumerate(p for g in self.optimizer.param_groups for p in g["params"])}
        packed = self.optimizer.state_dict()
        for name, parameter in trained(self.model):
            prefix = f"optim.{name}."
            state = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
            if state:  # a finished run keeps its weights alone
                packed["state"][place[id(parameter)]] = state
        self.optimizer.load_state_dict(packed)  # puts each tensor where this optimizer wants it
        self.step = step


def new_state(config: RunConfig, architecture: Architecture) -> TrainState:
    """Step zero: weights drawn on the CPU from the run's seed, then moved to its device; what is frozen is so."""
    keep_freed_memory()
    model = architecture.build(study_seed=config.study_seed, seed=config.seed).to(config.device.value)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(architecture.attn.trains(name))
    if config.compile:
        compile_model(model)
    return TrainState(model=model, optimizer=_optimizer(config, architecture, model), step=0)


def trained(model: Transformer) -> Iterator[tuple[str, Parameter]]:
    """The parameters that are not frozen, by name: those that the optimizer has."""
    return ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)


def _optimizer(config: RunConfig, architecture: Architecture, model: Transformer) -> Optimizer:
    """One parameter group for each kind of parameter, weight decay and learning rate."""
    groups: dict[tuple[float, float, bool], list[Tensor]] = {}
    for name, parameter in trained(model):
        hidden = parameter.ndim == 2 and name.startswith("blocks.")
        scale = config.init.lr_scale(name, parameter.shape, architecture.dims)
        scale *= config.optim.peak_lr(hidden=hidden) / config.optim.lr
        decay = model.regularization.decay(name, parameter, config.optim.lr * scale)
        groups.setdefault((decay, scale, hidden), []).append(parameter)
    return config.optim.build(
        {"params": parameters, "weight_decay": decay, "lr_scale": scale, "hidden": hidden}
        for (decay, scale, hidden), parameters in groups.items()
    )

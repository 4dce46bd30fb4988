"""Runs of one graph, trained as one batched model: the forward and backward pass of a step of all of them.

Each keeps its own model, optimizer and place in the data. What may differ from run to run is what the graph does
not see: seeds, the optimizer and its numbers, the schedule, and numbers that a loss alone contains. Equal to
separate runs but for rounding.
"""

import json
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lab.component import Component
from lab.config import RunConfig
from lab.data.batches import Batches
from lab.model.loss import Objective
from lab.model.regularization import Regularization
from lab.model.stacked_loss import Objectives, Share, stacked_loss
from lab.model.together import Together
from lab.model.together import refusal as cannot
from lab.runs.identity import without
from lab.training.loop import to_device
from lab.training.precision import compute_in
from lab.training.state import TrainState

OUTSIDE_GRAPH = (
    "seed",
    "study_seed",
    "fresh",
    "preset",
    "init_from",
    "init_from_pool",
    "optim",
    "schedule",
    "track",
    "train.eval_every",
    "train.checkpoint_every",
    "checkpoint",
)
"""Keys in which runs of one stack may differ, beside those that a choice has in its own ``outside_graph``."""


class Member(Protocol):
    """A run in a stack."""

    @property
    def config(self) -> RunConfig:
        """Its settings."""

    @property
    def state(self) -> TrainState:
        """Its weights, optimizer and step."""

    @property
    def batches(self) -> Batches:
        """Its data."""


M = TypeVar("M", bound=Member)


def graph(config: RunConfig) -> str:
    """What runs of one stack have in common, in one string."""
    own = [
        f"{group}.{name}.{field}"
        for group, parts in (("stability", config.stability), ("regularization", config.regularization))
        for name, part in parts.items()
        for field in part.outside_graph
    ]
    return json.dumps(without(config.as_dict(), (*OUTSIDE_GRAPH, *own)), sort_keys=True)


def refusal(config: RunConfig, state: TrainState, batches: Batches) -> str | None:
    """Why runs like this one cannot be stacked, in a few words; None where they can."""
    if config.compile:
        return "the model is compiled (compile=false stacks)"
    if config.data.ngram_mask:
        return "data.ngram_mask leaves out targets, and not of each run as many"
    ids_BT = to_device(batches.at(0)[0][:1], config.device)
    with compute_in(config.precision, config.device):
        return cannot(state.model, ids_BT)


class Stack(Generic[M]):
    """Runs that take their steps together."""

    def __init__(self, members: Sequence[M]) -> None:
        self.members, self._minimised = _side_by_side(members)
        self._models = Together([member.state.model for member in self.members])

    def keep(self, members: Sequence[M]) -> None:
        """Go on with some of the runs."""
        self.members, self._minimised = _side_by_side(members)
        self._models.keep([member.state.model for member in self.members])

    def backward(self) -> list[Tensor]:
        """Gradients of each run's next batch; its loss in nats per token, in the order of ``members``."""
        config = self.members[0].config
        self._models.forget_gradients()
        x_KBT, y_KBT = (to_device(array, config.device) for array in self._batches())
        n_rows, n_tokens = x_KBT.shape[1], y_KBT[0].numel()
        micro = config.train.micro_batch_size or n_rows
        nats_K = torch.zeros(len(x_KBT), device=x_KBT.device)
        for first in range(0, n_rows, micro):
            rows = slice(first, first + micro)
            with compute_in(config.precision, config.device):
                hidden_KBTD, extra, head_KVD = self._models(x_KBT[:, rows])
                bias_KV = self._models.weights.get("head_bias")
                loss = stacked_loss(
                    self._minimised, hidden_KBTD, head_KVD, bias_KV, y_KBT[:, rows], denominator=n_tokens
                )
            objective_K = loss.objective + sum(extra.values()) * (micro / n_rows) if extra else loss.objective
            objective_K.sum().backward()  # type: ignore[no-untyped-call]
            nats_K += loss.nats
        self._models.hand_out_gradients()
        return list((nats_K / n_tokens).unbind())

    def _batches(self) -> tuple[NDArray[Any], NDArray[Any]]:
        batches = [member.batches.at(member.state.step) for member in self.members]
        return np.stack([x_BT for x_BT, _ in batches]), np.stack([y_BT for _, y_BT in batches])


def _side_by_side(members: Sequence[M]) -> tuple[list[M], Objectives]:
    """The runs with those that minimise the same in a row, and what they minimise."""
    groups: list[list[M]] = []
    for member in members:
        alike = (group for group in groups if _loss(group[0]) == _loss(member))
        if (group := next(alike, None)) is not None:
            group.append(member)
        else:
            groups.append([member])
    ordered = [member for group in groups for member in group]
    shares, first = [], 0
    for group in groups:
        shares.append(Share(Objective(group[0].state.model), first, first + len(group)))
        first += len(group)
    return ordered, Objectives(shares)


def _loss(member: Member) -> list[Component]:
    """The choices that say what it minimises."""
    stability, regularization = member.config.stability, member.config.regularization
    made = {name: cast(Regularization, part) for name, part in member.state.model.regularization.named_children()}
    inert = [name for name, part in made.items() if type(part).loss is Regularization.loss]
    return [*stability.values(), *(own for name, own in regularization.items() if name not in inert)]

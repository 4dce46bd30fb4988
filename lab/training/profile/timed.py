"""What a profiler saw of some steps, sorted into classes."""

import os
import statistics
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

from lab.training.profile.classes import CLASSES, MARK, OTHER, Scopes, classify

BACKWARD = "autograd::engine::evaluate_function: "
STEP = f"{MARK}step"


@dataclass(frozen=True, order=True)
class Operator:
    """One kind of operator of a class."""

    group: str
    name: str
    backward: bool


@dataclass(frozen=True)
class Seen:
    """Of each step that was profiled."""

    step_ms: list[float]
    class_ms: list[dict[str, float]]
    """By class; they sum to the step."""
    operator_ms: dict[Operator, list[float]]
    """Time of its own by operator; those of a class sum to it."""
    calls: Counter[Operator]
    """In all steps together."""
    kernels: int
    """Kernels on a GPU in all steps together."""


def watch(step: Callable[[], None], n_steps: int, scopes: Scopes, *, cuda: bool) -> Seen:
    """Profile some steps; on a GPU an operator's time is that of its kernels."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else it writes lines of its own
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    with profile(activities=activities) as profiler:
        for _ in range(n_steps):
            with record_function(STEP):
                step()
                if cuda:
                    torch.cuda.synchronize()
    return sort(list(profiler.events() or ()), scopes, cuda=cuda)


def sort(events: list[Any], scopes: Scopes, *, cuda: bool) -> Seen:
    """Give every event's own time to a class."""
    steps = sorted((e for e in events if e.name == STEP and _on_cpu(e)), key=lambda e: e.time_range.start)
    starts = [event.time_range.start for event in steps]
    totals = [event.cpu_time_total / 1000 for event in steps]
    classes: list[dict[str, float]] = [defaultdict(float) for _ in steps]
    operators: dict[Operator, list[float]] = defaultdict(lambda: [0.0] * len(steps))
    calls: Counter[Operator] = Counter()
    waiting: list[tuple[Any, str | None, str | None, bool]]
    waiting = [(e, None, None, False) for e in events if _on_cpu(e) and e.cpu_parent is None]
    while waiting:
        event, scope, inside, backward = waiting.pop()
        number = bisect_right(starts, event.time_range.start) - 1
        if number < 0:
            continue
        name, scope, backward = _read(event, scope, backward, scopes)
        group = OTHER if name == STEP else classify(name, scope, inside)
        own = (event.self_device_time_total if cuda else event.self_cpu_time_total) / 1000
        classes[number][group] += own
        operator = Operator(group, name, backward)
        operators[operator][number] += own
        calls[operator] += 1
        waiting += [(child, scope, group if name != STEP else None, backward) for child in event.cpu_children]
    if cuda:
        for total, found in zip(totals, classes, strict=True):
            found[OTHER] = total - sum(value for group, value in found.items() if group != OTHER)
    class_ms = [{group: found[group] for group in CLASSES} for found in classes]
    kernels = sum(event.device_type == DeviceType.CUDA for event in events)
    return Seen(totals, class_ms, dict(operators), calls, kernels)


def _on_cpu(event: Any) -> bool:
    return bool(event.device_type == DeviceType.CPU)


def _read(event: Any, scope: str | None, backward: bool, scopes: Scopes) -> tuple[str, str | None, bool]:
    """The event's plain name, the part it belongs to, and whether it is a backward."""
    name: str = event.name
    if name.startswith(MARK) and name != STEP:
        return name, name.removeprefix(MARK), backward
    if name.startswith(BACKWARD):
        known = event.sequence_nr >= 0
        return name.removeprefix(BACKWARD), scopes.made_in(event.sequence_nr) if known else scope, True
    return name.rpartition("::")[2], scope, backward


def scaled(seen: Seen, step_ms: float) -> tuple[dict[str, float], dict[Operator, float]]:
    """Medians over the steps, by class and by operator, scaled so that classes sum to ``step_ms``."""
    medians = {group: statistics.median(found[group] for found in seen.class_ms) for group in CLASSES}
    factor = step_ms / sum(medians.values())
    by_class = {group: value * factor for group, value in medians.items()}
    by_operator = {operator: statistics.median(values) * factor for operator, values in seen.operator_ms.items()}
    return by_class, by_operator

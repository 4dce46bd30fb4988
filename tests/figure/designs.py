"""Configurations to draw."""

import functools
from argparse import Namespace
from dataclasses import replace
from types import ModuleType

import yaml
from matplotlib.figure import Figure

from lab import choices
from lab.compose import compose_config
from lab.config import RunConfig
from lab.figure import Choice
from lab.figure._style import context
from lab.training.resolve import resolve
from tests.contracts import menu


@functools.cache
def base() -> RunConfig:
    """What the overrides of a test change."""
    return resolve(compose_config(["model=tiny", "device=cpu"]))


@functools.cache
def config(*words: str) -> RunConfig:
    """What a kind is given for these overrides; composing each would take a third of a second."""
    made = base()
    for word in words:
        key, _, text = word.partition("=")
        value = yaml.safe_load(text)
        group, *path = key.split(".")
        if not path and group in choices.COMBINED:
            new = {name: menu.config(group, name) for name in value if value != "none"}
        elif not path:
            new = menu.config(group, value)
        elif len(path) == 1:
            new = replace(getattr(made, group), **{path[0]: value})
        else:
            stack = getattr(made, group)
            new = {**stack, path[0]: replace(stack[path[0]], **{path[1]: value})}
        made = replace(made, **{group: new})
    return made


def drawn(kind: ModuleType, *words: str, choices: list[Choice] | None = None, **options: object) -> Figure:
    """What ``lab plot`` would draw."""
    found = choices or [Choice("", config(*words))]
    with context("paper"):
        figure = kind.draw(Namespace(choices=found, overrides=list(words), style="paper", **options))
        figure.draw_without_rendering()
    return figure

"""Configurations to draw."""

from argparse import Namespace
from types import ModuleType

from matplotlib.figure import Figure

from lab.compose import compose_config
from lab.config import RunConfig
from lab.figure import Choice
from lab.figure._style import context
from lab.training.resolve import resolve


def config(*words: str) -> RunConfig:
    """What a kind is given for these overrides."""
    return resolve(compose_config(["model=tiny", "device=cpu", *words]))


def drawn(kind: ModuleType, *words: str, choices: list[Choice] | None = None, **options: object) -> Figure:
    """What ``lab plot`` would draw."""
    found = choices or [Choice("", config(*words))]
    with context("paper"):
        figure = kind.draw(Namespace(choices=found, overrides=list(words), style="paper", **options))
        figure.draw_without_rendering()
    return figure

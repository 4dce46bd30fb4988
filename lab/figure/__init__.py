"""Figures: one file a kind, found by ``lab plot`` by listing this folder.

The contract of a kind, ``lab/figure/NAME.py``:

* The first line of its docstring is its help.
* ``NEEDS`` says what it is drawn from, and so which words the command takes: ``"runs"`` (paths, as ``lab table``
  takes them), ``"overrides"`` (as ``lab train`` takes them), ``"either"``, or ``"run"`` (one run).
  ``"comparison"`` takes paths too, and hands the kind ``options.comparison``, which ``lab table`` prints.
* ``EVERY_STAGE = True``, where it is there, says that runs of a study that tune a learning rate are drawn as well.
* ``add_arguments(parser)`` adds the options of its own.
* ``draw(options)`` gives a ``matplotlib.figure.Figure``. ``options`` holds, beside its own options and ``style``:
  ``runs``, a list of ``Run``, and ``in_order``, whether they come in a study's order; ``choices``, a list of
  ``Choice``, of which ``activation=gelu,swiglu`` makes two; ``run``, a ``lab.runs.store.RunFolder``.

A kind imports matplotlib, torch and what else is slow inside its functions, never ``pyplot``, and makes its figure
with ``lab.figure._style``. ``draw`` runs inside the context of the style that was asked for. A file whose name
begins with an underscore is no kind.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lab.config import RunConfig

NEEDS = ("runs", "overrides", "either", "run", "comparison")
"""What a kind may be drawn from."""


@dataclass(frozen=True)
class Run:
    """A run to draw."""

    record: Mapping[str, Any]
    """Its parsed ``result.json``."""
    folder: Path
    """Where its ``metrics.jsonl`` is."""
    arm: str | None = None
    """What the one study calls its variant; None: the settings that differ are its label."""
    lines: Sequence[Mapping[str, Any]] | None = None
    """Its metrics as they were stored, thinned: then its result says where the spikes are; None: the folder's."""


@dataclass(frozen=True)
class Choice:
    """A configuration to draw."""

    label: str
    """The words that tell it from the others; empty where it is the only one."""
    config: "RunConfig"
    """As ``lab train`` would run it, nothing left to ``auto``."""
    target: "RunConfig | None" = None
    """What ``lab train`` would match it to."""


def listing() -> dict[str, str]:
    """Each kind with its one-line help, read from its file without importing it."""
    files = sorted(path for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
    return {path.stem: _first_line(path) for path in files}


def _first_line(path: Path) -> str:
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return doc.partition("\n")[0]

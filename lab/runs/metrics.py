"""``metrics.jsonl``: one line a step, readable while the run goes on, rewound when it resumes.

A line holds ``step`` (updates done, from 1), ``loss`` (nats per token of the training batch, before the update),
``grad_norm`` (L2 norm over all parameters, before clipping), ``lr``, and ``val_loss`` where the step was
followed by a validation. Numbers that are not finite are null. Nothing in it depends on the clock;
``timing.jsonl`` beside it holds ``wall_s``.
"""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from lab.files import write_atomically


class JsonLines:
    """A file of one JSON object a line, appended to."""

    def __init__(self, path: Path, *, keep_steps: int, every_step: bool = True) -> None:
        """Open ``path``, dropping what lies after step ``keep_steps``, a torn last line and what follows a gap.

        Where not every step has a line, what follows one that goes back is dropped instead.
        """
        self.path = path
        whole = whole_lines(path) if every_step else rising_lines(path)
        kept = [line for line in whole if line["step"] <= keep_steps]
        self.n_lines = len(kept)
        data = "".join(_dump(line) for line in kept).encode()
        if not path.exists() or path.read_bytes() != data:
            write_atomically(path, data)
        self._file: TextIO = path.open("a", encoding="utf-8")

    def append(self, line: Mapping[str, Any]) -> None:
        """Add one line; other processes see it at once."""
        self._file.write(_dump(line))
        self._file.flush()
        self.n_lines += 1

    def sync(self) -> None:
        """Make all lines survive a power cut."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All whole lines; a torn last line, left by a kill, is passed over."""
    lines: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            value = json.loads(line)
        except json.JSONDecodeError:
            break
        if not isinstance(value, dict) or "step" not in value:
            break
        lines.append(value)
    return lines


def whole_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of steps 1, 2, 3, … up to the first that is missing; none where there is no file."""
    found = read_lines(path) if path.exists() else []
    return found[: next((n for n, line in enumerate(found) if line["step"] != n + 1), len(found))]


def rising_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a file that has some of the steps, as ``layers.jsonl``; none where there is no file."""
    found = read_lines(path) if path.exists() else []
    return found[: next((n for n in range(1, len(found)) if found[n]["step"] <= found[n - 1]["step"]), len(found))]


def column(lines: list[dict[str, Any]], key: str) -> list[float]:
    """One metric over the steps that have it; null is read as not a number."""
    return [math.nan if line[key] is None else float(line[key]) for line in lines if key in line]


def _dump(line: Mapping[str, Any]) -> str:
    finite = {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in line.items()
    }
    return json.dumps(finite, allow_nan=False) + "\n"

"""A figure as the bytes of a file."""

import io
import re
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from lab.figure._style import context

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""Suffix to the metadata that would make each file another one."""


def picture(kind: Any, options: Namespace, suffix: str) -> bytes:
    """Draw a figure.

    Args:
        kind: a module of ``lab.figure``.
        options: what it takes.
        suffix: one of ``FORMATS``.

    Raises:
        LabError: it cannot be drawn.
    """
    with context(options.style):
        figure: Figure = kind.draw(options)
        data = io.BytesIO()
        figure.savefig(data, format=suffix[1:], metadata=FORMATS[suffix])
    return data.getvalue()


def smaller(svg: bytes) -> bytes:
    """An SVG with its coordinates to tenths of a point, which nobody can see; texts stay as they are.

    What marks of one group have in common, their style, is said once, by the group.
    """
    svg = _COORDINATES.sub(lambda found: _JOINED.sub(b"", _FINE.sub(rb"\1", found[0])), svg)
    return _ALIKE.sub(lambda found: found[1] + found[3] + b">" + found[2].replace(found[3], b""), svg)


_COORDINATES = re.compile(rb'\b(?:d|x|y)="[^"]*"')
_FINE = re.compile(rb"(\d\.\d)\d+")
_JOINED = re.compile(rb" ?\n(?=[A-Zz])")
_ALIKE = re.compile(
    rb'(<g clip-path="[^"]*")>((?:\s*<use [^>]*?( style="[^"]*")/>)(?:\s*<use [^>]*?\3/>)+)(?=\s*</g>)'
)
"""A group of marks in one style; the style is its third group."""

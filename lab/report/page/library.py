"""The plotting library as the page carries it: whole, but so that a browser begins quickly.

The package has one build of plotly.js, of five megabytes and fifty kinds of charts. The page has lines alone, which
its core draws; a browser that sets up all kinds works for more than a second before it draws anything.
"""

import re
from functools import cache

from lab.errors import LabError

_BEGIN = '"use strict";var Plotly=('
_END = "window.Plotly = Plotly;\nreturn Plotly;\n}));"
_KINDS = re.compile(r"[\w$]+\.register\(\[(?:[\w$]+\(\),?){9,}\]\);?")
"""Where the build sets up every kind of chart beside its core."""


@cache
def library() -> str:
    """A script that defines ``Plotly``.

    Raises:
        LabError: the package is missing.
    """
    try:
        from plotly.offline import get_plotlyjs  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise LabError("lab report needs plotly: pip install 'ablation-lab[report]'") from error
    return lines_alone(bare(str(get_plotlyjs())))


def bare(script: str) -> str:
    """Without the function that hands the library to module loaders, which a browser would read twice.

    A build that looks different is left as it is; the licences, in comments, stay in any case.
    """
    head, begin, rest = script.partition(_BEGIN)
    body, end, tail = rest.rpartition(_END)
    if not begin or not end or tail.strip():
        return script
    return f"{head[: head.rfind('*/') + 2]}\n{begin}{body}"


def lines_alone(script: str) -> str:
    """With the core alone set up; a build that looks different is left as it is."""
    return _KINDS.sub("", script) if len(_KINDS.findall(script)) == 1 else script

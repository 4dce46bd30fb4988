"""The family of contrasts that a study declares, from the plain values of its declaration."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from lab.errors import ConfigError
from lab.report.combined import Combination
from lab.report.effects import Stats
from lab.study.design import Contrast, asked_for


def family_of(declared: Mapping[str, Any], arms: Sequence[str], *, exploratory: bool = False) -> dict[str, Any]:
    """What a study says of its verdicts, as ``lab.report.comparison.compare`` takes it.

    Args:
        declared: the study at its tier, as ``study.json`` has it.
        arms: labels of the rows, the baseline first.
        exploratory: whether the rows or the baseline are not those that the study declares.
    """
    stats = declared.get("stats") or {}
    kept = {key: stats[key] for key in ("alpha", "power", "margin") if stats.get(key) is not None}
    asked = _asked(declared, arms) if not exploratory else ()
    unjudged = declared.get("verdicts") is False
    return {
        "metric": declared.get("primary") or "final_loss",
        "stats": Stats(**kept),
        "m": len(asked) or max(_size(declared, len(arms)), len(arms) - 1, 1),
        "missing": [f"tier {declared.get('tier')} is not judged"] if unjudged else [],
        "declared": {each.plus[0] for each in asked if _is_plain(each, arms[0])} if asked else None,
        "combinations": [
            Combination(name=each.name, plus=each.plus, minus=each.minus)
            for each in asked
            if not _is_plain(each, arms[0])
        ],
    }


def _asked(declared: Mapping[str, Any], arms: Sequence[str]) -> tuple[Contrast, ...]:
    """The contrasts that a study declares; none where one is of an arm that is still to come."""
    single = [part["name"] for part in declared.get("variants") or ()]
    try:
        return asked_for(arms, declared.get("contrasts"), declared.get("design") or "star", single)
    except ConfigError:
        return ()


def _is_plain(each: Contrast, base: str) -> bool:
    """Whether it is one variant less the baseline, which is a row."""
    return len(each.plus) == 1 and each.minus == (base,)


def _size(declared: Mapping[str, Any], arms: int) -> int:
    """Contrasts that the study declares."""
    if declared.get("contrasts"):
        return len(declared["contrasts"])
    single = len(declared.get("variants") or ())
    return single + math.comb(single, 2) if declared.get("design") == "pairwise" else arms - 1

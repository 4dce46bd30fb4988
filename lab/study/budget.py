"""Which arms of a study to leave out so that it fits a budget of time: arms, and never seeds."""

import dataclasses
import shlex
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from lab.study.board import duration
from lab.study.sections import Tier
from lab.study.study import Study
from lab.study.words import text


@dataclass(frozen=True, kw_only=True)
class Cut:
    """What to leave out."""

    dropped: tuple[str, ...]
    """Variants, in the order in which they go."""
    kept: tuple[str, ...]
    """The others, in the file's order."""
    seconds: float
    """What is left takes then."""
    fits: bool
    """Whether that is within the budget; else nothing more can go."""

    def word(self, tier: str) -> str:
        """The override that leaves them out."""
        return f"study.tiers.{tier}.arms={text([*self.kept])}"

    def text(self, study: Study, *, seconds: float, minutes: float, claims: Collection[str]) -> str:
        """In one line: whether the study fits, and what to do.

        Args:
            study: at its tier.
            seconds: what all of it takes.
            minutes: the budget.
            claims: in reach, and judged by arms that would go.
        """
        whole = f"about {duration(seconds)}"
        if not self.dropped:
            return f"{whole}, " + (
                f"within {minutes:g} min" if self.fits else f"more than {minutes:g} min, and no arm can be left out"
            )
        rest = (
            f"{whole}, more than {minutes:g} min: without {', '.join(self.dropped)} about {duration(self.seconds)}"
        )
        rest += "" if self.fits else ", which is still more, and seeds are not to go: fewer steps"
        lost = f"; that takes arms of {', '.join(claims)}" if claims else ""
        how = (
            f": {shlex.quote(self.word(study.tier))}"
            if study.tier
            else "; a tier's arms can be given on the command line"
        )
        return f"{rest}{lost}{how}"


def cut(study: Study, *, limit_s: float, seconds: Callable[[Collection[str]], float], last: Collection[str]) -> Cut:
    """Leave out variants from the end of the file's order until the rest fits.

    Args:
        study: at its tier.
        limit_s: the budget.
        seconds: what is left takes without these variants.
        last: variants that go after all others have gone.
    """
    order = [variant.name for variant in reversed(study.variants)]
    order.sort(key=lambda name: name in last)
    dropped: list[str] = []
    for name in order:
        if seconds(dropped) <= limit_s:
            break
        if _compares(study, {*dropped, name}):
            dropped.append(name)
    left = seconds(dropped)
    kept = tuple(variant.name for variant in study.variants if variant.name not in dropped)
    return Cut(dropped=tuple(dropped), kept=kept, seconds=left, fits=left <= limit_s)


def without(arms: Collection[str], variants: Collection[str]) -> Iterator[str]:
    """The arms that stay when variants go, and with them the pairs that they are in."""
    return (name for name in arms if not {name, *name.split("+")} & {*variants})


def _compares(study: Study, gone: Collection[str]) -> bool:
    """Whether a contrast is left."""
    names = [variant.name for variant in study.variants if variant.name not in gone]
    if not names:
        return False
    rest = dataclasses.replace(study, tiers={"": Tier(name="", arms=names)}).at("")
    return rest.contrasts is None or bool(rest.contrasts)

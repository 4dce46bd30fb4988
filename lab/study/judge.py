"""What a study says between its stages: which rates were picked, and whether it can see what it looks for."""

import logging
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lab.errors import LabError
from lab.study.cell import Cell, Stage
from lab.study.expand import Results
from lab.study.gate import Sight, look
from lab.study.script import BASELINE, loss, picks
from lab.study.settings import SweepSettings
from lab.study.study import Study
from lab.study.words import Keys

log = logging.getLogger(__name__)


def ask(question: str) -> bool:
    """Ask on a terminal; what is no terminal says no."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return input(f"{question} Go on? [y/N] ").strip().lower() in ("y", "yes")


@dataclass
class Judge:
    """Follows a study from stage to stage."""

    study: Study
    settings: SweepSettings
    keys: Keys | None = None
    asks: Callable[[str], bool] = ask
    tuned: dict[Cell, dict[str, Any] | None] = field(default_factory=dict)

    def after(self, stage: Stage, results: Results) -> None:
        """Say what follows from a stage.

        Raises:
            LabError: the study cannot see the effect that is sought, and nobody wants to go on.
        """
        if any(cell.role == "tune" for cell in stage.cells):
            self._tuning(results)
        if stage.name == BASELINE:
            self._floor(results)

    def _tuning(self, results: Results) -> None:
        self.tuned |= results
        arms = {cell.arm for cell in results}
        for pick in picks(self.tuned, self.study.primary):
            if pick.arm in arms and pick.lr is not None:
                means = ", ".join(
                    f"{rate:g}: {'diverged' if m == math.inf else f'{m:.4f}'}" for rate, m in pick.means
                )
                edge = "; it is at the edge of what was tried, a better one may lie beyond" if pick.edge else ""
                log.info("%s: best rate %g of %s%s", pick.arm, pick.lr, means, edge)

    def before(self) -> None:
        """Where the study's file says how far seeds scatter, ask before anything is trained.

        Raises:
            LabError: as ``after``.
        """
        if self.study.gate is not None and self.study.gate.sd is not None:
            self._decide(look(self.study, [], self.keys))

    def _floor(self, results: Results) -> None:
        if self.study.verdicts:
            losses = [loss(result, self.study.primary) for result in results.values()]
            self._decide(look(self.study, losses, self.keys))

    def _decide(self, sight: Sight) -> None:
        if sight.enough or self.settings.accept_mde:
            log.info("%s", sight.text)
        elif not self.asks(sight.text):
            raise LabError(f"study {self.study.name}: {sight.text}")

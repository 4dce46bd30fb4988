"""TensorBoard: scalars in ``tensorboard/`` below the run's folder; seen with ``--logdir outputs/runs``."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.errors import LabError
from lab.track import TrackConfig, Tracker
from lab.track._series import earlier, flat, numbers

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


@dataclass(frozen=True, kw_only=True)
class Config(TrackConfig):
    """Metrics and result to event files."""

    def build(self, run_id: str, config: Mapping[str, Any], folder: Path) -> Tracker:
        """A tracker whose file holds every step once: a resumed run's is written anew from ``metrics.jsonl``.

        Raises:
            LabError: TensorBoard is not installed.
        """
        if find_spec("tensorboard") is None:
            raise LabError("track=tensorboard needs tensorboard: pip install 'ablation-lab[tensorboard]'")
        from torch.utils.tensorboard import SummaryWriter

        shutil.rmtree(folder / "tensorboard", ignore_errors=True)
        writer = SummaryWriter(str(folder / "tensorboard"))
        return TensorBoard(writer, folder)


class TensorBoard(Tracker):
    """One event file."""

    def __init__(self, writer: "SummaryWriter", folder: Path) -> None:
        self._writer, self._told = writer, 0
        for step, line in enumerate(earlier(folder), start=1):
            self.log(step, line)

    def log(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """One step's metrics, unless the file has them."""
        if step > self._told:
            for name, value in numbers(metrics).items():
                self._writer.add_scalar(name, value, step)
            self._told = step

    def finish(self, result: Mapping[str, Any]) -> None:
        """The result's numbers as scalars of the last step."""
        for name, value in flat(result):
            if not isinstance(value, str):
                self._writer.add_scalar(f"result/{name}", value, self._told)
        self._writer.close()

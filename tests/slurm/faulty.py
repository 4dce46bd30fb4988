"""A schedule with which a run crashes, is killed or dawdles, so that others have time to do something to it."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from lab.schedule import ScheduleConfig

STEP_S = 0.2


@dataclass(frozen=True, kw_only=True)
class Config(ScheduleConfig):
    """A constant rate."""

    fault: str
    at: int

    def factor(self, step, steps):
        if step >= self.at and self.fault != "none":
            getattr(self, f"_{self.fault}")(step)
        return self.after_warmup(0)

    def after_warmup(self, progress):
        return 1.0

    def _crash(self, step):
        raise RuntimeError("out of luck")

    def _kill(self, step):
        """Die, and the next attempt does not."""
        mark = Path(os.environ["LAB_OUTPUTS"]) / "killed"
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    def _dawdle(self, step):
        """Take minutes, the first time that Slurm runs the job."""
        if "SLURM_JOB_ID" in os.environ and "SLURM_RESTART_COUNT" not in os.environ:
            time.sleep(STEP_S)

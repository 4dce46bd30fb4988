"""Runs as jobs of a cluster: submitit submits them to Slurm, as arrays, and what came of each is waited for.

A job that reached its time limit, or was preempted, saves its run, goes back into the queue and resumes. One that
is gone without a result has failed: Slurm's queue says so, no accounting is needed.
"""

import io
import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import LabError, Stopped, one_line
from lab.paths import outputs_dir
from lab.study.worker import Ended

ARRAY_SIZE = 1000
"""Most jobs in an array; Slurm takes 1,001 where nothing else is configured."""

LOOK_S = 1.0
"""Seconds between two looks for results."""

ASK_S = 15.0
"""Seconds between two questions to Slurm."""

LATE_S = 15.0
"""Seconds that the result of a job that is gone may take to appear on a shared file system."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Attempt:
    """What a job does, the first time and whenever it has gone back into the queue."""

    call: Callable[[], Any]

    def __call__(self) -> Any:
        """Do it, as one rank of several where the job has several tasks."""
        from submitit import JobEnvironment
        from submitit.helpers import TorchDistributedEnvironment

        requeue: Any = signal.getsignal(signal.SIGUSR2)  # submitit's own
        if JobEnvironment().num_tasks > 1:
            TorchDistributedEnvironment().export(set_cuda_visible_devices=False, overwrite=True)
        try:
            return self.call()
        except Stopped as stop:  # the run is saved
            if stop.signal_number == signal.SIGUSR2 or _is_in_grace():
                requeue(signal.SIGUSR2, None)
            raise SystemExit(128 + stop.signal_number) from stop  # without a result: whoever stopped it, knows

    def checkpoint(self) -> Any:
        """What the job does when it comes out of the queue again: submitit asks."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def _is_in_grace() -> bool:
    """Whether this job was sent SIGTERM and yet goes on for Slurm.

    So it is in the time of grace before a preemption. One that leaves in it by itself counts as ended.
    """
    job = os.environ.get("SLURM_JOB_ID")
    return job is not None and _ask("squeue", "--noheader", f"--jobs={job}", "--format=%T") == "RUNNING"


@dataclass(frozen=True)
class Cluster:
    """Where jobs go."""

    executor: str
    """submitit's name of it: ``slurm``, or ``local`` for processes of this machine."""
    parameters: Mapping[str, Any]
    """submitit's, by its names; None leaves one to the cluster."""

    def run(self, jobs: Sequence[tuple[str, Callable[[], Any]]]) -> list[Ended]:
        """Do named jobs, and say what came of each.

        Raises:
            LabError: they cannot be submitted.
            KeyboardInterrupt: the process was asked to stop waiting; the jobs go on.
        """
        with _submitting():
            submitted = list(self._submitted([call for _, call in jobs]))
        ids = ", ".join(dict.fromkeys(job.job_id.partition("_")[0] for job in submitted))
        if self.executor == "slurm":
            log.info("%s with Slurm as job %s", _runs(len(jobs), "is", "are"), ids)
        ended: dict[int, Ended] = {}
        try:
            for index, end in self._ends(submitted):
                ended[index] = end
                if end.error is not None:
                    log.error("%s (in the run %s)", one_line(end.error), jobs[index][0])
        except KeyboardInterrupt:
            if self.executor == "slurm":
                left = len(jobs) - len(ended)
                log.warning("%s on in Slurm; `scancel %s` ends what is left", _runs(left, "goes", "go"), ids)
            else:
                for job in submitted:
                    job.cancel()
            raise
        return [ended[index] for index in range(len(jobs))]

    def _submitted(self, calls: Sequence[Callable[[], Any]]) -> Iterator[Any]:
        from submitit import AutoExecutor

        given = {key: value for key, value in self.parameters.items() if value is not None}
        timeouts = {key: given.pop(key) for key in ["slurm_max_num_timeout"] if key in given}
        executor = AutoExecutor(outputs_dir().absolute() / "submitit" / "%j", cluster=self.executor, **timeouts)
        executor.update_parameters(**given)
        for first in range(0, len(calls), ARRAY_SIZE):
            attempts = [Attempt(call) for call in calls[first : first + ARRAY_SIZE]]
            with executor.batch():
                submitted = [executor.submit(attempt) for attempt in attempts]
            yield from submitted

    def _ends(self, jobs: Sequence[Any]) -> Iterator[tuple[int, Ended]]:
        """Each job's position and end, as they come."""
        waiting = dict(enumerate(jobs))
        gone: dict[int, float] = {}
        asked = time.monotonic()
        while waiting:
            for index, job in list(waiting.items()):
                if _has_result(job):
                    yield index, _result(waiting.pop(index))
                elif index in gone and time.monotonic() > gone[index] + LATE_S:
                    yield index, Ended(error=_lost(waiting.pop(index)))
            if waiting and time.monotonic() > asked + ASK_S:
                asked = time.monotonic()
                there = self._there(list(waiting.values()))
                gone = {i: gone.get(i, asked) for i, job in waiting.items() if job.job_id not in there}
            time.sleep(LOOK_S)

    def _there(self, jobs: Sequence[Any]) -> set[str]:
        """Ids of the jobs that wait, run, or will run again; all of them where there is no answer."""
        ids = {job.job_id for job in jobs}
        if self.executor == "local":
            return {job.job_id for job in jobs if not job.done()}
        arrays = ",".join({id.partition("_")[0] for id in ids})
        answer = _ask("squeue", "--noheader", "--array", f"--jobs={arrays}", "--format=%i")
        return ids if answer is None else ids & set(answer.split())


def _runs(n: int, one: str, several: str) -> str:
    return f"1 run {one}" if n == 1 else f"{n} runs {several}"


def _ask(*command: str) -> str | None:
    """What a command of Slurm's says; None where it does not answer."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if "Invalid job id" in done.stderr:  # it ended a while ago
        return ""
    return None if done.returncode else done.stdout.strip()


@contextmanager
def _submitting() -> Iterator[None]:
    """Turn what submitit prints and raises into one line."""
    try:
        with redirect_stderr(io.StringIO()):
            yield
    except (OSError, RuntimeError, ValueError) as error:
        raise LabError(f"the runs cannot be submitted: {one_line(error)}") from error


def _has_result(job: Any) -> bool:
    path: Path = job.task(0).paths.result_pickle
    with suppress(OSError):  # so that a shared file system looks again
        path.parent.chmod(path.parent.stat().st_mode)
    return path.exists()


def _result(job: Any) -> Ended:
    """What a job's first task says came of it."""
    first = job.task(0)
    try:
        return Ended(first.result())
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line and not line.startswith((" ", "-", "You can"))]
        return Ended(error=LabError(f"{lines[-1]}; see {first.paths.stderr}"))


def _lost(job: Any) -> LabError:
    """The error of a job that left no result."""
    return LabError(
        f"job {job.job_id} is gone without a result, killed or cancelled; see {job.task(0).paths.stderr}"
    )

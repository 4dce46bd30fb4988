"""Runs side by side on one machine: a fresh process for each, so many at once, all ended with the one that asked.

The processes are forked from a server that has imported PyTorch already; where there is no fork they are spawned.
Each has a pipe to its launcher: it sends its warnings and what came of it, and hears on it that it is to stop. A
closed pipe says the same, so no worker outlives its launcher for long.
"""

import logging
import multiprocessing
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any

from lab.errors import LabError, Stopped
from lab.study.worker import Ended, StoppedError, work

METHOD = "forkserver" if sys.platform == "linux" else "spawn"

PRELOAD = ["torch", "torch._dynamo", "lab.training.run", "lab.commands.train", "hydra_plugins.lab.pool"]
"""What the server imports once for all runs; nothing of it touches a GPU or starts a thread."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """One run."""

    name: str
    call: Callable[[], Any]
    """What the worker does; it and its value can be pickled."""


@dataclass
class Worker:
    """A process with its job."""

    index: int
    process: BaseProcess
    pipe: Connection
    slot: Mapping[str, str]
    ended: Ended | None = None

    def stop(self) -> None:
        """Ask it to save and leave."""
        with suppress(OSError):
            self.pipe.send(None)


@dataclass
class Teller:
    """One line when a run starts, and one when it ends."""

    total: int
    began: dict[int, float] = field(default_factory=dict)

    def started(self, index: int, job: Job) -> None:
        """A run has a process."""
        self.began[index] = time.monotonic()
        log.info("%d/%d starts: %s", index + 1, self.total, job.name)

    def ended(self, index: int, ended: Ended) -> None:
        """A process has ended."""
        how = "ended" if ended.error is None else "failed"
        log.info("%d/%d %s after %.1f s", index + 1, self.total, how, time.monotonic() - self.began[index])


@dataclass
class Pool:
    """So many workers at once as there are slots; ``run`` returns when the last has ended."""

    slots: Sequence[Mapping[str, str]]
    """The environment variables in which the workers differ: their GPU."""
    stop_on_error: bool = False
    """Whether nothing new starts after a failure."""
    teller: "Teller | None" = None
    """Says on the console what starts and what ends."""
    workers: list[Worker] = field(default_factory=list)
    signal_number: int | None = None

    def run(self, jobs: Iterator[Job]) -> dict[int, Ended]:
        """Do the jobs, and say what came of each by its position; those not started are missing.

        Args:
            jobs: made one ahead, while earlier ones run.

        Raises:
            Stopped: the process was asked to stop; the workers were, too, and have ended.
        """
        context: Any = multiprocessing.get_context(METHOD)
        context.set_forkserver_preload(PRELOAD)
        ended: dict[int, Ended] = {}
        free, coming = list(self.slots), enumerate(jobs)
        with self._signals():
            following = next(coming, None)
            while self.workers or following is not None:
                while following is not None and free and self._goes_on(ended):
                    self._start(context, *following, free.pop(0))
                    following = next(coming, None)
                if not self.workers:
                    break
                for pipe in wait([worker.pipe for worker in self.workers]):
                    worker = next(worker for worker in self.workers if worker.pipe is pipe)
                    if self._hear(worker):
                        self.workers.remove(worker)
                        free.append(worker.slot)
                        ended[worker.index] = worker.ended or Ended(error=_death(worker.process))
                        if self.teller:
                            self.teller.ended(worker.index, ended[worker.index])
        if self.signal_number is not None:
            saved = sum(isinstance(end.error, StoppedError) for end in ended.values())
            raise Stopped(f"stopped; {saved} runs are saved and go on with the same command", self.signal_number)
        return ended

    def _goes_on(self, ended: Mapping[int, Ended]) -> bool:
        failed = self.stop_on_error and any(end.error is not None for end in ended.values())
        return self.signal_number is None and not failed

    def _start(self, context: Any, index: int, job: Job, slot: Mapping[str, str]) -> None:
        ours, theirs = context.Pipe()
        arguments = (theirs, {**os.environ, **slot}, pickle.dumps(job.call))
        process = context.Process(target=work, args=arguments, name=job.name)
        process.start()
        theirs.close()
        self.workers.append(Worker(index, process, ours, slot))
        if self.teller:
            self.teller.started(index, job)
        if self.signal_number is not None:  # it came while this one was started
            self.workers[-1].stop()

    def _hear(self, worker: Worker) -> bool:
        """Take what a worker says; whether it has ended."""
        try:
            said = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join()
            worker.pipe.close()
            return True
        if isinstance(said, Ended):
            worker.ended = said
        else:
            log.log(*said)
        return False

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Hand the first signal on to the workers; at the second they are killed."""

        def note(number: int, frame: FrameType | None) -> None:
            if self.signal_number is not None:
                for worker in self.workers:
                    worker.process.kill()
                raise Stopped("stopped at once", number)
            self.signal_number = number
            for worker in self.workers:
                worker.stop()

        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        former = {n: signal.getsignal(n) for n in numbers if signal.getsignal(n) != signal.SIG_IGN}
        for number in former:
            signal.signal(number, note)
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)
            for worker in self.workers:  # something is wrong here: they notice
                worker.pipe.close()


def _death(process: BaseProcess) -> LabError:
    """Why a worker ended without a word."""
    code = process.exitcode or 0
    if code >= 0:
        return LabError(f"its process ended by itself, with exit status {code}")
    name = signal.Signals(-code).name
    return LabError(f"killed by {name}{' (out of memory, or kill -9)' if name == 'SIGKILL' else ''}")


def slots(n_jobs: int | None, *, jobs_per_gpu: int, device: str, threads: int) -> list[dict[str, str]]:
    """One entry for each run at a time: on GPUs ``jobs_per_gpu`` each, else a usable core for each of its threads.

    Args:
        n_jobs: so many instead.
        jobs_per_gpu: runs that share a GPU.
        device: what the runs ask for.
        threads: of one run.
    """
    gpus = _gpus() if device in ("auto", "cuda") else []
    if gpus:
        return [{"CUDA_VISIBLE_DEVICES": gpus[i % len(gpus)]} for i in range(n_jobs or jobs_per_gpu * len(gpus))]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return [{}] * (n_jobs or max(1, cores // threads))


def _gpus() -> list[str]:
    """The GPUs this process may use, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    count = torch.cuda.device_count()
    given = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return (given or [str(number) for number in range(count)])[:count]

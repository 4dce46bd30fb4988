"""The ranks that torchrun starts: how they join, exchange, fail and leave.

The first rank is the one that holds the run, writes and speaks. A rank that fails says why through the store that
torchrun keeps; every rank looks there five times a second, so that all end, and the first one writes the reason
down, though they may be waiting for each other on a device.
"""

import json
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn

from lab.config import Device
from lab.errors import ConfigError, LabError, one_line
from lab.progress import hide
from lab.training import gradients
from lab.training.interrupt import ask_once
from lab.training.ranks import ALONE, Found, Ranks, T
from lab.training.resolve import resolve_device

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

TIMEOUT = timedelta(minutes=30)
"""How long ranks wait for each other in an exchange. That one has died is noticed at once."""

POLL_S = 0.2
"""Seconds between two looks at what others said."""

LISTEN_S = 20.0
"""Seconds that a rank that has failed waits for the first one to write it down."""

STAY_S = 20.0
"""Seconds that the first rank waits for others to go; without torchrun the store ends with it."""

PLANNED, BEGUN, OVER, FAILED, HEARD, GONE = "planned", "begun", "over", "failed", "heard", "gone"
"""What ranks say in the store."""

log = logging.getLogger(__name__)


class ExchangeError(LabError):
    """An exchange with the other ranks came to nothing."""


class Joined(Ranks):
    """One of several processes."""

    def __init__(self, rank: int, size: int, here: int, store: "Store") -> None:
        self.rank, self.size, self.here = rank, size, here
        self._store = store
        self._left = threading.Event()
        self._last_words: Callable[[str], str] | None = None
        self._parent = os.getppid()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()

    def in_turn(self, work: Callable[[], T]) -> T:
        """The first rank's work, then that of the others."""
        if not self.first:
            self._hear(PLANNED)
            return work()
        made = work()
        self._store.set(PLANNED, "")
        return made

    def begin(self) -> bool:
        """Say, or wait to hear, whether there is something to train."""
        if not self.first:
            return self._hear(BEGUN, OVER) == BEGUN
        self._store.set(BEGUN, "")
        return True

    def sum(self, tensor: Tensor) -> Tensor:
        """Added up in place."""
        with self._touch():
            dist.all_reduce(tensor)
        return tensor

    def largest(self, number: float) -> float:
        """By way of the CPU, so that no device is waited for."""
        numbers = torch.tensor(number, dtype=torch.float64)
        with self._touch():
            dist.all_reduce(numbers, op=dist.ReduceOp.MAX)
        return numbers.item()

    def asked(self, signal_number: int | None) -> int | None:
        """An exchange at every step."""
        return int(self.largest(signal_number or 0)) or None

    def from_first(self, found: Found) -> Found:
        """Tensors go as bytes, of whatever type they are."""
        outline: list[Any] = [None]
        if self.first:
            outline = [(found[1], [(name, tensor.shape, tensor.dtype) for name, tensor in found[0].items()])]
        tensors: dict[str, Tensor] = {}
        with self._touch():
            dist.broadcast_object_list(outline)
            step, parts = outline[0]
            for name, shape, dtype in parts:
                tensors[name] = found[0][name].cpu().contiguous() if self.first else torch.empty(shape, dtype=dtype)
                if tensors[name].numel():
                    dist.broadcast(tensors[name].view(-1).view(torch.uint8), src=0)
        return tensors, step

    @contextmanager
    def summed(self, model: nn.Module) -> Iterator[None]:
        """Bucket by bucket, while the backward pass goes on."""
        with self._touch(), gradients.summed(model):
            yield

    def leave(self) -> None:
        """From here on it does not matter what becomes of the others."""
        if not self._left.is_set():
            self._left.set()
            self._watch.join()
            dist.destroy_process_group()
            self._store.add(GONE, 1)

    def over(self) -> None:
        """Leave, after the first rank has said that there is nothing to wait for."""
        with suppress(RuntimeError):
            if self.first:
                self._store.set(OVER, "")
            self.leave()
            self._see_off()

    def _see_off(self) -> None:
        """Let the other ranks go first."""
        end = time.monotonic() + STAY_S
        while self.first and self._store.add(GONE, 0) < self.size and time.monotonic() < end:
            time.sleep(POLL_S / 4)

    def when_one_fails(self, act: Callable[[str], str]) -> None:
        """On the first rank; in a thread that watches."""
        self._last_words = act

    def fail(self, error: Exception) -> BaseException:
        """Say why the run ends, if nobody has said so before; what to raise."""
        self._left.set()
        self._watch.join()
        lost = any(isinstance(one, ExchangeError) for one in (error, error.__cause__))
        kind = "" if isinstance(error, LabError) else f"{type(error).__name__}: "
        reason = f"rank {self.rank}: {kind}{one_line(error)}"
        text = json.dumps({"reason": reason, "traceback": traceback.format_exc()})
        with suppress(RuntimeError):  # the store ends with torchrun
            told = self._store.compare_set(FAILED, "", text) == text.encode()
            if self.first:
                self._store.add(GONE, self.size if lost else 1)
                self._see_off()
                return error
            if not told:
                return SystemExit(0)
            print(f"lab train: {reason}", file=sys.__stderr__, flush=True)
            if not lost:
                self._hear(HEARD, patience_s=LISTEN_S)
        return error if self.first else SystemExit(0)  # torchrun ends all as soon as one ends with an error

    def _hear(self, *words: str, patience_s: float = float("inf")) -> str | None:
        """The first of some words that is said in the store; None when patience ends."""
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            for word in words:
                if self._store.check([word]):
                    return word
            time.sleep(POLL_S / 4)
        return None

    def _look(self) -> None:
        """Wait in a thread for another rank to fail, or for torchrun to be killed, and end the process then."""
        while not self._left.wait(POLL_S):
            self._end_with_torchrun()
            try:
                if self._store.check([FAILED]):
                    self._end(json.loads(self._store.get(FAILED)))
            except RuntimeError:  # the store is gone, and its process; an exchange will tell
                return

    def _end_with_torchrun(self) -> None:
        """End as if killed where torchrun was: ranks are in sessions of their own, and nobody else ends them."""
        if os.getppid() != self._parent:
            os._exit(1)

    def _end(self, told: dict[str, str]) -> NoReturn:
        """End at once, for the thread that trains may be waiting for ever; the first rank writes the reason."""
        if not self.first:
            self._store.add(GONE, 1)
            os._exit(0)
        log.debug("%s", told["traceback"])
        reason = told["reason"]
        said = self._last_words(reason) if self._last_words else reason
        print(f"lab train: {said}", file=sys.stderr, flush=True)
        with suppress(RuntimeError):
            self._store.set(HEARD, "")
        os._exit(1)

    @contextmanager
    def _touch(self) -> Iterator[None]:
        """Say in words that an exchange came to nothing; PyTorch names sockets.

        Raises:
            ExchangeError: it did.
        """
        try:
            yield
        except RuntimeError as error:
            text = str(error).lower()
            if "gloo" not in text and not isinstance(error, dist.DistError):
                raise
            self._end_with_torchrun()
            late = "timed out" in text or "timeout" in text
            why = f"nothing came in {TIMEOUT.seconds // 60} minutes" if late else "another rank has ended"
            raise ExchangeError(f"an exchange with the other ranks came to nothing: {why}") from error


@contextmanager
def joined(device: Device) -> Iterator[Ranks]:
    """The ranks that torchrun has started, this process among them; ``ALONE`` without it.

    Raises:
        LabError: they cannot be joined, or the first of them failed.
        SystemExit: the run failed or was stopped; this is not the first rank, which says so.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    ranks = _join(device)
    ask_once()
    if not ranks.first:
        hide()
    try:
        yield ranks
    except Exception as error:
        raise ranks.fail(error) from error
    except KeyboardInterrupt:
        if not ranks.first:
            raise SystemExit(0) from None
        raise
    else:
        ranks.over()


def _join(wanted: Device) -> Joined:
    """Find the other ranks.

    Raises:
        LabError: the machine lacks devices for them, or the environment is not torchrun's.
    """
    from torch._C._distributed_c10d import PrefixStore  # here, for builds of PyTorch that lack it
    from torch.distributed.rendezvous import rendezvous

    here = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
    device = resolve_device(wanted)
    if device is Device.mps:
        raise ConfigError("device 'mps' is one, and torchrun has started several ranks: use device=cpu")
    if device is Device.cuda:
        if here > torch.cuda.device_count():
            raise ConfigError(
                f"device 'cuda': {here} ranks on this machine, which has {torch.cuda.device_count()} GPUs; "
                "give torchrun as many with --nproc_per_node"
            )
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    try:
        found, rank, size = next(rendezvous("env://"))
        store = PrefixStore(
            f"lab/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", found
        )  # it outlives restarts
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if device is Device.cuda else "gloo",
            store=store,
            rank=rank,
            world_size=size,
            timeout=TIMEOUT,
        )
    except (ValueError, RuntimeError) as error:
        raise LabError(
            f"WORLD_SIZE is {os.environ['WORLD_SIZE']}, but the other ranks cannot be joined ({one_line(error)}): "
            "torchrun -m lab train … starts them"
        ) from error
    return Joined(rank, size, here, store)


def ignore_signals() -> None:
    """Let a rank write down how it ends, while torchrun tells it to end."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)

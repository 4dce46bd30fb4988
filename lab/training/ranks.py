"""What the processes that train one run have to do with each other: nothing where there is one, ``ALONE``.

``lab.training.distributed`` has the ranks that torchrun starts.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from torch import Tensor, nn

from lab.config import TrainConfig
from lab.errors import ConfigError

Found = tuple[Mapping[str, Tensor], int]
"""A checkpoint: tensors by name, updates done."""

T = TypeVar("T")


class Ranks:
    """One process by itself, for which every exchange is what it gives; others override the exchanges."""

    rank = 0
    size = 1
    here = 1
    """How many of the ranks are on this machine."""

    @property
    def first(self) -> bool:
        """Whether this is the rank that writes and speaks."""
        return self.rank == 0

    def check(self, train: TrainConfig) -> None:
        """Refuse a batch that the ranks cannot share evenly.

        Raises:
            ConfigError: names the key.
        """
        micro = train.micro_batch_size
        if train.batch_size % (self.size * (micro or 1)):
            times = "" if micro is None else f" × train.micro_batch_size {micro}"
            raise ConfigError(f"train.batch_size {train.batch_size} must be divisible by {self.size} ranks{times}")

    def threads(self, of_run: int) -> int:
        """This rank's part of the threads that a run may use on a machine."""
        return max(1, of_run // self.here)

    def rows(self, n_rows: int) -> slice:
        """This rank's rows of a batch."""
        share = n_rows // self.size
        return slice(self.rank * share, (self.rank + 1) * share)

    @property
    def noise(self) -> tuple[int, ...]:
        """What tells this rank's noise from that of others; the first one's is that of a process by itself."""
        return () if self.first else (self.rank,)

    def in_turn(self, work: Callable[[], T]) -> T:
        """Work that fills caches: the first rank does it alone, and the others find what it has made."""
        return work()

    def begin(self) -> bool:
        """Told by the first rank: whether there is something to train. It itself calls this only if there is."""
        return True

    def when_one_fails(self, act: Callable[[str], str]) -> None:
        """Have ``act`` write down why another rank failed and give what to tell the user; the process ends then."""

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over ranks, the same on all of them."""
        return tensor

    def mean(self, tensor: Tensor) -> Tensor:
        """The mean over ranks, the same on all of them."""
        return self.sum(tensor) / self.size

    def largest(self, number: float) -> float:
        """The largest of all ranks' numbers."""
        return number

    def asked(self, signal_number: int | None) -> int | None:
        """The signal that any rank was sent: all of them stop after the same step."""
        return signal_number

    def from_first(self, found: Found) -> Found:
        """A state as the first rank has it; what others give does not matter."""
        return found

    def summed(self, model: nn.Module) -> AbstractContextManager[None]:
        """A context for the last backward pass of a step: at its end gradients are their sum over ranks."""
        return nullcontext()

    def leave(self) -> None:
        """There is nothing more to exchange."""


ALONE = Ranks()

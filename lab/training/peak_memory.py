"""How many bytes tensors hold, counted one by one as operators make them and as they die."""

import weakref
from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, UntypedStorage
from torch.utils._python_dispatch import TorchDispatchMode


class LiveTensors(TorchDispatchMode):
    """A context that counts what operators return; what a kernel takes within itself is not seen.

    The memory of a process says less: allocators give back late, or not at all.
    """

    def __init__(self, alive: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = 0
        """Bytes held, those of the tensors given at the start included."""
        self.most = 0
        """The most that were held at once."""
        self._known: set[int] = set()
        for tensor in alive:
            self._born(tensor.untyped_storage())

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: object, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operator and count what it returns."""
        made = func(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, list | tuple) else (made,):
            if isinstance(tensor, Tensor):
                self._born(tensor.untyped_storage())
        return made

    def _born(self, storage: UntypedStorage) -> None:
        key, size = id(storage), storage.nbytes()
        if key in self._known:  # a view, or written in place
            return
        self._known.add(key)
        self.now += size
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self._died, key, size).atexit = False

    def _died(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.now -= size

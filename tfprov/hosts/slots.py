"""A number of places, of which each is taken by one at a time."""

import queue
from collections.abc import Callable, Sequence


class Slots:
    """`size` places. `let_go` are functions of those who hold places idle: each gives back what it can do without.

    A SimpleQueue and no semaphore: its put() may be called while the same thread is inside get(), as the garbage
    collector does with a channel that nobody closed.
    """

    def __init__(self, size: int, let_go: Sequence[Callable[[], None]] = ()) -> None:
        self._free: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._let_go = let_go
        for _ in range(size):
            self._free.put(None)

    def take(self, patience: float) -> bool:
        """Take a place, waiting up to `patience` seconds; return whether there was one."""
        if self._free.empty():
            self.reclaim()
        try:
            self._free.get(timeout=patience)
        except queue.Empty:
            return False
        return True

    def give(self) -> None:
        """Give a place back."""
        self._free.put(None)

    def reclaim(self) -> None:
        """Ask for the places that are held idle."""
        for let_go in self._let_go:
            let_go()

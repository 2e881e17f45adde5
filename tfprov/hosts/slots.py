"""A number of places, of which each is taken by one at a time."""

import queue
import time
from collections.abc import Callable, Sequence

_AGAIN = 0.2
"""Seconds between two questions for places held idle: one that was busy at the first may have become idle since."""


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
        deadline = time.monotonic() + patience
        while True:
            if self._free.empty():
                self.reclaim()
            try:
                self._free.get(timeout=max(0.0, min(_AGAIN, deadline - time.monotonic())))
            except queue.Empty:
                if time.monotonic() < deadline:
                    continue
                return False
            return True

    def give(self) -> None:
        """Give a place back."""
        self._free.put(None)

    def reclaim(self) -> None:
        """Ask for the places that are held idle."""
        for let_go in self._let_go:
            let_go()

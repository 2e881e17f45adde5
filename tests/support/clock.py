"""Time that passes when it is slept through, and background work that is done at once: no limit is ever real."""

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from tfprov.engine.concurrency import Clock


class ManualClock(Clock):
    """Stands still but for `sleep`; `at` is what happens meanwhile."""

    def __init__(self) -> None:
        self.time = 0.0
        self._due: list[tuple[float, Callable[[], object]]] = []

    def at(self, when: float, happens: Callable[[], object]) -> None:
        """Have something happen as soon as it is `when`."""
        self._due.append((when, happens))

    def now(self) -> float:
        return self.time

    def wall(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        assert self.time < 100_000, "this would wait for ever"
        due = [one for one in self._due if one[0] <= self.time]
        for one in due:
            self._due.remove(one)
            one[1]()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.is_set()

    def pool(self, workers: int) -> Executor:
        return AtOnce()


class AtOnce(Executor):
    """Has done what it is asked for when it returns."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future

"""A manual clock, whose time passes in `sleep` only, and an executor that runs work at once."""

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from tfprov.engine.concurrency import Clock


class ManualClock(Clock):
    """Time passes in `sleep` only; `at` schedules calls."""

    def __init__(self) -> None:
        self.time = 0.0
        self._due: list[tuple[float, Callable[[], object]]] = []

    def at(self, when: float, happens: Callable[[], object]) -> None:
        """Call `happens` once the time is `when`."""
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
        return ImmediateExecutor()


class ImmediateExecutor(Executor):
    """Runs a function in `submit`."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future

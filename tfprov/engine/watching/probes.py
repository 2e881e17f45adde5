"""Who answers whom: each question is asked from a host, in the background, until it was answered once."""

from concurrent.futures import Future
from dataclasses import dataclass

from tfprov.engine.context import Context
from tfprov.errors import HostError
from tfprov.model.cluster import Task

_FIRST, _LAST, _GROWTH = 0.1, 1.0, 1.5
"""Seconds before a question is asked again: soon at first, and no more than once a second of a task that takes minutes."""


@dataclass(frozen=True)
class Probe:
    """Does `task` serve at its address, seen from `host`? Several workers on one host need the answer only once."""

    host: str
    task: Task


class Probes:
    """Asks the hosts of `context`, `forks` at a time. Leave it with `close`, or as a context manager."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pool = context.clock.pool(context.forks)
        self._yes: set[Probe] = set()
        self._asked: dict[Probe, Future[bool]] = {}
        self._again: dict[Probe, float] = {}
        self._pause: dict[Probe, float] = {}

    def answered(self, probe: Probe) -> bool:
        """Return whether the answer was yes once; asks (again) when it was not. Never waits."""
        if probe in self._yes:
            return True
        future = self._asked.get(probe)
        if future is None:
            if self._context.clock.now() >= self._again.get(probe, 0.0):
                self._asked[probe] = self._pool.submit(self._ask, probe)
            return False
        if future.done():
            del self._asked[probe]
            self._settle(probe, serves=future.result())
        return probe in self._yes

    def _ask(self, probe: Probe) -> bool:
        try:
            return self._context.runtimes[probe.host].serves(probe.task)
        except HostError:  # packets that are dropped take as long as a host that is lost: whoever observes tells which
            return False

    def _settle(self, probe: Probe, *, serves: bool) -> None:
        if serves:
            self._yes.add(probe)
        pause = self._pause.get(probe, _FIRST)
        self._again[probe] = self._context.clock.now() + pause
        self._pause[probe] = min(pause * _GROWTH, _LAST)

    def close(self) -> None:
        """Ask nothing any more; does not wait for the answers that are still to come."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def __enter__(self) -> "Probes":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

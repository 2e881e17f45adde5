"""What the live view of a cluster shows: its status, what each task uses, and the chief's last line."""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field

from tfprov.engine.context import Context
from tfprov.engine.monitoring.looks import Looks
from tfprov.engine.monitoring.status import Status, status_of
from tfprov.engine.monitoring.task_progress import (
    HostClocks,
    Pace,
    is_current,
    may_report,
    read_pace,
    read_usage,
)
from tfprov.errors import HostError
from tfprov.hosts.usage import Usage
from tfprov.model.state import Observation, Observed, State

_LEAST = 32
"""Hosts that a reading asks for what no event says, the speed of their tasks and what they use: all of a small cluster."""
_ANSWER = 1.0
"""Seconds that a reading waits for slow hosts, of which it has the last figures."""
_TURNS = 8
"""Readings that ask a larger cluster once: at two seconds each, in less time than `slowest` takes for a standstill."""


@dataclass(frozen=True)
class Overview:
    """A cluster at one moment. `usage` is by task; `last_line` is the chief's, empty while it has printed nothing."""

    title: str
    status: Status
    usage: Mapping[str, Usage] = field(default_factory=dict)
    last_line: str = ""


@dataclass(frozen=True)
class _Reading:
    """Speed and usage of the tasks of a host, which was asked in this `turn`."""

    turn: int
    paces: Mapping[str, Pace]
    usage: Mapping[str, Usage]


class LiveOverview:
    """Reads the overview of a cluster again and again. Close it with `close`.

    A host is asked what runs there when something has happened (see Looks), and for speed and usage when it is its turn:
    the first reading asks all of them, the others the chief's host and an eighth, or 32.
    """

    def __init__(self, context: Context, title: str) -> None:
        self._context, self._title = context, title
        self._looks, self._clocks = Looks(context), HostClocks(context)
        self._pool = context.clock.pool(min(context.forks, len(context.runtimes)))
        self._running: dict[str, Future[_Reading]] = {}
        self._turn = 0
        self._readings: dict[str, _Reading] = {}

    def read(self, now: float) -> Overview:
        """Return the overview at `now`, in seconds since the epoch.

        The first reading waits until each host has answered or failed, the others a second each for states and speed.
        """
        observation, _ = self._looks.look()
        while not self._looks.is_complete:
            observation, _ = self._looks.look()
        self._ask(observation)
        status = status_of(self._context, observation, now, self._paces, self._clocks)
        usage = {
            row.task: reading.usage[row.task]
            for row in status.rows
            if row.state in ("running", "restarting", "paused") and row.host not in status.unreachable
            if (reading := self._readings.get(row.host)) is not None and row.task in reading.usage
        }
        return Overview(self._title, status, usage, _last_line(self._context, status))

    def close(self) -> None:
        """Ask no more, and end all event streams; does not wait for hosts that have not answered."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._looks.close()

    def _ask(self, observation: Observation) -> None:
        """Ask the hosts whose turn it is for speed and usage, all at the same time."""
        tasks: dict[str, list[Observed]] = {}
        for observed in observation.containers():
            if observed.started_at is not None and observed.host in self._context.runtimes:
                tasks.setdefault(observed.host, []).append(observed)
        for host in self._chosen(list(tasks)):
            if host not in self._running:
                self._running[host] = self._pool.submit(self._read_host, host, tasks[host], self._turn)
        done, _ = wait(self._running.values(), timeout=_ANSWER if self._turn else None)
        self._readings |= {host: future.result() for host, future in self._running.items() if future in done}
        self._running = {host: future for host, future in self._running.items() if future not in done}
        self._turn += 1

    def _chosen(self, hosts: list[str]) -> list[str]:
        """Return the hosts that were not asked yet, or longest ago, and the chief's."""
        turns = {host: self._readings[host].turn if host in self._readings else -1 for host in hosts}
        turns |= dict.fromkeys({self._context.cluster.chief.host} & set(hosts), -1)
        number = max(_LEAST, -(-len(hosts) // _TURNS), sum(turn < 0 for turn in turns.values()))
        return sorted(hosts, key=lambda host: turns[host])[:number]

    def _read_host(self, host: str, tasks: Iterable[Observed], turn: int) -> _Reading:
        """Ask one host, one request after the other."""
        runtime = self._context.runtimes[host]
        paces = {one.task: pace for one in tasks if may_report(one) and (pace := read_pace(runtime, one)) is not None}
        runs = any(one.state is State.RUNNING for one in tasks)
        return _Reading(turn, paces, read_usage(self._context, host) if runs else {})

    def _paces(self, tasks: Iterable[Observed]) -> dict[str, Pace]:
        """Return the last speed of each task that has reported one since its start."""
        return {
            one.task: pace
            for one in tasks
            if one.host in self._readings
            and (pace := self._readings[one.host].paces.get(one.task)) is not None
            and is_current(pace, one)
        }


def _last_line(context: Context, status: Status) -> str:
    chief = next((row for row in status.rows if row.task == status.chief), None)
    if chief is None or chief.host not in context.runtimes or chief.host in status.unreachable:
        return ""
    try:
        return next(iter(context.runtimes[chief.host].logs(chief.task, tail=1)), "")
    except HostError:
        return ""

"""Tries every task's address from every host, with temporary containers that are always removed."""

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from tfprov.engine.checks.reachability import NOT_FROM_HOST, OK, UNTRIED, Cell, Reason
from tfprov.engine.checks.temporary_containers import container_pool, sweep_hosts
from tfprov.errors import HostError
from tfprov.hosts.docker.reachability_probe import (
    CONNECT_TIMEOUT,
    LISTENER_TIMEOUT,
    THREADS,
    Endpoint,
    NoPython,
    Temporary,
    listen,
    probe,
    start_prober,
    temporary,
)
from tfprov.hosts.machine import Machine
from tfprov.model.cluster import Task

NO_PYTHON = "the image has no python3"
_START = 5.0
"""Seconds to start a container on a busy host."""
_SHORTEST = 120
"""Seconds for which every temporary container is there, if nobody removes it."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class Aim:
    """A task to reach. Unless it `runs`, a stand-in is started from `image` and published on `address`.

    `why` is the reason if neither is possible.
    """

    task: Task
    image: str = ""
    address: str = ""
    runs: bool = False
    why: Reason | None = None

    @property
    def stands_in(self) -> bool:
        """Whether a stand-in is to take the task's port."""
        return not self.runs and self.why is None


@dataclass(frozen=True)
class ProbeSource:
    """A host to probe from, in a container of `image`; `why` is the reason if that is not possible."""

    machine: Machine
    image: str = ""
    why: Reason | None = None


@dataclass
class _Ready:
    """A prepared host: `prober` is its container, or empty if the host itself has to probe.

    `why` is the reason if nothing can be tried from it, and `silent` the reasons why some of its tasks have no listener.
    """

    prober: str = ""
    why: Reason | None = None
    silent: dict[str, Reason] = field(default_factory=dict)


@dataclass
class Probed:
    """The outcome of every pair. `from_host` are the hosts that probed without a container, as their image has no Python.

    `left` is a warning, by host, about containers that could not be removed; they end by themselves.
    """

    cells: list[Cell] = field(default_factory=list)
    from_host: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Probing:
    """One round from all `sources`, which are by host, to `aims`, with `forks` hosts at a time.

    `tried` are the names of the tasks to try, by host. With `alone`, which requires the cluster's lock, it first removes
    the containers of earlier rounds.
    """

    cluster: str
    sources: Mapping[str, ProbeSource]
    aims: Sequence[Aim]
    tried: Mapping[str, Collection[str]]
    forks: int
    alone: bool
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    """Identifies this round's listeners: an address may lead to another program."""
    _stopping: threading.Event = field(default_factory=threading.Event, init=False)

    def run(self) -> Probed:
        """Probe the pairs; return the outcomes in the order of the hosts, then of the tasks."""
        silent = {aim.task.name: aim.why for aim in self.aims if aim.why is not None}
        if len(silent) == len(self.aims):  # nothing is started where nothing can be tried
            return Probed([Cell(host, aim.task, UNTRIED, aim.why) for host in self.sources for aim in self._aims(host)])
        probed = Probed()
        machines = {host: source.machine for host, source in self.sources.items() if source.why is None}
        if self.alone:
            sweep_hosts(self.cluster, machines, self.forks, everything=True)
        with container_pool(self.cluster, machines, self.forks, self._stopping) as pool:
            ready = self._each(pool, self._prepare)
            probed.from_host += [host for host, it in ready.items() if not it.prober and it.why is None]
            silent |= {task: why for it in ready.values() for task, why in it.silent.items()}
            rows = self._each(pool, lambda host, source: self._row(host, source, ready[host], silent))
            probed.cells += [cell for row in rows.values() for cell in row]
            probed.left |= sweep_hosts(self.cluster, machines, self.forks)
        return probed

    def _each(self, pool: Executor, do: Callable[[str, ProbeSource], Result]) -> dict[str, Result]:
        return dict(zip(self.sources, pool.map(do, self.sources, self.sources.values()), strict=True))

    def _prepare(self, host: str, source: ProbeSource) -> _Ready:
        ready = _Ready(why=source.why)
        for aim in self.aims:
            if self._stopping.is_set():
                return ready
            if aim.task.host == host and aim.why is None and (why := self._stand_in(source.machine, aim)) is not None:
                ready.silent[aim.task.name] = why
        if source.why is None and not self._stopping.is_set():
            try:
                ready.prober = start_prober(source.machine.engine, self._made(source.image))
            except NoPython:
                pass
            except HostError as error:
                ready.why = Reason(error.reason, host)
        return ready

    def _stand_in(self, machine: Machine, aim: Aim) -> Reason | None:
        """Start a stand-in for a task that does not run; return the reason if nothing listens on its port."""
        task = aim.task
        try:
            if not aim.runs:
                listen(machine.engine, self._made(aim.image), target=self._target(aim), published=aim.address)
            elif not machine.is_listening(task.address, task.port):
                return Reason(f"{task.name} runs and does not serve; see `tfprov logs {task.name}`", task.host)
        except NoPython:
            return Reason(f"{NO_PYTHON} to stand in for tasks that do not run", task.host)
        except HostError as error:
            return Reason(f"nobody can stand in for {task.name}: {error.reason}", task.host)
        return None

    @cached_property
    def lifetime(self) -> int:
        """How many seconds a temporary container is there, if nobody removes it: as long as all hosts may take.

        They start their containers, and then try their addresses, `forks` of them at a time.
        """
        stand_ins = Counter(aim.task.host for aim in self.aims if aim.stands_in)
        started = 1 + max(stand_ins.values(), default=0)
        tries = -(-max(map(len, self.tried.values()), default=0) // THREADS)
        turns = -(-len(self.sources) // max(1, self.forks))
        return max(_SHORTEST, int(turns * (started * _START + tries * (LISTENER_TIMEOUT + CONNECT_TIMEOUT))))

    def _made(self, image: str) -> Temporary:
        return Temporary(image, temporary(self.cluster), self.lifetime)

    def _target(self, aim: Aim) -> Endpoint:
        greeting = "" if aim.runs else f"tfprov-check {self.token} {aim.task.name}"
        return Endpoint(aim.task.address, aim.task.port, greeting)

    def _row(self, host: str, source: ProbeSource, ready: _Ready, silent: Mapping[str, Reason]) -> list[Cell]:
        there = [aim for aim in self._aims(host) if aim.task.name not in silent]
        outcomes: dict[str, str] = {}
        why = ready.why
        if why is None:
            try:
                outcomes = dict(zip((aim.task.name for aim in there), self._tried(source, ready, there), strict=True))
            except HostError as error:
                why = Reason(error.reason, host)
        return [
            Cell(host, aim.task, outcomes[aim.task.name])
            if aim.task.name in outcomes
            else Cell(host, aim.task, UNTRIED, why or silent[aim.task.name])
            for aim in self._aims(host)
        ]

    def _aims(self, host: str) -> Iterable[Aim]:
        return (aim for aim in self.aims if aim.task.name in self.tried[host])

    def _tried(self, source: ProbeSource, ready: _Ready, aims: Sequence[Aim]) -> list[str]:
        machine = source.machine
        if ready.prober:
            return probe(machine.engine, ready.prober, [self._target(aim) for aim in aims])
        return [OK if machine.is_listening(aim.task.address, aim.task.port) else NOT_FROM_HOST for aim in aims]

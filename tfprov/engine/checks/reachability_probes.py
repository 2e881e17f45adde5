"""Tries every task's address from every host, with temporary containers that are always removed."""

import secrets
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from tfprov.engine.checks.reachability import NOT_FROM_HOST, OK, UNTRIED, Cell, Reason
from tfprov.errors import HostError
from tfprov.hosts.docker.reachability_probe import CHECK, ROUND, Endpoint, NoPython, listen, probe, start_prober, sweep
from tfprov.hosts.machine import Machine
from tfprov.model.cluster import Task

_HURRY = 30.0
"""Seconds after Ctrl-C for the removal of probe containers: a start in flight on a busy host takes some 10 s. On a silent
host they end by themselves; a second Ctrl-C does not wait."""
NO_PYTHON = "the image has no python3"

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
        if self.alone:
            self._sweep(everything=True)
        pool = ThreadPoolExecutor(max_workers=self.forks)
        try:
            ready = self._each(pool, self._prepare)
            probed.from_host += [host for host, it in ready.items() if not it.prober and it.why is None]
            silent |= {task: why for it in ready.values() for task, why in it.silent.items()}
            rows = self._each(pool, lambda host, source: self._row(host, source, ready[host], silent))
            probed.cells += [cell for row in rows.values() for cell in row]
            probed.left |= self._sweep()
        except BaseException as error:
            ending = threading.Thread(target=self._end, args=(pool,), daemon=True)
            ending.start()
            ending.join(None if isinstance(error, Exception) else _HURRY)
            raise
        pool.shutdown()
        return probed

    def _end(self, pool: ThreadPoolExecutor) -> None:
        """Start no more containers, and remove this round's, also those that are being started."""
        self._stopping.set()
        pool.shutdown(wait=False, cancel_futures=True)
        self._sweep()
        pool.shutdown(wait=True)
        self._sweep()

    def _each(self, pool: ThreadPoolExecutor, do: Callable[[str, ProbeSource], Result]) -> dict[str, Result]:
        return dict(zip(self.sources, pool.map(do, self.sources, self.sources.values()), strict=True))

    def _sweep(self, *, everything: bool = False) -> dict[str, str]:
        """Remove this round's containers, or with `everything` those of all rounds; return a warning by host."""
        word = "" if everything else self.token
        with ThreadPoolExecutor(max_workers=self.forks) as pool:
            return {
                host: remainder for host, remainder in self._each(pool, partial(self._swept, word)).items() if remainder
            }

    def _swept(self, word: str, _host: str, source: ProbeSource) -> str:
        if source.why is not None:  # nothing of ours can be there
            return ""
        try:
            sweep(source.machine.engine, self.cluster, word)
        except HostError as error:
            return f"what was started there may run for two minutes more: {error.reason}"
        return ""

    def _prepare(self, host: str, source: ProbeSource) -> _Ready:
        ready = _Ready(why=source.why)
        for aim in self.aims:
            if self._stopping.is_set():
                return ready
            if aim.task.host == host and aim.why is None and (why := self._stand_in(source.machine, aim)) is not None:
                ready.silent[aim.task.name] = why
        if source.why is None and not self._stopping.is_set():
            try:
                ready.prober = start_prober(source.machine.engine, source.image, self._labels)
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
                listen(machine.engine, aim.image, self._labels, target=self._target(aim), published=aim.address)
            elif not machine.is_listening(task.address, task.port):
                return Reason(f"{task.name} runs and does not serve; see `tfprov logs {task.name}`", task.host)
        except NoPython:
            return Reason(f"{NO_PYTHON} to stand in for tasks that do not run", task.host)
        except HostError as error:
            return Reason(f"nobody can stand in for {task.name}: {error.reason}", task.host)
        return None

    @property
    def _labels(self) -> dict[str, str]:
        return {CHECK: self.cluster, ROUND: self.token}

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

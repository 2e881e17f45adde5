"""Tries every task's address from every host, with temporary containers that are always removed."""

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from tfprov.engine.checks.reachability import NOT_FROM_HOST, OK, UNTRIED, Cell, Reason
from tfprov.errors import HostError
from tfprov.hosts.docker.reachability_probe import CHECK, ROUND, Endpoint, NoPython, listen, probe, start_prober, sweep
from tfprov.hosts.machine import Machine
from tfprov.model.cluster import Task

_HURRY = 10.0
"""Seconds after Ctrl-C in which hosts remove what was started there; of one that is silent it ends by itself."""
NO_PYTHON = "the image has no python3"

Result = TypeVar("Result")


@dataclass(frozen=True)
class Aim:
    """A task to be reached. `runs`: it is there itself. Otherwise a stand-in is made from `image`, published on `address`.

    `why` says why there can be neither.
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
class Post:
    """A host to try from, in a container of `image`; `why` says why that cannot be."""

    machine: Machine
    image: str = ""
    why: Reason | None = None


@dataclass
class _Ready:
    """A host that is prepared: its `prober` is a container, or empty where the host itself must try.

    `why` says why nothing can be tried from it, and `silent` why nobody answers for some of its tasks.
    """

    prober: str = ""
    why: Reason | None = None
    silent: dict[str, Reason] = field(default_factory=dict)


@dataclass
class Probed:
    """The outcome of every pair. `from_host` are the hosts that tried by themselves, as their image has no Python.

    `left` says, by host, that something could not be removed; it ends by itself.
    """

    cells: list[Cell] = field(default_factory=list)
    from_host: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Probing:
    """One round from all `posts`, which are by host, to all `aims`, with `forks` hosts at a time.

    Whoever is `alone`, and holds the cluster's lock, also removes what an earlier round has left.
    """

    cluster: str
    posts: Mapping[str, Post]
    aims: Sequence[Aim]
    forks: int
    alone: bool
    word: str = field(default_factory=lambda: secrets.token_hex(8))
    """Tells what is ours from all others: an address may lead to somebody else."""

    def run(self) -> Probed:
        """Return what became of every pair, in the order of the hosts and then of the tasks."""
        silent = {aim.task.name: aim.why for aim in self.aims if aim.why is not None}
        if len(silent) == len(self.aims):  # nothing is started where nothing can be tried
            return Probed([Cell(host, aim.task, UNTRIED, aim.why) for host in self.posts for aim in self.aims])
        probed = Probed()
        if self.alone:
            self._sweep(everything=True)
        pool = ThreadPoolExecutor(max_workers=self.forks)
        try:
            ready = self._each(pool, self._prepare)
            probed.from_host += [host for host, it in ready.items() if not it.prober and it.why is None]
            silent |= {task: why for it in ready.values() for task, why in it.silent.items()}
            rows = self._each(pool, lambda host, post: self._row(host, post, ready[host], silent))
            probed.cells += [cell for row in rows.values() for cell in row]
        except BaseException as error:
            ending = threading.Thread(target=self._end, args=(pool,), daemon=True)
            ending.start()
            ending.join(None if isinstance(error, Exception) else _HURRY)
            raise
        pool.shutdown()
        probed.left |= self._sweep()
        return probed

    def _end(self, pool: ThreadPoolExecutor) -> None:
        """Remove what is ours, what the others still wait for, and what they have made meanwhile."""
        self._sweep()
        pool.shutdown(wait=True, cancel_futures=True)
        self._sweep()

    def _each(self, pool: ThreadPoolExecutor, do: Callable[[str, Post], Result]) -> dict[str, Result]:
        return dict(zip(self.posts, pool.map(do, self.posts, self.posts.values()), strict=True))

    def _sweep(self, *, everything: bool = False) -> dict[str, str]:
        """Remove what is ours, or with `everything` what any round has left; say of which hosts it could not be removed."""
        word = "" if everything else self.word
        with ThreadPoolExecutor(max_workers=self.forks) as pool:
            return {
                host: remainder for host, remainder in self._each(pool, partial(self._swept, word)).items() if remainder
            }

    def _swept(self, word: str, _host: str, post: Post) -> str:
        if post.why is not None:  # nothing of ours can be there
            return ""
        try:
            sweep(post.machine.engine, self.cluster, word)
        except HostError as error:
            return f"what was started there may run for two minutes more: {error.reason}"
        return ""

    def _prepare(self, host: str, post: Post) -> _Ready:
        ready = _Ready(why=post.why)
        for aim in self.aims:
            if aim.task.host == host and aim.why is None and (why := self._stand_in(post.machine, aim)) is not None:
                ready.silent[aim.task.name] = why
        if post.why is None:
            try:
                ready.prober = start_prober(post.machine.engine, post.image, self._labels)
            except NoPython:
                pass
            except HostError as error:
                ready.why = Reason(error.reason, host)
        return ready

    def _stand_in(self, machine: Machine, aim: Aim) -> Reason | None:
        """See to it that somebody answers for a task; return why that cannot be, or None."""
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
        return {CHECK: self.cluster, ROUND: self.word}

    def _target(self, aim: Aim) -> Endpoint:
        greeting = "" if aim.runs else f"tfprov-check {self.word} {aim.task.name}"
        return Endpoint(aim.task.address, aim.task.port, greeting)

    def _row(self, host: str, post: Post, ready: _Ready, silent: Mapping[str, Reason]) -> list[Cell]:
        there = [aim for aim in self.aims if aim.task.name not in silent]
        outcomes: dict[str, str] = {}
        why = ready.why
        if why is None:
            try:
                outcomes = dict(zip((aim.task.name for aim in there), self._tried(post, ready, there), strict=True))
            except HostError as error:
                why = Reason(error.reason, host)
        return [
            Cell(host, aim.task, outcomes[aim.task.name])
            if aim.task.name in outcomes
            else Cell(host, aim.task, UNTRIED, why or silent[aim.task.name])
            for aim in self.aims
        ]

    def _tried(self, post: Post, ready: _Ready, aims: Sequence[Aim]) -> list[str]:
        machine = post.machine
        if ready.prober:
            return probe(machine.engine, ready.prober, [self._target(aim) for aim in aims])
        return [OK if machine.is_listening(aim.task.address, aim.task.port) else NOT_FROM_HOST for aim in aims]

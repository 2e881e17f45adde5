"""Waits until every task serves and every worker has joined; fails at once if one never will."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future
from dataclasses import dataclass

from tfprov.engine.context import Context
from tfprov.engine.monitoring.failures import failed_tasks, failure, has_failed, idle_end, last_log, remedy
from tfprov.engine.monitoring.watch import Watch
from tfprov.errors import HostError, TaskFailed
from tfprov.model.cluster import Task
from tfprov.model.state import Container, Observation, Observed
from tfprov.planning.plan_text import join_names

_PROBE_FIRST, _PROBE_LAST, _PROBE_GROWTH = 0.1, 1.0, 1.5
"""Seconds between two probes: short at first, and one second for tasks that take minutes to serve."""


TaskHost = tuple[str, str]
"""A task's name and a host."""


@dataclass(frozen=True)
class Probe:
    """The question whether `task` serves at its address, as seen from `host`; several workers of a host share it."""

    host: str
    task: Task


class Probes:
    """Runs probes on the hosts of `context`, `forks` at a time. Close it with `close`, or as a context manager."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pool = context.clock.pool(context.forks)
        self._succeeded: set[Probe] = set()
        self._running: dict[Probe, Future[bool]] = {}
        self._again: dict[Probe, float] = {}
        self._pause: dict[Probe, float] = {}

    def answered(self, probe: Probe) -> bool:
        """Return whether a probe has succeeded once; start it (again) if not. Never blocks."""
        if probe in self._succeeded:
            return True
        future = self._running.get(probe)
        if future is None:
            if self._context.clock.now() >= self._again.get(probe, 0.0):
                self._running[probe] = self._pool.submit(self._probe, probe)
            return False
        if future.done():
            del self._running[probe]
            self._settle(probe, serves=future.result())
        return probe in self._succeeded

    def _probe(self, probe: Probe) -> bool:
        try:
            return self._context.runtimes[probe.host].is_serving(probe.task)
        except HostError:  # dropped packets take as long as a lost host; the observation tells them apart
            return False

    def _settle(self, probe: Probe, *, serves: bool) -> None:
        if serves:
            self._succeeded.add(probe)
        pause = self._pause.get(probe, _PROBE_FIRST)
        self._again[probe] = self._context.clock.now() + pause
        self._pause[probe] = min(pause * _PROBE_GROWTH, _PROBE_LAST)

    def close(self) -> None:
        """Start no more probes; does not wait for those that run."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def __enter__(self) -> "Probes":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_JOINING = ("worker", "chief")
"""The jobs that connect to others; a ps waits for connections."""
_WAITS = re.compile(r"CreateSession still waiting for response from worker: /job:(\w+)/replica:\d+/task:(\d+)")
"""What TensorFlow's master prints every ten seconds while a member of the cluster does not answer."""


def needs_port(context: Context, container: Container) -> bool:
    """Whether a task must listen before it counts as up: one that trains alone starts no server."""
    alone = sum(len(addresses) for addresses in context.cluster.spec.values()) == 1
    in_cluster = container.task.job in context.cluster.spec
    return container.ready == "port" and container.task.serves and not (alone and in_cluster)


class Peers:
    """The tasks that others connect to: the ps, and with TF_CONFIG every task of the cluster.

    Those outside of `--limit` are left out. They are chosen once: to look for them for each task grows with the square.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        allowed = (peer for peer in context.wanted if peer.task.trains and context.allows(peer.task.host))
        self._all = [peer for peer in allowed if needs_port(context, peer)]
        self._ps = [peer for peer in self._all if peer.task.job == "ps"]

    def of(self, container: Container, finished: Set[TaskHost]) -> list[Probe]:
        """Return the peers that a worker's host must reach, but for finished ones."""
        task = container.task
        if task.job not in _JOINING or not needs_port(self._context, container):
            return []
        all_members = container.spec.get("wiring", {}).get("style") == "tf_config"
        return [
            Probe(task.host, peer.task)
            for peer in (self._all if all_members else self._ps)
            if peer.task != task and (peer.task.name, peer.task.host) not in finished
        ]


def own(container: Container) -> Probe:
    """Return the probe of a task from its own host."""
    return Probe(container.task.host, container.task)


def awaited(lines: Iterable[str]) -> list[str]:
    """Return the tasks that TensorFlow says it waits for in these lines of a log, each once: `ps/1`."""
    return list(dict.fromkeys(f"{match[1]}/{match[2]}" for line in lines for match in _WAITS.finditer(line)))


def too_slow(task: Task, unjoined: Sequence[Probe], seconds: float, log: Iterable[str]) -> str:
    """Return what a task lacks after `seconds`: peers that its host cannot reach, or its own port."""
    after = f"after {seconds:g} s"
    if unjoined:
        addresses = ", ".join(f"{probe.task.name} at {probe.task.endpoint}" for probe in unjoined)
        what = f"cannot reach {addresses} from {task.host} {after}; does a firewall stand between them?"
    else:
        what = f"does not serve on {task.endpoint} {after}"
    if waits := awaited(log):
        return f"{what} (TensorFlow there waits for {', '.join(waits)})"
    return f"{what}; {cure}" if (cure := remedy([what])) else what


_FIRST, _LAST, _GROWTH = 0.1, 0.5, 1.2
"""Seconds between two observations: short for tasks that start at once, half a second for long imports."""
_NAMED = 3
"""Tasks that are named when many are waited for."""
PATIENCE = 30.0
"""Seconds a host may be unreachable: a lost connection is replaced in less."""


def wait_serving(context: Context, timeout: float | None = None, *, patience: float = PATIENCE) -> None:
    """Return when every task with a port answers on it, and every worker's host can reach the worker's peers.

    TaskFailed for the first that ends badly or is too slow: `timeout` in seconds replaces each task's own
    `start_timeout`. A task that has finished counts as served, and so does a training that is over. Raises a host's own
    error when it is out of reach for more than `patience` seconds.
    """
    clock = context.clock
    begin = clock.now()
    with Watch(context) as watch, Probes(context) as probes:
        start = _Start(context, probes)
        try:
            for pause in _pauses():
                observation = watch.look()
                for host in start.hosts():
                    watch.check(host, patience)
                if start.is_over(observation):
                    return
                start.check_time(observation, clock.now() - begin, timeout)
                context.report.awaiting(start.awaited(observation))
                clock.sleep(pause)
        finally:
            context.report.awaiting("")


def _pauses() -> Iterator[float]:
    pause = _FIRST
    while True:
        yield pause
        pause = min(pause * _GROWTH, _LAST)


@dataclass(frozen=True)
class _Seen:
    """The containers of an observation by their tasks, each on its assigned host if it is there; and finished ones."""

    by_task: Mapping[str, Observed]
    finished: Set[TaskHost]

    @classmethod
    def of(cls, context: Context, observation: Observation) -> "_Seen":
        by_task: dict[str, Observed] = {}
        for one in observation.containers():
            wanted = context.container(one.task)
            if one.task not in by_task or (wanted is not None and one.host == wanted.task.host):
                by_task[one.task] = one
        return cls(by_task, {(one.task, one.host) for one in observation.containers() if one.finished})


class _Start:
    """A starting cluster: the tasks that are not up yet."""

    def __init__(self, context: Context, probes: Probes) -> None:
        self.context, self.probes = context, probes
        self.peers = Peers(context)
        self.allowed = [container for container in context.wanted if context.allows(container.task.host)]
        self.pending = self.allowed
        self.served: set[str] = set()
        self._seen: tuple[Observation, _Seen] | None = None

    def seen(self, observation: Observation) -> "_Seen":
        """Return an observation by its tasks, which is made once for each."""
        if self._seen is None or self._seen[0] is not observation:
            self._seen = observation, _Seen.of(self.context, observation)
        return self._seen[1]

    def hosts(self) -> list[str]:
        """Return the hosts of what is pending."""
        return list(dict.fromkeys(container.task.host for container in self.pending))

    def is_over(self, observation: Observation) -> bool:
        """Return whether there is nothing left to wait for; TaskFailed when a task has ended badly."""
        chief = self.context.chief(observation)
        if chief is not None and chief.finished:  # first: a task that is lost after it fails nothing
            self.note_idle_end(chief)
            return True
        self.pending = [container for container in self.pending if not self.is_up(container, observation)]
        for container in self.allowed:  # what has come up may have gone since
            self.check(container, observation)
        return not self.pending

    def is_up(self, container: Container, observation: Observation) -> bool:
        """Return whether a task serves and has joined, or needs to do neither."""
        task = container.task
        if task.host not in observation.hosts:
            return False
        observed = self.check(container, observation)
        if observed is None:
            raise TaskFailed(task.name, f"is not there on {task.host}; start it with `tfprov up`")
        if observed.finished:
            self.note_idle_end(observed)
            return True
        if observed.paused or not needs_port(self.context, container):
            return not observed.paused  # the kernel takes connections for it
        return self.serves(container) and not self.unjoined(container, observation)

    def check(self, container: Container, observation: Observation) -> Observed | None:
        """Return the observed container of a task; raise TaskFailed if it has failed."""
        observed = self.seen(observation).by_task.get(container.task.name)
        if observed is not None and has_failed(observed):
            raise failure(self.context, failed_tasks(self.context, observation) or [observed], observation)
        return observed

    def note_idle_end(self, observed: Observed) -> None:
        """Report a task that ended with 0 so soon that it cannot have trained."""
        if line := idle_end(self.context, observed):
            self.context.report.note(line)

    def serves(self, container: Container) -> bool:
        """Return whether a task answers on its own host."""
        task = container.task
        if not self.probes.answered(own(container)):
            return False
        if task.name not in self.served:
            self.served.add(task.name)
            self.context.report.note(f"{task.name} serves on {task.endpoint}")
        return True

    def unjoined(self, container: Container, observation: Observation) -> list[Probe]:
        """Return the peers that a worker's host does not reach; only peers that serve are probed."""
        wanted = self.peers.of(container, self.seen(observation).finished)
        return [probe for probe in wanted if probe.task.name not in self.served or not self.probes.answered(probe)]

    def awaited(self, observation: Observation) -> str:
        """Return what is waited for: tasks that do not serve yet, or a worker that does not reach a peer."""
        if names := [c.task.name for c in self.pending if c.task.name not in self.served]:
            return f"waiting for {join_names(names, _NAMED)} to import TensorFlow and serve"
        for container in self.pending:
            if lacks := self.unjoined(container, observation):
                unreached = join_names([probe.task.name for probe in lacks], _NAMED)
                return f"waiting for {container.task.name} to reach {unreached}"
        return ""

    def check_time(self, observation: Observation, seconds: float, timeout: float | None) -> None:
        """Raise TaskFailed for the first task that is not up after its time, and a ps before a worker that needs it."""
        late = [c for c in self.pending if seconds > (timeout or c.start_timeout)]
        for container in sorted(late, key=lambda c: c.task.name in self.served):
            raise self.too_slow(container, observation, timeout or container.start_timeout)

    def too_slow(self, container: Container, observation: Observation, seconds: float) -> TaskFailed:
        """Return the error for a task that is not up after `seconds`; it names the peer when it lies with that."""
        task, lacks = container.task, self.unjoined(container, observation)
        if (observed := self.seen(observation).by_task.get(task.name)) is not None and observed.paused:
            return TaskFailed(task.name, f"is paused; `{observed.unpause}` on {task.host} lets it go on")
        log = last_log(self.context, task.name, task.host)
        if task.name not in self.served:
            return TaskFailed(task.name, too_slow(task, (), seconds, log), log)
        if unserved := [probe.task for probe in lacks if probe.task.name not in self.served]:
            peer = unserved[0]
            return TaskFailed(peer.name, too_slow(peer, (), seconds, log), last_log(self.context, peer.name, peer.host))
        return TaskFailed(task.name, too_slow(task, lacks, seconds, log), log)

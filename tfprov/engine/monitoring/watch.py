"""Observes all hosts repeatedly during a training; a silent host delays none of the others."""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field

from tfprov.engine.context import Context
from tfprov.engine.events import Incident
from tfprov.engine.monitoring.changed_hosts import ChangedHosts
from tfprov.engine.monitoring.failures import own_paths, remedy, same_cause
from tfprov.engine.observe import needs
from tfprov.errors import HostError, Unreachable
from tfprov.hosts.base import Runtime
from tfprov.hosts.crash import FailedRun, is_ended_externally, is_hopeless
from tfprov.model.incident import IncidentKind
from tfprov.model.state import HostState, Observation, Observed, State

TaskOnHost = tuple[str, str]
"""A task's name and its host."""


class Restarts:
    """Detects restarts between two observations; `limit` returns the maximal restarts of a task.

    `give_up` is called with a task that failed twice at once with the same message, to end its restarts: supervisors do so
    themselves, engines do not. `own_paths` replaces paths of code copies in a task's line by the user's.
    """

    def __init__(
        self,
        limit: Callable[[str], int | None],
        give_up: Callable[[Observed], None] = lambda _observed: None,
        own_paths: Callable[[str, str], str] = lambda _task, words: words,
    ) -> None:
        self._limit, self._give_up, self._own_paths = limit, give_up, own_paths
        self._words: set[str] = set()
        self._seen: dict[TaskOnHost, int] = {}
        self._runs: dict[TaskOnHost, Observed] = {}
        self._failed: dict[TaskOnHost, FailedRun] = {}

    def update(self, containers: Iterable[Observed]) -> list[Incident]:
        """Return the incidents since the first call; earlier restarts are in `status`."""
        incidents = []
        for observed in containers:
            place = observed.task, observed.host
            before, self._seen[place] = self._seen.get(place, observed.restarts), observed.restarts
            if observed.restarts > before and observed.state is State.RUNNING:
                incidents.append(Incident(self._restart_note(observed), IncidentKind.RESTARTED, *place))
            if observed.state is State.RUNNING and not observed.restarting and self._failed_twice(place, observed):
                self._give_up(observed)
                text = f"{observed.task} failed twice with the same error: it is not started again after this"
                incidents.append(Incident(text, IncidentKind.CRASH_LOOP, *place))
        return incidents

    def _failed_twice(self, place: TaskOnHost, observed: Observed) -> bool:
        """Record a run that may be new; return whether the two before it failed at once in the same way."""
        run, self._runs[place] = self._runs.get(place), observed
        if run is None or observed.restarts <= run.restarts:
            if run is not None and observed.restarts < run.restarts:  # started anew by `up`
                self._failed.pop(place, None)
            return False
        # No run between the two looks was longer than the time from the start of the one to the start of the other.
        seconds = (observed.started_at or 0.0) - (run.started_at or 0.0)
        life = FailedRun(observed.last_exit or 0, seconds, observed.last_words)
        before, self._failed[place] = self._failed.get(place), life
        return before is not None and is_hopeless(before, life)

    def _restart_note(self, observed: Observed) -> str:
        code = "" if observed.last_exit is None else f" with exit code {observed.last_exit}"
        limit = self._limit(observed.task)
        of = "" if limit is None else f" of {limit}"
        return f"{observed.task} ended{code} and was started again ({observed.restarts}{of}){self._why(observed)}"

    def _why(self, observed: Observed) -> str:
        """Return why a task ended, if known; in full for the first task with that error."""
        words = "" if is_ended_externally(observed.last_exit) else self._own_paths(observed.task, observed.last_words)
        if not words or same_cause(words) in self._words:
            return ": the same error" if words else ""
        self._words.add(same_cause(words))
        cure = remedy([words])
        return f": {words}; {cure}" if cure else f": {words}"


_ANSWER = 1.0
"""Seconds `look` waits for slow hosts before it uses their last states."""


@dataclass
class Silence:
    """A silent host: since when, by the run's clock and as time of day."""

    error: HostError
    since: float
    clock: str
    reported: bool = False


@dataclass
class HostAnswers:
    """The silent hosts. Incidents are returned once: when a host is lost, and when it is back."""

    silent: dict[str, Silence] = field(default_factory=dict)

    def update(self, answered: Mapping[str, object], failed: Mapping[str, HostError], now: float) -> list[Incident]:
        """Record an observation at `now`, and return the incidents in it.

        The first failure of a host is not reported: the next observation replaces a lost connection.
        """
        back = {host: text for host in answered if (text := self._back(host, now))}
        incidents = [Incident(text, IncidentKind.HOST_BACK, host=host) for host, text in back.items()]
        for host, error in failed.items():
            if host not in self.silent:
                self.silent[host] = Silence(error, now, time.strftime("%H:%M:%S"))
                continue
            silence = self.silent[host]
            silence.error = error
            if not silence.reported:
                silence.reported = True
                cannot = "cannot be reached" if isinstance(error, Unreachable) else "does not say what runs on it"
                text = f"{host} {cannot} since {silence.clock}: {error.reason}"
                incidents.append(Incident(text, IncidentKind.HOST_LOST, host=host))
        return incidents

    def _back(self, host: str, now: float) -> str:
        silence = self.silent.pop(host, None)
        return f"{host} is back after {now - silence.since:.0f} s" if silence is not None and silence.reported else ""

    def seconds(self, host: str, now: float) -> float:
        """Return for how many seconds `host` has been silent at `now`; 0.0 when it is not."""
        return now - self.silent[host].since if host in self.silent else 0.0


class Watch:
    """Observes the hosts of `context`. Close it with `close`, or as a context manager.

    Hosts that report changes are asked where something has happened, others at every look.
    A host that has not answered yet is neither in `hosts` nor in `unreachable` of an observation.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pool = context.clock.pool(min(context.forks, len(context.runtimes)))
        self._running: dict[str, Future[HostState]] = {}
        self._states: dict[str, HostState] = {}
        self._answers, self._changed = HostAnswers(), ChangedHosts(context)
        self._restarts = Restarts(self._limit, self._end_restarts, lambda task, words: own_paths(context, task)(words))

    def look(self) -> Observation:
        """Return an observation with the last state of each slow host.

        Reports lost hosts, hosts that are back, and restarts by a restart policy.
        """
        given_up = {host for host in self._context.unresponsive if not needs(self._context, host)}
        for host, runtime in self._context.runtimes.items():
            if host not in self._running and host not in given_up and self._changed.is_due(host):
                self._running[host] = self._pool.submit(self._observe, host, runtime)
        done, _ = wait(self._running.values(), timeout=_ANSWER)
        answered, failed = self._take([host for host, future in self._running.items() if future in done])
        for incident in self._answers.update(answered, failed, self._context.clock.now()):
            incident.send(self._context.report)
        self._states = {host: state for host, state in (self._states | answered).items() if host not in failed}
        silent = {host: silence.error for host, silence in self._answers.silent.items()}
        states = {host: state for host, state in self._states.items() if host not in silent}
        observation = Observation(states, unreachable=silent)
        self._context.report.observed(observation.containers())
        for incident in self._restarts.update(observation.containers()):
            incident.send(self._context.report)
        return observation

    def _observe(self, host: str, runtime: Runtime) -> HostState:
        self._changed.before_look(host)
        return runtime.observe()

    def _limit(self, task: str) -> int | None:
        wanted = self._context.container(task)
        return wanted.max_restarts if wanted else None

    def _end_restarts(self, observed: Observed) -> None:
        """Have the host end the restarts of a task, in the background; ignored if the host does not answer."""

        def ask() -> None:
            with suppress(HostError):
                self._context.runtimes[observed.host].end_restarts(observed.task)

        self._pool.submit(ask)

    def _take(self, hosts: list[str]) -> tuple[dict[str, HostState], dict[str, HostError]]:
        answered: dict[str, HostState] = {}
        failed: dict[str, HostError] = {}
        for host in hosts:
            try:
                answered[host] = self._running.pop(host).result()
            except HostError as error:
                failed[host] = error
                self._changed.failed(host)
        return answered, failed

    def check(self, host: str, patience: float) -> None:
        """Raise the error of `host` when it has been silent for longer than `patience` seconds."""
        if self._answers.seconds(host, self._context.clock.now()) > patience:
            raise self._answers.silent[host].error

    def close(self) -> None:
        """Start no more observations; does not wait for those that run."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._changed.close()

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""Asks all hosts again and again what runs there; a silent host delays none of the others."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field

from tfprov.engine.context import Context
from tfprov.engine.events import Incident
from tfprov.engine.monitoring.changed_hosts import ChangedHosts
from tfprov.engine.observe import needs
from tfprov.errors import HostError, Unreachable
from tfprov.hosts.base import Runtime
from tfprov.model.incident import IncidentKind
from tfprov.model.state import HostState, Observation

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


class Looks:
    """Looks at the hosts of `context`. Changes nothing there, and reports nothing. Close it with `close`.

    Hosts that report changes are asked where something has happened, others at every look. A host that has not answered
    yet is neither in `hosts` nor in `unreachable` of an observation; `is_complete` says whether there is none.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pool = context.clock.pool(min(context.forks, len(context.runtimes)))
        self._running: dict[str, Future[HostState]] = {}
        self._states: dict[str, HostState] = {}
        self._answers, self._changed = HostAnswers(), ChangedHosts(context)

    def look(self) -> tuple[Observation, list[Incident]]:
        """Return the last state of each host, and which hosts were lost or are back."""
        for host in self._asked():
            if host not in self._running and self._changed.is_due(host):
                self._running[host] = self._pool.submit(self._observe, host, self._context.runtimes[host])
        done, _ = wait(self._running.values(), timeout=_ANSWER)
        answered, failed = self._take([host for host, future in self._running.items() if future in done])
        for host in answered:  # one that a gather could not reach meanwhile: the end of the run needs it
            self._context.unresponsive.pop(host, None)
        incidents = self._answers.update(answered, failed, self._context.clock.now())
        self._states = {host: state for host, state in (self._states | answered).items() if host not in failed}
        silent = {host: silence.error for host, silence in self._answers.silent.items()}
        states = {host: state for host, state in self._states.items() if host not in silent}
        observation = self._context.completed(Observation(states, unreachable=silent))
        return observation.without_aliases(self._context.left), incidents

    @property
    def is_complete(self) -> bool:
        """Whether every host has answered once, or failed."""
        return all(host in self._states or host in self._answers.silent for host in self._asked())

    def _asked(self) -> list[str]:
        """Return the hosts but for those that do not answer: a verb without need of them does not try them again."""
        lost, asks = self._context.unresponsive, self._context.asks
        return [
            host for host in self._context.runtimes if asks(host) and (host not in lost or needs(self._context, host))
        ]

    def _observe(self, host: str, runtime: Runtime) -> HostState:
        self._changed.before_look(host)
        return runtime.observe()

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

    def submit(self, call: Callable[[], None]) -> None:
        """Call something in the background, by the threads of the looks."""
        self._pool.submit(call)

    def close(self) -> None:
        """Start no more looks; does not wait for those that run."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._changed.close()

"""Observes all hosts repeatedly during a training, and reports lost hosts and restarts."""

from collections.abc import Callable, Iterable
from contextlib import suppress

from tfprov.engine.context import Context
from tfprov.engine.events import Incident
from tfprov.engine.monitoring.failures import own_paths, remedy, same_cause
from tfprov.engine.monitoring.looks import Looks
from tfprov.engine.observe import note_paused
from tfprov.errors import HostError
from tfprov.hosts.crash import FailedRun, is_ended_externally, is_hopeless
from tfprov.model.incident import IncidentKind
from tfprov.model.state import Observation, Observed, State

TaskOnHost = tuple[str, str]
"""A task's name and its host."""

GONE = 30.0
"""Seconds after which a task that is not there any more is reported: `up` in another terminal replaces one in less."""
_CREATED = 3600.0
"""Seconds that another command has to start what it has created: before that, it uploads restored checkpoints, maybe
gigabytes over a slow line. The limit is for a command that was killed in between."""


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


class Replacements:
    """Detects tasks that another command may be about to start again, as `up` does. `ran` has when each last ran.

    A task is stopped, then absent for a moment, and created; it is started once its checkpoints and its code are uploaded.
    """

    def __init__(self) -> None:
        self.ran: dict[str, float] = {}
        self._created: dict[TaskOnHost, float] = {}
        self._now = 0.0

    def update(self, containers: Iterable[Observed], now: float) -> None:
        """Record the tasks that are observed at `now`."""
        self._now = now
        for one in containers:
            if one.state is State.RUNNING:
                self.ran[one.task] = now
            if one.state is not State.CREATED:
                self._created.pop((one.task, one.host), None)
            elif one.task in self.ran:
                self._created.setdefault((one.task, one.host), now)

    def ran_lately(self, task: str) -> bool:
        """Whether a task ran a short time ago, so that one that is absent may come back."""
        return task in self.ran and self._now - self.ran[task] < GONE

    def includes(self, one: Observed) -> bool:
        """Whether another command may start this task again; False for one that runs, or never ran before."""
        if one.state is State.CREATED:
            created = self._created.get((one.task, one.host))
            return created is not None and self._now - created < _CREATED
        return one.stopped and one.state is not State.RUNNING and self.ran_lately(one.task)


class Watch:
    """Observes the hosts of `context`, and reports what happens there. Close it with `close`, or as a context manager.

    See Looks for which hosts are asked, and for hosts that have not answered yet.
    """

    def __init__(self, context: Context) -> None:
        self._context, self._looks = context, Looks(context)
        self._restarts = Restarts(self._limit, self._end_restarts, lambda task, words: own_paths(context, task)(words))

    def look(self) -> Observation:
        """Return an observation with the last state of each slow host.

        Reports lost hosts, hosts that are back, and restarts by a restart policy.
        """
        observation, incidents = self._looks.look()
        for incident in incidents:
            incident.send(self._context.report)
        self._context.report.observed(observation.containers())
        note_paused(self._context, observation)
        for incident in self._restarts.update(observation.containers()):
            incident.send(self._context.report)
        return observation

    def _limit(self, task: str) -> int | None:
        wanted = self._context.container(task)
        return wanted.max_restarts if wanted else None

    def _end_restarts(self, observed: Observed) -> None:
        """Have the host end the restarts of a task, in the background; ignored if the host does not answer."""

        def ask() -> None:
            with suppress(HostError):
                self._context.runtimes[observed.host].end_restarts(observed.task)

        self._looks.submit(ask)

    def check(self, host: str, patience: float) -> None:
        """Raise the error of `host` when it has been silent for longer than `patience` seconds."""
        self._looks.check(host, patience)

    def close(self) -> None:
        """Start no more observations; does not wait for those that run."""
        self._looks.close()

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

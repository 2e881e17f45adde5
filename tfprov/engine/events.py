"""The events of a run: what the engine does, as values for one callback."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfprov.engine.reporter import Reporter
from tfprov.formats.event_file import EventProgress
from tfprov.model.incident import IncidentKind
from tfprov.model.plan import Action
from tfprov.model.state import Observed


@dataclass(frozen=True)
class Event:
    """Base class of all events."""

    def send(self, reporter: Reporter) -> None:
        """Call the method of `reporter` for this event."""
        raise NotImplementedError


@dataclass(frozen=True)
class ActionsPlanned(Event):
    """These actions are about to be executed."""

    actions: tuple[Action, ...]

    def send(self, reporter: Reporter) -> None:
        """See Event."""
        reporter.planned(self.actions)


@dataclass(frozen=True)
class ActionStarted(Event):
    """An action begins."""

    action: Action

    def send(self, reporter: Reporter) -> None:
        """See Event."""
        reporter.started(self.action)


@dataclass(frozen=True)
class ActionDone(Event):
    """An action succeeded."""

    action: Action

    def send(self, reporter: Reporter) -> None:
        """See Event."""
        reporter.done(self.action)


@dataclass(frozen=True)
class ActionFailed(Event):
    """An action failed with `error`."""

    action: Action
    error: Exception

    def send(self, reporter: Reporter) -> None:
        """See Event."""
        reporter.failed(self.action, self.error)


@dataclass(frozen=True)
class ActionSkipped(Event):
    """An action was not tried: an action it needs failed, or the run was interrupted."""

    action: Action

    def send(self, reporter: Reporter) -> None:
        """See Event."""
        reporter.skipped(self.action)


@dataclass(frozen=True)
class Note(Event):
    """A line for the user."""

    text: str

    def send(self, reporter: Reporter) -> None:
        """See Event."""
        reporter.note(self.text)


@dataclass(frozen=True)
class Incident(Note):
    """Something that somebody has to know of. `task` and `host` are empty where they say nothing."""

    kind: IncidentKind
    task: str = ""
    host: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    """The steps of WENT_BACK: `lost` and `resumed`."""

    def send(self, reporter: Reporter) -> None:
        """See Event."""
        reporter.incident(self.kind, self.text, task=self.task, host=self.host, **self.values)


@dataclass(frozen=True)
class TaskChanged(Event):
    """A task was observed for the first time, or in another state than before."""

    observed: Observed

    def send(self, reporter: Reporter) -> None:
        """See Event."""
        reporter.observed([self.observed])


@dataclass(frozen=True)
class RunStarted(Event):
    """Tasks are about to start in this run."""

    run: str

    def send(self, reporter: Reporter) -> None:
        """See Event."""
        reporter.run_started(self.run)


@dataclass(frozen=True)
class LogLine(Event):
    """A line that a task printed."""

    task: str
    line: str

    def send(self, reporter: Reporter) -> None:
        """See Event."""
        reporter.log(self.task, self.line)


@dataclass(frozen=True)
class LineRedrawn(Event):
    """The line that a task is printing has changed, as a progress bar does; LogLine has it once it is complete."""

    task: str
    line: str

    def send(self, reporter: Reporter) -> None:
        """See Event."""
        reporter.redrawn(self.task, self.line)


@dataclass(frozen=True)
class TrainingProgress(Event):
    """The chief advanced; `steps` is the number of steps it trains, None if unknown."""

    progress: EventProgress
    steps: int | None

    def send(self, reporter: Reporter) -> None:
        """See Event."""
        reporter.progress(self.progress, self.steps)


@dataclass(frozen=True)
class Transferred(Event):
    """`sent` of `total` bytes were transferred to host `name`, or exported of image `name`; `total` is 0 if unknown."""

    name: str
    sent: int
    total: int

    def send(self, reporter: Reporter) -> None:
        """See Event."""
        reporter.transferred(self.name, self.sent, self.total)


@dataclass(frozen=True)
class Awaiting(Event):
    """The run waits for `what`; an empty text ends the wait."""

    what: str

    def send(self, reporter: Reporter) -> None:
        """See Event."""
        reporter.awaiting(self.what)


OnEvent = Callable[[Event], None]
"""A callback for events; called from several threads at once."""


class Callback:
    """A Reporter that passes each event to a function."""

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event
        self._states: dict[tuple[str, str], tuple[Any, ...] | None] = {}
        self._lock = threading.RLock()  # a callback may call a verb, which observes, too

    def planned(self, actions: Sequence[Action]) -> None:
        """See Reporter."""
        self._on_event(ActionsPlanned(tuple(actions)))

    def started(self, action: Action) -> None:
        """See Reporter."""
        self._on_event(ActionStarted(action))

    def done(self, action: Action) -> None:
        """See Reporter."""
        self._on_event(ActionDone(action))

    def failed(self, action: Action, error: Exception) -> None:
        """See Reporter."""
        self._on_event(ActionFailed(action, error))

    def skipped(self, action: Action) -> None:
        """See Reporter."""
        self._on_event(ActionSkipped(action))

    def note(self, text: str) -> None:
        """See Reporter."""
        self._on_event(Note(text))

    def log(self, task: str, line: str) -> None:
        """See Reporter."""
        self._on_event(LogLine(task, line))

    def redrawn(self, task: str, line: str) -> None:
        """See Reporter."""
        self._on_event(LineRedrawn(task, line))

    def progress(self, progress: EventProgress, steps: int | None) -> None:
        """See Reporter."""
        self._on_event(TrainingProgress(progress, steps))

    def transferred(self, name: str, sent: int, total: int) -> None:
        """See Reporter."""
        self._on_event(Transferred(name, sent, total))

    def awaiting(self, what: str) -> None:
        """See Reporter."""
        self._on_event(Awaiting(what))

    def incident(self, kind: IncidentKind, text: str, *, task: str = "", host: str = "", **values: Any) -> None:
        """See Reporter."""
        self._on_event(Incident(text, kind, task, host, values))

    def observed(self, containers: Iterable[Observed]) -> None:
        """See Reporter; passes changed states only, those of several threads in one order: the last one is the newest."""
        for one in containers:
            state = one.state, one.id, one.restarts, one.restarting, one.paused, one.exit_code, one.stopped, one.gave_up
            with self._lock:
                if (before := self._states.get((one.task, one.host))) == state:
                    continue
                self._states[one.task, one.host] = state
                try:
                    self._on_event(TaskChanged(one))
                except BaseException:  # Ctrl-C, or a closed output: the next observation passes it again
                    self._states[one.task, one.host] = before
                    raise

    def run_started(self, run: str) -> None:
        """See Reporter."""
        self._on_event(RunStarted(run))


class Quiet(Callback):
    """A Reporter that drops every event."""

    def __init__(self) -> None:
        super().__init__(lambda _event: None)

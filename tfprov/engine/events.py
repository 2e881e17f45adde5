"""The events of a run: what the engine does, as values for one callback."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tfprov.formats.event_file import EventProgress
from tfprov.model.plan import Action


class Reporter(Protocol):
    """Receives the events of a run as method calls, from several threads at once."""

    def planned(self, actions: Sequence[Action]) -> None:
        """These actions are about to be executed."""

    def started(self, action: Action) -> None:
        """An action begins."""

    def done(self, action: Action) -> None:
        """An action succeeded."""

    def failed(self, action: Action, error: Exception) -> None:
        """An action failed."""

    def skipped(self, action: Action) -> None:
        """An action was not tried: an action it needs failed, or the run was interrupted."""

    def note(self, text: str) -> None:
        """A line for the user."""

    def log(self, task: str, line: str) -> None:
        """A task printed a line."""

    def redrawn(self, task: str, line: str) -> None:
        """The line that a task is printing has changed, as a progress bar does; `log` has it once it is complete."""

    def progress(self, progress: EventProgress, steps: int | None) -> None:
        """The chief advanced; `steps` is the number of steps it trains, None if unknown."""

    def transferred(self, name: str, sent: int, total: int) -> None:
        """`sent` of `total` bytes were transferred; `total` is 0 if unknown.

        `name` is a host for a delivery or a fetch, and an image for an export.
        """

    def awaiting(self, what: str) -> None:
        """The run waits for `what`; an empty text ends the wait."""


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


class Quiet(Callback):
    """A Reporter that drops every event."""

    def __init__(self) -> None:
        super().__init__(lambda _event: None)

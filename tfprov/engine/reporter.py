"""What the engine calls with the events of a run."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from tfprov.formats.event_file import EventProgress
from tfprov.model.incident import IncidentKind
from tfprov.model.plan import Action
from tfprov.model.state import Observed


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

    def incident(self, kind: IncidentKind, text: str, *, task: str = "", host: str = "", **values: Any) -> None:
        """Something happened that somebody has to know of; `text` is the line for the user."""

    def observed(self, containers: Iterable[Observed]) -> None:
        """These containers were observed."""

    def run_started(self, run: str) -> None:
        """Tasks are about to start in the run with this id."""

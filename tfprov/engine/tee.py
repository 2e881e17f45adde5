"""A Reporter that passes what it receives to several others."""

from collections.abc import Iterable, Sequence
from typing import Any

from tfprov.engine.reporter import Reporter
from tfprov.formats.event_file import EventProgress
from tfprov.model.incident import IncidentKind
from tfprov.model.plan import Action
from tfprov.model.state import Observed


class Tee:
    """Calls each of `reporters`, in order."""

    def __init__(self, *reporters: Reporter) -> None:
        self._reporters = reporters

    def planned(self, actions: Sequence[Action]) -> None:
        """See Reporter."""
        for one in self._reporters:
            one.planned(actions)

    def started(self, action: Action) -> None:
        """See Reporter."""
        for one in self._reporters:
            one.started(action)

    def done(self, action: Action) -> None:
        """See Reporter."""
        for one in self._reporters:
            one.done(action)

    def failed(self, action: Action, error: Exception) -> None:
        """See Reporter."""
        for one in self._reporters:
            one.failed(action, error)

    def skipped(self, action: Action) -> None:
        """See Reporter."""
        for one in self._reporters:
            one.skipped(action)

    def note(self, text: str) -> None:
        """See Reporter."""
        for one in self._reporters:
            one.note(text)

    def log(self, task: str, line: str) -> None:
        """See Reporter."""
        for one in self._reporters:
            one.log(task, line)

    def redrawn(self, task: str, line: str) -> None:
        """See Reporter."""
        for one in self._reporters:
            one.redrawn(task, line)

    def progress(self, progress: EventProgress, steps: int | None) -> None:
        """See Reporter."""
        for one in self._reporters:
            one.progress(progress, steps)

    def transferred(self, name: str, sent: int, total: int) -> None:
        """See Reporter."""
        for one in self._reporters:
            one.transferred(name, sent, total)

    def awaiting(self, what: str) -> None:
        """See Reporter."""
        for one in self._reporters:
            one.awaiting(what)

    def incident(self, kind: IncidentKind, text: str, *, task: str = "", host: str = "", **values: Any) -> None:
        """See Reporter."""
        for one in self._reporters:
            one.incident(kind, text, task=task, host=host, **values)

    def observed(self, containers: Iterable[Observed]) -> None:
        """See Reporter."""
        seen = tuple(containers)
        for one in self._reporters:
            one.observed(seen)

    def run_started(self, run: str) -> None:
        """See Reporter."""
        for one in self._reporters:
            one.run_started(run)

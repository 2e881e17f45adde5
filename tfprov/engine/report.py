"""How the engine tells what it does; the command line decides how that looks."""

from typing import Protocol

from tfprov.events import Progress
from tfprov.model.plan import Action


class Reporter(Protocol):
    """Receives what happens, from several threads at once."""

    def started(self, action: Action) -> None:
        """An action begins."""

    def done(self, action: Action) -> None:
        """It succeeded."""

    def failed(self, action: Action, error: Exception) -> None:
        """It did not."""

    def skipped(self, action: Action) -> None:
        """It was not tried, because something it needs failed or because of an interrupt."""

    def note(self, text: str) -> None:
        """Something worth a line."""

    def log(self, task: str, line: str) -> None:
        """A task printed a line."""

    def progress(self, progress: Progress) -> None:
        """The chief got further."""

    def transferred(self, host: str, sent: int, total: int) -> None:
        """So many bytes of `total` have come to `host` since a delivery or a fetch began; 0 where nobody knows how many."""


class Quiet:
    """A Reporter that tells nobody."""

    def started(self, action: Action) -> None:
        """See Reporter."""

    def done(self, action: Action) -> None:
        """See Reporter."""

    def failed(self, action: Action, error: Exception) -> None:
        """See Reporter."""

    def skipped(self, action: Action) -> None:
        """See Reporter."""

    def note(self, text: str) -> None:
        """See Reporter."""

    def log(self, task: str, line: str) -> None:
        """See Reporter."""

    def progress(self, progress: Progress) -> None:
        """See Reporter."""

    def transferred(self, host: str, sent: int, total: int) -> None:
        """See Reporter."""

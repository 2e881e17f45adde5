"""How the engine tells what it does; the command line decides how that looks."""

from collections.abc import Sequence
from typing import Protocol

from tfprov.formats.event_file import Progress
from tfprov.model.plan import Action


class Reporter(Protocol):
    """Receives what happens, from several threads at once."""

    def planned(self, actions: Sequence[Action]) -> None:
        """These actions are to be carried out."""

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

    def progress(self, progress: Progress, steps: int | None) -> None:
        """The chief got further, of so many `steps` in all; None where nobody knows."""

    def transferred(self, name: str, sent: int, total: int) -> None:
        """Of what is named so many bytes of `total` have come; 0 where nobody knows how many there are.

        In a delivery or a fetch it is the host that they come to, since that began.
        """

    def awaiting(self, what: str) -> None:
        """This is waited for now, or brought here; empty for nothing."""


class Quiet:
    """A Reporter that tells nobody."""

    def planned(self, actions: Sequence[Action]) -> None:
        """See Reporter."""

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

    def progress(self, progress: Progress, steps: int | None) -> None:
        """See Reporter."""

    def transferred(self, name: str, sent: int, total: int) -> None:
        """See Reporter."""

    def awaiting(self, what: str) -> None:
        """See Reporter."""

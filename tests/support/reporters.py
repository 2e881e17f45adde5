"""A Reporter that records the events of a run."""

from collections.abc import Callable, Iterable

from tfprov.engine.events import Awaiting, Callback, Event, Incident, LogLine, Note


class RecordingReporter(Callback):
    """Records every event in `events`; `on_note` is called after each note, to change the world at that moment."""

    def __init__(self, on_note: Callable[[], object] = lambda: None) -> None:
        self.events: list[Event] = []
        self.on_note = on_note
        super().__init__(self._record)

    def _record(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Note):
            self.on_note()

    @property
    def notes(self) -> list[str]:
        """Return the texts of all notes."""
        return [event.text for event in self.events if isinstance(event, Note)]

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Return the lines that tasks printed, each with its task."""
        return [(event.task, event.line) for event in self.events if isinstance(event, LogLine)]

    @property
    def awaited(self) -> list[str]:
        """Return what the run waited for, without repetitions in a row."""
        texts = [event.what for event in self.events if isinstance(event, Awaiting)]
        return [text for number, text in enumerate(texts) if texts[number - 1 : number] != [text]]


def texts(incidents: Iterable[Incident]) -> list[str]:
    """Return the lines for the user."""
    return [incident.text for incident in incidents]

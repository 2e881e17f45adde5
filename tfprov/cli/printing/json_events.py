"""The events of a verb as JSON, one a line: what `--json` prints. schemas/events.schema.json describes every line."""

import json
import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, TextIO

import click

from tfprov.cli.escape_sequences import Screened, json_screened
from tfprov.cli.printing.json_text import finite
from tfprov.engine.events import Event
from tfprov.errors import HUNG_UP, INTERRUPTED, TERMINATED, HangUp, Terminated, TfprovError, mask_secrets
from tfprov.formats.event_file import EventProgress
from tfprov.model.incident import IncidentKind
from tfprov.model.plan import Action
from tfprov.model.state import Observed
from tfprov.results import LogRecord

_TRANSFER_PAUSE = 0.5
"""Seconds between two lines about the same transfer, but for its last one."""


class Result(Protocol):
    """What a verb of the API returns."""

    def to_dict(self) -> Mapping[str, Any]:
        """Return plain data."""
        ...


class JsonEvents:
    """Prints each event as a line of JSON; used where a Printer prints for people. `wall` returns seconds since the epoch.

    As a context manager it prints the event `error` for an error that ends the block, and `interrupted` after a signal.
    """

    def __init__(self, out: TextIO | None = None, wall: Callable[[], float] = time.time) -> None:
        out = out or sys.stdout
        self._out: TextIO = out.raw if isinstance(out, Screened) else out
        self._wall = wall
        self._lock = threading.Lock()
        self._transfers: dict[str, float] = {}
        self._awaited = ""

    def __enter__(self) -> "JsonEvents":
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _at: TracebackType | None
    ) -> None:
        if isinstance(error, TfprovError):
            self.emit("error", message=str(error), exit_code=error.exit_code)
        elif isinstance(error, HangUp):
            self.emit("interrupted", exit_code=HUNG_UP)
        elif isinstance(error, KeyboardInterrupt):
            self.emit("interrupted", exit_code=TERMINATED if isinstance(error, Terminated) else INTERRUPTED)

    def emit(self, event: str, **fields: Any) -> None:
        """Print one event with the time; secrets are masked, and control characters are escapes of JSON.

        NaN and infinities, which JSON lacks, are null: a loss, a measure or a value of an incident may be one.
        """
        # Masked before it is encoded: JSON escapes quotes, backslashes and tabs, which secrets may have.
        data = {"event": event, "time": round(self._wall(), 3), **finite(_masked(fields))}
        line = json.dumps(data, ensure_ascii=False, allow_nan=False)
        with self._lock:
            self._out.write(f"{json_screened(line)}\n")
            self._out.flush()

    def result(self, result: Result) -> None:
        """Print what the verb returned."""
        self.emit("result", result=result.to_dict())

    def align(self, tasks: Iterable[str]) -> None:
        """Do nothing: lines of JSON have no columns."""

    # -- Reporter -----------------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """Print an event of the API."""
        event.send(self)

    def planned(self, actions: Sequence[Action]) -> None:
        """See Reporter."""
        self.emit("planned", actions=[_action(action) for action in actions])

    def started(self, action: Action) -> None:
        """See Reporter."""
        self.emit("started", **_action(action))

    def done(self, action: Action) -> None:
        """See Reporter."""
        self.emit("done", **_action(action))

    def failed(self, action: Action, error: Exception) -> None:
        """See Reporter."""
        self.emit("failed", **_action(action), message=str(error))

    def skipped(self, action: Action) -> None:
        """See Reporter."""
        self.emit("skipped", **_action(action))

    def note(self, text: str) -> None:
        """See Reporter."""
        self.emit("note", text=text)

    def log(self, task: str, line: str) -> None:
        """See Reporter."""
        self.emit("log", task=task, line=line)

    def record(self, record: LogRecord) -> None:
        """Print a line of `logs`, with the time at which it was printed; a remark is a note."""
        if record.is_remark:
            self.note(record.line)
        elif not record.unfinished:
            self.emit("log", **record.to_dict())

    def redrawn(self, task: str, line: str) -> None:
        """See Reporter; only complete lines are printed."""

    def progress(self, progress: EventProgress, steps: int | None) -> None:
        """See Reporter."""
        rate, left = progress.steps_per_second, progress.seconds_left(steps)
        self.emit(
            "progress", step=progress.step, steps=steps, loss=progress.loss, steps_per_second=rate, seconds_left=left
        )

    def transferred(self, name: str, sent: int, total: int) -> None:
        """See Reporter; twice a second at most, and at the end."""
        now = self._wall()
        if sent < total and now - self._transfers.get(name, -math.inf) < _TRANSFER_PAUSE:
            return
        self._transfers[name] = now
        self.emit("transferred", name=name, sent=sent, total=total or None)

    def incident(self, kind: IncidentKind, text: str, *, task: str = "", host: str = "", **values: Any) -> None:
        """See Reporter."""
        self.emit("incident", kind=str(kind), text=text, task=task, host=host, values=values)

    def observed(self, containers: Iterable[Observed]) -> None:
        """See Reporter."""
        for one in containers:
            self.emit("task", task=one.task, host=one.host, state=one.state.value, restarts=one.restarts)

    def run_started(self, run: str) -> None:
        """See Reporter."""
        self.emit("run", run=run)

    def awaiting(self, what: str) -> None:
        """See Reporter; once for as long as it is the same."""
        with self._lock:
            is_new, self._awaited = what != self._awaited, what
        if is_new:
            self.emit("awaiting", what=what)


def events_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--json` to a verb that prints events as they happen."""
    option = click.option("--json", "as_json", is_flag=True, help="Print events for programs, one a line.")
    return option(command)


def _masked(value: Any) -> Any:
    """Return plain data with every known secret masked in its texts and keys."""
    if isinstance(value, Mapping):
        return {_masked(key): _masked(below) for key, below in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(below) for below in value]
    return mask_secrets(value) if isinstance(value, str) else value


def _action(action: Action) -> dict[str, str]:
    return {"action": str(action.kind), "subject": action.subject, "host": action.host}

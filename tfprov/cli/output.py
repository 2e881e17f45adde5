"""Output: colours and a live line on a terminal, plain lines in a pipe."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TextIO

from tfprov.cli.escape_sequences import Screened, has_colours, on_one_line
from tfprov.cli.printing import verbose
from tfprov.cli.printing.colour import chosen
from tfprov.cli.printing.live_line import LiveLine
from tfprov.cli.printing.log_text import level_colour, stamp
from tfprov.cli.progress_line import MOVES, UnderWay, progress_line
from tfprov.engine.events import Event
from tfprov.errors import Terminated
from tfprov.formats.event_file import EventProgress
from tfprov.model.incident import IncidentKind
from tfprov.model.plan import Action, ActionKind
from tfprov.model.state import Observed
from tfprov.planning.plan_text import format_size
from tfprov.planning.reconcile import describe_artifact
from tfprov.results import LogRecord

_COLOURS = ("36", "33", "35", "32", "34", "96", "93", "95")
"""ANSI colours of the tasks' prefixes, in turn."""
_PLAIN_PROGRESS = 5.0
"""Seconds between two lines of progress in a pipe."""
_REDRAW = 0.5
"""Seconds between two redraws of the live line, which shows elapsed times."""


class Printer:
    """Prints events to `out`, by default standard output.

    `live` shows progress on a last line that changes, by default on a terminal. `now` returns seconds since any moment.
    """

    def __init__(
        self,
        *,
        live: bool | None = None,
        colour: bool | None = None,
        out: TextIO | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        out = out or sys.stdout
        raw: TextIO = out.raw if isinstance(out, Screened) else out
        self.live = raw.isatty() if live is None else live
        self.colour = has_colours(raw, chosen() if colour is None else colour)
        self.raw, self.out = raw, Screened(raw, colours=self.colour)
        self.now = now
        self.lock = threading.RLock()
        self.under_way = UnderWay()
        self.prefixes: dict[str, str] = {}
        self.width = 0
        self.progress_at = 0.0
        self.line: LiveLine | None = None
        self._left = threading.Event()

    # -- the live line ------------------------------------------------------------------------------------------------

    def __enter__(self) -> "Printer":
        if self.live:
            self.awaits("asking the hosts")
            self.line = LiveLine(self.raw, lambda: os.get_terminal_size(self.raw.fileno()).columns, colours=self.colour)
            threading.Thread(target=self._redraw, name="tfprov-live", daemon=True).start()
            verbose.write_by(self.aside)
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Remove the live line, for good: something else writes to the terminal from here on."""
        self._left.set()
        with self.lock:
            if self.line is not None:
                self.line.show("")
                verbose.write_by(None)
            self.line = None

    def _redraw(self) -> None:
        while not self._left.wait(_REDRAW):
            self.show()

    def show(self) -> None:
        """Redraw the live line."""
        with self.lock:
            if self.line is not None:
                self.line.show(self.under_way.text(self.now()))

    def awaits(self, what: str) -> None:
        """Set what is awaited whenever nothing has happened for a second; an empty text shows nothing then."""
        with self.lock:
            self.under_way.idle, self.under_way.idle_since = what, self.now()

    def print(self, text: str) -> None:
        """Write one line above the live one."""
        with self.lock:
            self.under_way.idle_since = self.now()
            if self.line is not None:
                self.line.print(text)
            else:
                self.out.write(f"{text}\n")
                self.out.flush()

    def aside(self, text: str) -> None:
        """Write one line to standard error, without the live line in front of it."""
        with self.lock:
            if self.line is not None:
                self.line.show("")
            with contextlib.suppress(OSError):
                sys.stderr.write(f"{text}\n")
                sys.stderr.flush()
            self.show()

    # -- Reporter -----------------------------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """Print an event of the API."""
        event.send(self)

    def planned(self, actions: Sequence[Action]) -> None:
        """See Reporter."""
        with self.lock:
            self.under_way.plan(actions)

    def started(self, action: Action) -> None:
        """See Reporter."""
        with self.lock:
            self.under_way.begin(action, self.now())
            self.show()

    def done(self, action: Action) -> None:
        """See Reporter."""
        with self.lock:
            _, begin = self.under_way.running.get(action.id, (action, self.now()))
            sent = self.under_way.end(action)
            size = f" ({format_size(sent)} {MOVES[action.kind]})" if sent else ""
            if verbose.is_on():
                size += f" ({self.now() - begin:.2f} s)"
            self.print(f"{self.paint('ok', '32')}       {describe(action)}{size}")
            self.show()

    def failed(self, action: Action, error: Exception) -> None:
        """See Reporter."""
        with self.lock:
            self.under_way.end(action)
            self.print(f"{self.paint('failed', '31')}   {describe(action)}: {error}")
            self.show()

    def skipped(self, action: Action) -> None:
        """See Reporter."""
        self.print(f"{self.paint('skipped', '33')}  {describe(action)}")

    def note(self, text: str) -> None:
        """See Reporter."""
        self.print(text)

    def log(self, task: str, line: str) -> None:
        """See Reporter."""
        self.record(LogRecord(task, line))

    def redrawn(self, task: str, line: str) -> None:
        """See Reporter; on the live line only: in a pipe a progress bar is its last state."""
        with self.lock:
            self.under_way.redraw(task, line)
            self.show()

    def record(self, record: LogRecord, *, times: bool = False) -> None:
        """Print a line of a log, behind its task's name and, with `times`, the time at which it was printed."""
        with self.lock:
            if record.unfinished:
                self.redrawn(record.task, record.line)
                return
            if record.is_remark:
                self.print(record.line)
                return
            self.under_way.redraw(record.task, "")
            text = on_one_line(record.line)
            if self.colour and (colour := level_colour(text)):
                text = self.paint(text, colour)
            when = f"{stamp(record.printed)} " if times else ""
            self.print(f"{self.prefix(record.task)} {when}{text}")

    def progress(self, progress: EventProgress, steps: int | None) -> None:
        """See Reporter."""
        with self.lock:
            changed = self.under_way.advance(progress, steps, self.now())
            if self.line is not None:
                self.show()
            elif changed and self.now() - self.progress_at >= _PLAIN_PROGRESS:
                self.progress_at = self.now()
                self.print(progress_line(progress, steps))

    def transferred(self, name: str, sent: int, total: int) -> None:
        """See Reporter; the live line shows it with its next redraw."""
        with self.lock:
            self.under_way.moved(name, sent, total, self.now())

    def awaiting(self, what: str) -> None:
        """See Reporter."""
        with self.lock:
            self.under_way.await_(what, self.now())

    def incident(self, kind: IncidentKind, text: str, *, task: str = "", host: str = "", **values: Any) -> None:
        """See Reporter; `text` names the task and the host."""
        with self.lock:
            if kind is IncidentKind.WENT_BACK:
                self.under_way.lost += max(0, int(values.get("lost", 0)) - int(values.get("resumed", 0)))
            self.print(text)

    def observed(self, containers: Iterable[Observed]) -> None:
        """See Reporter; `status` shows it."""

    def run_started(self, run: str) -> None:
        """See Reporter; `runs` shows it."""

    # -- words --------------------------------------------------------------------------------------------------------

    def result(self, _result: object) -> None:
        """Do nothing: people have read it in the lines before."""

    def align(self, tasks: Iterable[str]) -> None:
        """Make the prefixes of these tasks equally wide."""
        self.width = max(map(len, tasks), default=0)

    def prefix(self, task: str) -> str:
        """Return the prefix of a line that `task` printed."""
        if task not in self.prefixes:
            colour = _COLOURS[len(self.prefixes) % len(_COLOURS)]
            self.prefixes[task] = self.paint(f"{task.ljust(self.width)} |", colour)
        return self.prefixes[task]

    def paint(self, text: str, colour: str) -> str:
        """Return `text` in an ANSI colour, or as it is if output has no colours."""
        return f"\x1b[{colour}m{text}\x1b[0m" if self.colour else text


@contextlib.contextmanager
def until_ctrl_c() -> Iterator[None]:
    """End the block quietly with Ctrl-C; SIGTERM, which is raised as a kind of it, goes on to the exit code."""
    try:
        yield
    except Terminated:
        raise
    except KeyboardInterrupt:
        return


def describe(action: Action) -> str:
    """Return an action in words: `start ps/0 on localhost`."""
    if action.kind == ActionKind.BUILD:
        return f"build {describe_artifact(action.subject)}"
    if action.kind in MOVES:
        return f"{action.kind} {describe_artifact(action.subject)} to {action.host}"
    return f"{action.kind} {action.subject} on {action.host}"


def table(rows: list[tuple[str, ...]]) -> list[str]:
    """Return rows as lines with aligned columns."""
    rows = [tuple(map(on_one_line, row)) for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]

"""How tfprov looks: colour and a live line on a terminal, plain lines in a pipe."""

import sys
import threading
import time
from typing import Any

from tfprov.events import Progress
from tfprov.model.plan import Action
from tfprov.planning.reconcile import noun
from tfprov.planning.text import readable

_COLOURS = ("36", "33", "35", "32", "34", "96", "93", "95")
"""ANSI colours of the tasks' prefixes, in turn."""
_PLAIN_PROGRESS = 5.0
"""Seconds between two lines of progress in a pipe."""


_MOVES = {"deliver": "sent", "fetch": "fetched"}
"""Actions that move bytes, and what is said of the bytes."""
_SHOWN = 1_000_000
"""Bytes between two looks of the live line at what was sent."""


class Printer:
    """A Reporter that writes to the standard output; `live` shows what is under way on a last line that changes."""

    def __init__(self, *, live: bool | None = None, colour: bool | None = None) -> None:
        terminal = sys.stdout.isatty()
        self.live = terminal if live is None else live
        self.colour = terminal if colour is None else colour
        self.lock = threading.RLock()
        self.running: dict[str, Action] = {}
        self.sent: dict[str, tuple[int, int]] = {}
        self.prefixes: dict[str, str] = {}
        self.width = 0
        self.last: Progress | None = None
        self.told_at = 0.0
        self.line: Any = None

    # -- the live line ------------------------------------------------------------------------------------------------

    def __enter__(self) -> "Printer":
        if self.live:
            from rich.console import Console  # noqa: PLC0415  slow, and not needed in a pipe

            self.line = Console(highlight=False).status("", spinner="dots")
        return self

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.clear()
            self.line = None

    def clear(self) -> None:
        """Take the live line away."""
        if self.line is not None:
            self.line.stop()

    def show(self) -> None:
        """Show what is under way on the live line."""
        if self.line is None:
            return
        text = ", ".join(self.under_way(action) for action in self.running.values()) or (
            progress_line(self.last) if self.last else ""
        )
        if text:
            self.line.update(text)
            self.line.start()
        else:
            self.line.stop()

    def under_way(self, action: Action) -> str:
        """Return what is being done, with how far it is."""
        sent, total = self.sent.get(action.host, (0, 0)) if action.kind in _MOVES else (0, 0)
        share = f" {100 * sent // total}% of {readable(total)}" if total else ""
        return describe(action) + share

    def print(self, text: str) -> None:
        """Write one line above the live one."""
        with self.lock:
            if self.line is not None:
                self.line.stop()
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
            self.show()

    # -- Reporter -----------------------------------------------------------------------------------------------------

    def started(self, action: Action) -> None:
        """See Reporter."""
        with self.lock:
            self.running[describe(action)] = action
            self.show()

    def done(self, action: Action) -> None:
        """See Reporter."""
        with self.lock:
            self.running.pop(describe(action), None)
            sent, _ = self.sent.pop(action.host, (0, 0)) if action.kind in _MOVES else (0, 0)
            size = f" ({readable(sent)} {_MOVES[action.kind]})" if sent else ""
            self.print(f"{self.paint('ok', '32')}       {describe(action)}{size}")

    def failed(self, action: Action, error: Exception) -> None:
        """See Reporter."""
        with self.lock:
            self.running.pop(describe(action), None)
            self.print(f"{self.paint('failed', '31')}   {describe(action)}: {error}")

    def skipped(self, action: Action) -> None:
        """See Reporter."""
        self.print(f"{self.paint('skipped', '33')}  {describe(action)}")

    def note(self, text: str) -> None:
        """See Reporter."""
        self.print(text)

    def log(self, task: str, line: str) -> None:
        """See Reporter."""
        self.print(f"{self.prefix(task)} {printable(line)}")

    def progress(self, progress: Progress) -> None:
        """See Reporter."""
        with self.lock:
            changed = self.last is None or progress != self.last
            self.last = progress
            if self.line is not None:
                self.show()
            elif changed and time.monotonic() - self.told_at >= _PLAIN_PROGRESS:
                self.told_at = time.monotonic()
                self.print(progress_line(progress))

    def transferred(self, host: str, sent: int, total: int) -> None:
        """See Reporter."""
        with self.lock:
            before, _ = self.sent.get(host, (0, 0))
            self.sent[host] = sent, total
            if sent // _SHOWN != before // _SHOWN or sent == total:
                self.show()

    # -- words --------------------------------------------------------------------------------------------------------

    def align(self, tasks: list[str]) -> None:
        """Make the prefixes of these tasks equally wide."""
        self.width = max(map(len, tasks), default=0)

    def prefix(self, task: str) -> str:
        """Return what stands before a line that `task` printed."""
        if task not in self.prefixes:
            colour = _COLOURS[len(self.prefixes) % len(_COLOURS)]
            self.prefixes[task] = self.paint(f"{task.ljust(self.width)} |", colour)
        return self.prefixes[task]

    def paint(self, text: str, colour: str) -> str:
        """Return `text` in an ANSI colour where colours are wanted."""
        return f"\x1b[{colour}m{text}\x1b[0m" if self.colour else text


def describe(action: Action) -> str:
    """Return an action in words: `start ps/0 on localhost`."""
    if action.kind == "build":
        return f"build {noun(action.subject)}"
    if action.kind in _MOVES:
        return f"{action.kind} {noun(action.subject)} to {action.host}"
    return f"{action.kind} {action.subject} on {action.host}"


def progress_line(progress: Progress) -> str:
    """Return the chief's progress in one line."""
    speed = f"  {progress.steps_per_second:.1f} steps/s" if progress.steps_per_second is not None else ""
    loss = f"  loss {progress.loss:.6g}" if progress.loss is not None else ""
    return f"step {progress.step}{speed}{loss}"


def duration(seconds: float) -> str:
    """Return a time span in its two largest units."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d {hours}h"
    if hours:
        return f"{hours}h {minutes}m"
    return f"{minutes}m {rest}s" if minutes else f"{rest}s"


def printable(line: str) -> str:
    """Return a log line without what could steer the terminal; tabs and colours stay."""
    return "".join(c if c in "\t\x1b" or c.isprintable() else "\ufffd" for c in line)


def table(rows: list[tuple[str, ...]]) -> list[str]:
    """Return rows as lines with aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]

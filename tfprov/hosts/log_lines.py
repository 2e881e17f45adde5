"""Lines of logs with their times, and the range of times that is asked for."""

import math
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

_RECORD = Struct("<Qd")
_MOST_TIMES = 64 * 1024 * 1024
"""Bytes of a file of times that are read: 48 days of a task that prints every second."""


class Line(str):
    """A line of a log. `at` is when it was printed, in seconds since 1970 by its host's clock; None if unknown.

    `unfinished`: it has no line end yet and may still change, as a progress bar does.
    """

    __slots__ = ("at", "unfinished")
    at: float | None
    unfinished: bool

    def __new__(cls, text: str, at: float | None = None, *, unfinished: bool = False) -> "Line":
        """Return `text` as a line."""
        line = super().__new__(cls, text)
        line.at, line.unfinished = at, unfinished
        return line


@dataclass(frozen=True)
class LogTimes:
    """Asks for lines with their times, from `since` on and before `until`, in seconds since 1970; None for no bound."""

    since: float | None = None
    until: float | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether only some of the lines are asked for."""
        return self.since is not None or self.until is not None

    def includes(self, line: Line) -> bool:
        """Whether a line is in the range; one without a time only if everything is."""
        if line.at is None:
            return not self.is_bounded
        return (self.since or 0.0) <= line.at < (math.inf if self.until is None else self.until)

    def select(self, lines: Iterable[Line], tail: int | None) -> Iterator[Line]:
        """Return the last `tail` lines of those in the range; all of these for None."""
        chosen = (line for line in lines if self.includes(line))
        return chosen if tail is None else iter(deque(chosen, tail))


class TimesFile:
    """When a log file had how many bytes: records of 16 bytes, in the order of both. Written by one process."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, size: int, time: float) -> None:
        """Record that the log had `size` bytes when it was written to last, at `time`."""
        with self.path.open("ab") as file:
            file.write(_RECORD.pack(size, time))

    def rotate_to(self, older: "TimesFile", cut: int) -> None:
        """Move the records to `older`, for a log of which the first `cut` bytes were dropped."""
        kept = b"".join(_RECORD.pack(size - cut, time) for size, time in self._records() if size > cut)
        older.path.write_bytes(kept)
        self.path.write_bytes(b"")

    def _records(self) -> Iterator[tuple[int, float]]:
        try:
            with self.path.open("rb") as file:
                data = file.read(_MOST_TIMES)
        except FileNotFoundError:  # a log of an earlier version, or one that has just begun
            return
        yield from _RECORD.iter_unpack(data[: len(data) - len(data) % _RECORD.size])

    def read(self, written_at: float | None) -> "Times":
        """Return the times; what was printed after the last record is as old as the log file, `written_at`."""
        sizes, times = array("Q"), array("d")
        for size, time in self._records():
            sizes.append(size)
            times.append(time)
        return Times(sizes, times, written_at if sizes else None)


@dataclass(frozen=True)
class Times:
    """The sizes of a log and when it had them."""

    sizes: "array[int]"
    times: "array[float]"
    last: float | None

    def at(self, end: int) -> float | None:
        """Return when the line that ends at byte `end` was printed, at most a second late; None if nothing is known."""
        position = bisect_left(self.sizes, end)
        return self.times[position] if position < len(self.sizes) else self.last

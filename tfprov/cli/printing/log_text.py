"""Lines of logs for people: their times, their level's colour, and the lines that match a pattern."""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import FrameType

from tfprov.errors import Usage, printable

_ERROR, _WARNING = "31", "33"
"""ANSI: red, yellow."""
_LEVELS = re.compile(
    # TensorFlow and absl in C++: `2026-01-02 03:04:05.678901: E tensorflow/…`, `E0000 00:00:1700000000.123 12 file.cc:1]`
    r"(?:\d{4}-\d\d-\d\d[ T][\d:.,]+:? (?P<tf>[IWEF]) \S)"
    r"|(?P<glog>[IWEF])\d{4} \d\d:\d\d:\d+"
    # Python's logging, by its default format, and with a time in front
    r"|(?:\[?\d{4}-\d\d-\d\d[ T][\d:.,]+\]?[ :-]*)?\[?(?P<word>DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)\b[]:|\s-]"
    r"|(?P<trace>Traceback \(most recent call last\):|(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt)\b(?::|$))"
)
_SEARCHED = 200
"""Characters of a line in which its level stands."""


def level_colour(line: str) -> str | None:
    """Return the colour of a line that reports an error or a warning; None for any other, and one with own colours."""
    if "\x1b" in line or (match := _LEVELS.match(line[:_SEARCHED])) is None:
        return None
    word = match["tf"] or match["glog"] or match["word"] or ""
    if match["trace"] or word in ("E", "F", "ERROR", "CRITICAL", "FATAL"):
        return _ERROR
    return _WARNING if word in ("W", "WARN", "WARNING") else None


def stamp(printed: float | None) -> str:
    """Return a time as RFC 3339 in UTC with milliseconds; dashes of the same width if it is not known."""
    if printed is None:
        return "-".ljust(24)
    return datetime.fromtimestamp(printed, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TooSlow(Exception):
    """A pattern takes too long for a line."""


class LinePattern:
    """A regular expression that is searched for in lines, for at most `seconds` in each. Use it in the main thread.

    Python's expressions may backtrack for longer than anyone waits; they look for signals meanwhile.
    """

    def __init__(self, text: str, seconds: float = 1.0) -> None:
        self._text, self._seconds = text, seconds
        try:
            self._pattern = re.compile(text)
        except (re.error, OverflowError, RecursionError) as error:
            what = f"`--grep {printable(text)}` is no regular expression: {printable(error)}"
            raise Usage(what, "write a backslash before a character that stands for itself") from None

    def matches(self, line: str) -> bool:
        """Whether the pattern is in the line. Raises Usage if the search takes too long."""
        try:
            with _limited(self._seconds):
                return self._pattern.search(line) is not None
        except TooSlow:
            what = f"`--grep {printable(self._text)}` takes more than {self._seconds:g} s for one line"
            raise Usage(what, "write it without a repetition inside a repetition, such as `(a+)+`") from None


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

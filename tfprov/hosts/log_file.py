"""Reading log files that grow, that start anew when they are full, and that hold any bytes at all."""

import codecs
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

LINE_LIMIT = 10_000
"""Characters of a line that are shown: a program that never ends its line must not fill the terminal or the memory."""
NEWEST = 200
"""The last characters of those, which are the newest ones of a longer line."""
EVERY = 10.0
"""Seconds after which a line that has not ended is shown as it is, where it has changed."""
_HEAD = LINE_LIMIT - NEWEST
_CUT = "…"
_MOVES = re.compile("\r|\b+|\x1b\\[[0-?]*[ -/]*[@-~]")
"""What is not a character in a cell. A control sequence goes with the cell before it."""
_BEGUN = re.compile("\x1b(?:\\[[0-?]*[ -/]*)?\\Z")
"""A control sequence of which the end is still to come."""


class Line:
    """One line while it is written, as a terminal shows it: what is written over is gone."""

    def __init__(self) -> None:
        self._cells: list[str] = []
        self._at = 0
        self._before = ""
        self._begun = ""
        self._beyond, self._left_out = "", False

    def write(self, text: str) -> None:
        """Write `text`, which has no line end, at the cursor."""
        text = self._begun + text
        begun = _BEGUN.search(text)
        self._begun = begun[0] if begun else ""
        position = 0
        end = begun.start() if begun else len(text)
        for move in _MOVES.finditer(text, 0, end):
            self._put(text[position : move.start()])
            self._move(move[0])
            position = move.end()
        self._put(text[position:end])

    def _move(self, move: str) -> None:
        if move[0] == "\r":
            self._at = 0
        elif move[0] == "\b":
            if self._at > _HEAD:
                self._beyond = self._beyond[: -len(move)]
            self._at = max(0, self._at - len(move))
        elif 0 < self._at <= len(self._cells):
            self._cells[self._at - 1] += move
        else:
            self._before += move

    def _put(self, text: str) -> None:
        if not text:
            return
        inside = text[: max(0, _HEAD - self._at)]
        if inside:
            cells = list(inside)
            cells[0] = self._before + cells[0]
            self._before = ""
            self._cells[self._at : self._at + len(cells)] = cells
            self._beyond, self._left_out = "", False
        if len(inside) < len(text):
            beyond = self._beyond + text[len(inside) :]
            self._beyond, self._left_out = beyond[-NEWEST:], self._left_out or len(beyond) > NEWEST
        self._at += len(text)

    @property
    def text(self) -> str:
        """The line as it is now; of one that is too long the middle is left out."""
        beyond = _CUT + self._beyond[1:] if self._left_out else self._beyond
        return "".join(self._cells) + beyond + self._before

    @property
    def newest(self) -> str:
        """The line as it is now, or the end of a long one."""
        text = self.text
        return text if len(text) <= 2 * NEWEST else _CUT + text[-NEWEST:].removeprefix(_CUT)


def shown(text: str) -> str:
    """Return a whole line as a terminal shows it in the end."""
    text = text.rstrip("\r")
    if len(text) <= LINE_LIMIT and "\r" not in text and "\b" not in text:
        return text
    line = Line()
    line.write(text)
    return line.text


class Lines:
    """Makes lines of bytes that arrive in pieces; what is not UTF-8 shows as U+FFFD. `now` returns seconds.

    A line that has not ended is yielded as it is then, `EVERY` seconds after it has begun or was yielded last: a progress
    bar is one line for as long as an epoch takes.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line = Line()
        self._open = False
        self._since = now()
        self._yielded: str | None = None

    def feed(self, data: bytes) -> Iterator[str]:
        """Take in what has come, and yield the lines that have ended with it."""
        *whole, rest = data.split(b"\n")
        for piece in whole:
            if self._open:
                self._write(piece + b"\n")
                yield from self._ended()
            else:
                yield shown(piece.decode("utf-8", errors="replace"))
        if rest:
            if not self._open:
                self._open, self._since = True, self._now()
            self._write(rest)

    def _write(self, data: bytes) -> None:
        self._line.write(self._decoder.decode(data).replace("\n", ""))

    def due(self) -> Iterator[str]:
        """Yield the line that has not ended, when it is time for that and it has changed."""
        if not self._open or self._now() - self._since < EVERY:
            return
        self._since = self._now()
        newest = self._line.newest
        if newest != self._yielded:
            self._yielded = newest
            yield newest

    def end(self) -> Iterator[str]:
        """Yield what has not ended with a line end."""
        if self._open:
            self._line.write(self._decoder.decode(b"", final=True))
            yield from self._ended()

    def _ended(self) -> Iterator[str]:
        text, before = self._line.text, self._yielded
        self._line, self._open, self._yielded = Line(), False, None
        if text != before:  # what was shown a moment ago, and has not changed since, is not shown twice
            yield text


_POLL = 0.1
"""Seconds between two looks at a log that is followed."""
_STAMPED_LIMIT = 1024 * 1024
"""Bytes that are kept of a line that does not end."""
_CHUNK = 1024 * 1024


def last_lines(paths: Sequence[Path], count: int | None) -> list[str]:
    """Return the last `count` lines (default: all) of the files in turn; what is not UTF-8 shows as U+FFFD."""
    lines: list[bytes] = []
    for path in paths:
        lines.extend(_whole(path).split(b"\n"))
        if not lines[-1]:
            lines.pop()
    last = lines if count is None else lines[max(0, len(lines) - count) :]
    return [shown(line.decode("utf-8", errors="replace")) for line in last]


def follow(
    path: Path, tail: int | None, running: Callable[[], bool], now: Callable[[], float] = time.monotonic
) -> Iterator[str]:
    """Yield lines as they are written, from `tail` lines before the end, until the writer no longer runs.

    A line that does not end is yielded now and then as it is, such as a progress bar.
    """
    offset = _start(path, tail)
    lines = Lines(now)
    while True:
        alive = running()  # asked before reading, so that the last lines before an end are not missed
        offset = 0 if _size(path) < offset else offset
        while data := _read(path, offset):
            offset += len(data)
            yield from lines.feed(data)
        if not alive:
            break
        yield from lines.due()
        time.sleep(_POLL)
    yield from lines.end()


def split(chunks: Iterable[bytes], now: Callable[[], float] = time.monotonic) -> Iterator[str]:
    """Yield the lines in a stream of bytes that arrives in pieces, and now and then one that does not end."""
    lines = Lines(now)
    for chunk in chunks:
        yield from lines.feed(chunk)
        yield from lines.due()
    yield from lines.end()


def split_stamped(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines in a stream in which each has a word of somebody else's in front, that the line cannot write over."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from map(_shown_behind, whole)
        rest = rest[:_STAMPED_LIMIT]
    if rest:
        yield _shown_behind(rest)


def _shown_behind(line: bytes) -> str:
    stamp, space, text = line.decode("utf-8", errors="replace").partition(" ")
    return f"{stamp}{space}{shown(text)}"


def _start(path: Path, tail: int | None) -> int:
    if tail is None:
        return 0
    data = _whole(path)
    if tail == 0:
        return len(data)
    position = len(data) - data.endswith(b"\n")
    for _ in range(tail):
        position = data.rfind(b"\n", 0, position)
        if position < 0:
            return 0
    return position + 1


# A log may go at any moment, for a new one or with its task: it is not looked for, and then read.


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _whole(path: Path) -> bytes:
    return _read(path, 0, -1)


def _read(path: Path, offset: int, size: int = _CHUNK) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(size)
    except FileNotFoundError:
        return b""

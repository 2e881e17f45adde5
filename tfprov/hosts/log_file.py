"""Read and follow log files, which grow, are rotated and may contain any bytes, as lines of a terminal."""

import codecs
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from tfprov.hosts.log_lines import Line

LINE_LIMIT = 10_000
"""Characters shown of a line: an endless line must fill neither the terminal nor memory."""
TAIL_LENGTH = 200
"""How many of them are the newest ones of a longer line."""
UPDATE_INTERVAL = 0.5
"""Seconds between updates of an unfinished line that changes."""
_HEAD_LENGTH = LINE_LIMIT - TAIL_LENGTH
_ELLIPSIS = "…"
_CONTROLS = re.compile("\r|\b+|\x1b\\[[0-?]*[ -/]*[@-~]")
"""Control characters and sequences. A sequence is stored with the cell before it."""
_PARTIAL_SEQUENCE = re.compile("\x1b(?:\\[[0-?]*[ -/]*)?\\Z")
"""An incomplete control sequence."""


class TerminalLine:
    """One line as a terminal displays it: overwritten characters are gone."""

    def __init__(self) -> None:
        self._cells: list[str] = []
        self._cursor = 0
        self._prefix = ""
        self._partial_sequence = ""
        self._overflow, self._is_truncated = "", False

    def write(self, text: str) -> None:
        """Write `text`, without line ends, at the cursor."""
        text = self._partial_sequence + text
        partial = _PARTIAL_SEQUENCE.search(text)
        self._partial_sequence = partial[0] if partial else ""
        position = 0
        end = partial.start() if partial else len(text)
        for control in _CONTROLS.finditer(text, 0, end):
            self._put(text[position : control.start()])
            self._apply(control[0])
            position = control.end()
        self._put(text[position:end])

    def _apply(self, control: str) -> None:
        if control[0] == "\r":
            self._cursor = 0
        elif control[0] == "\b":
            if self._cursor > _HEAD_LENGTH:
                self._overflow = self._overflow[: -len(control)]
            self._cursor = max(0, self._cursor - len(control))
        elif 0 < self._cursor <= len(self._cells):
            self._cells[self._cursor - 1] += control
        else:
            self._prefix += control

    def _put(self, text: str) -> None:
        if not text:
            return
        visible = text[: max(0, _HEAD_LENGTH - self._cursor)]
        if visible:
            cells = list(visible)
            cells[0] = self._prefix + cells[0]
            self._prefix = ""
            self._cells[self._cursor : self._cursor + len(cells)] = cells
            self._overflow, self._is_truncated = "", False
        if len(visible) < len(text):
            overflow = self._overflow + text[len(visible) :]
            self._overflow, self._is_truncated = (
                overflow[-TAIL_LENGTH:],
                self._is_truncated or len(overflow) > TAIL_LENGTH,
            )
        self._cursor += len(text)

    @property
    def text(self) -> str:
        """The current line; the middle of an overlong line is left out."""
        overflow = _ELLIPSIS + self._overflow[1:] if self._is_truncated else self._overflow
        return "".join(self._cells) + overflow + self._prefix

    @property
    def newest(self) -> str:
        """The current line, or the end of a long one."""
        text = self.text
        return text if len(text) <= 2 * TAIL_LENGTH else _ELLIPSIS + text[-TAIL_LENGTH:].removeprefix(_ELLIPSIS)


def render_line(text: str) -> str:
    """Return a complete line as a terminal finally displays it."""
    text = text.rstrip("\r")
    if len(text) <= LINE_LIMIT and "\r" not in text and "\b" not in text:
        return text
    line = TerminalLine()
    line.write(text)
    return line.text


class LineSplitter:
    """Splits bytes that arrive in chunks into lines; invalid UTF-8 becomes U+FFFD. `now` returns seconds.

    An unfinished line is yielded by `due` in its current state: a progress bar is one line for as long as an epoch takes.
    `position` is the number of bytes up to the end of the line that was yielded last.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line = TerminalLine()
        self._open = False
        self._updated_at = now()
        self._last_shown: str | None = None
        self._pending = 0
        self.position = 0

    def feed(self, data: bytes) -> Iterator[Line]:
        """Add data and yield the lines that it completes."""
        *complete, rest = data.split(b"\n")
        for piece in complete:
            self.position += self._pending + len(piece) + 1
            self._pending = 0
            if self._open:
                self._write(piece + b"\n")
                yield self._finish_line()
            else:
                yield Line(render_line(piece.decode("utf-8", errors="replace")))
        self._pending += len(rest)
        if rest:
            if not self._open:
                self._open, self._updated_at = True, self._now()
            self._write(rest)

    def _write(self, data: bytes) -> None:
        self._line.write(self._decoder.decode(data).replace("\n", ""))

    def due(self) -> Iterator[Line]:
        """Yield the unfinished line if it has changed and UPDATE_INTERVAL has passed."""
        if not self._open or self._now() - self._updated_at < UPDATE_INTERVAL:
            return
        self._updated_at = self._now()
        newest = self._line.newest
        if newest != self._last_shown:
            self._last_shown = newest
            yield Line(newest, unfinished=True)

    def end(self) -> Iterator[Line]:
        """Yield what has no line end as a line."""
        self.position += self._pending
        self._pending = 0
        if self._open:
            self._line.write(self._decoder.decode(b"", final=True))
            yield self._finish_line()

    def _finish_line(self) -> Line:
        text = self._line.text
        self._line, self._open, self._last_shown = TerminalLine(), False, None
        return Line(text)


_POLL_INTERVAL = 0.1
"""Seconds between reads of a followed log."""
_STAMPED_LIMIT = 1024 * 1024
"""Bytes kept of an unterminated line."""
_CHUNK = 1024 * 1024


Timer = Callable[[int], float | None]
"""Returns when the line was printed that ends at a byte of a log; None if that is not known."""


def stamped_lines(path: Path, printed_at: Timer) -> Iterator[Line]:
    """Yield the lines of a log with their times."""
    lines = LineSplitter()
    for part in (lines.feed(_read_all(path)), lines.end()):
        for line in part:
            line.at = printed_at(lines.position)
            yield line


def last_lines(paths: Sequence[Path], count: int | None) -> list[str]:
    """Return the last `count` lines (None: all) of the concatenated files; invalid UTF-8 becomes U+FFFD."""
    lines: list[bytes] = []
    for path in paths:
        lines.extend(_read_all(path).split(b"\n"))
        if not lines[-1]:
            lines.pop()
    last = lines if count is None else lines[max(0, len(lines) - count) :]
    return [render_line(line.decode("utf-8", errors="replace")) for line in last]


def follow(
    path: Path,
    tail: int | None,
    running: Callable[[], bool],
    now: Callable[[], float] = time.monotonic,
    printed_at: Timer = lambda _end: None,
) -> Iterator[Line]:
    """Yield lines as they are written, from `tail` lines before the end, until the writer no longer runs.

    An unfinished line, such as a progress bar, is yielded every UPDATE_INTERVAL seconds.
    """
    offset = _start_offset(path, tail)
    lines = LineSplitter(now)
    lines.position = offset
    while True:
        is_running = running()  # before reading, so that the last lines are not missed
        if _size(path) < offset:
            offset = lines.position = 0
        while data := _read(path, offset):
            offset += len(data)
            for line in lines.feed(data):
                line.at = printed_at(lines.position)
                yield line
        if not is_running:
            break
        yield from lines.due()
        time.sleep(_POLL_INTERVAL)
    for line in lines.end():
        line.at = printed_at(lines.position)
        yield line


def split_lines(chunks: Iterable[bytes], now: Callable[[], float] = time.monotonic) -> Iterator[Line]:
    """Yield the lines of a stream of byte chunks, including updates of an unfinished line."""
    lines = LineSplitter(now)
    for chunk in chunks:
        yield from lines.feed(chunk)
        yield from lines.due()
    yield from lines.end()


def split_stamped_lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines of a stream whose lines start with a timestamp, which control characters must not overwrite."""
    rest = b""
    for chunk in chunks:
        *complete, rest = (rest + chunk).split(b"\n")
        yield from map(_render_stamped, complete)
        rest = rest[:_STAMPED_LIMIT]
    if rest:
        yield _render_stamped(rest)


def _render_stamped(line: bytes) -> str:
    stamp, space, text = line.decode("utf-8", errors="replace").partition(" ")
    return f"{stamp}{space}{render_line(text)}"


def _start_offset(path: Path, tail: int | None) -> int:
    if tail is None:
        return 0
    data = _read_all(path)
    if tail == 0:
        return len(data)
    position = len(data) - data.endswith(b"\n")
    for _ in range(tail):
        position = data.rfind(b"\n", 0, position)
        if position < 0:
            return 0
    return position + 1


# A log may vanish at any moment, by rotation or with its task: so no check before opening it.


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _read_all(path: Path) -> bytes:
    return _read(path, 0, -1)


def _read(path: Path, offset: int, size: int = _CHUNK) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(size)
    except FileNotFoundError:
        return b""

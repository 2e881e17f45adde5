"""Read and follow log files, which grow, are rotated and may contain any bytes, as lines of a terminal."""

import codecs
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

LINE_LIMIT = 10_000
"""Characters shown of a line: an endless line must fill neither the terminal nor memory."""
TAIL_LENGTH = 200
"""How many of them are the newest ones of a longer line."""
UPDATE_INTERVAL = 10.0
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

    An unfinished line is yielded in its current state every UPDATE_INTERVAL seconds: a progress bar is one line for as
    long as an epoch takes.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line = TerminalLine()
        self._open = False
        self._updated_at = now()
        self._last_shown: str | None = None

    def feed(self, data: bytes) -> Iterator[str]:
        """Add data and yield the lines that it completes."""
        *complete, rest = data.split(b"\n")
        for piece in complete:
            if self._open:
                self._write(piece + b"\n")
                yield from self._finish_line()
            else:
                yield render_line(piece.decode("utf-8", errors="replace"))
        if rest:
            if not self._open:
                self._open, self._updated_at = True, self._now()
            self._write(rest)

    def _write(self, data: bytes) -> None:
        self._line.write(self._decoder.decode(data).replace("\n", ""))

    def due(self) -> Iterator[str]:
        """Yield the unfinished line if it has changed and UPDATE_INTERVAL has passed."""
        if not self._open or self._now() - self._updated_at < UPDATE_INTERVAL:
            return
        self._updated_at = self._now()
        newest = self._line.newest
        if newest != self._last_shown:
            self._last_shown = newest
            yield newest

    def end(self) -> Iterator[str]:
        """Yield the unfinished line."""
        if self._open:
            self._line.write(self._decoder.decode(b"", final=True))
            yield from self._finish_line()

    def _finish_line(self) -> Iterator[str]:
        text, shown = self._line.text, self._last_shown
        self._line, self._open, self._last_shown = TerminalLine(), False, None
        if text != shown:  # unless just yielded unchanged as an unfinished line
            yield text


_POLL_INTERVAL = 0.1
"""Seconds between reads of a followed log."""
_STAMPED_LIMIT = 1024 * 1024
"""Bytes kept of an unterminated line."""
_CHUNK = 1024 * 1024


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
    path: Path, tail: int | None, running: Callable[[], bool], now: Callable[[], float] = time.monotonic
) -> Iterator[str]:
    """Yield lines as they are written, from `tail` lines before the end, until the writer no longer runs.

    An unfinished line, such as a progress bar, is yielded every UPDATE_INTERVAL seconds.
    """
    offset = _start_offset(path, tail)
    lines = LineSplitter(now)
    while True:
        is_running = running()  # before reading, so that the last lines are not missed
        offset = 0 if _size(path) < offset else offset
        while data := _read(path, offset):
            offset += len(data)
            yield from lines.feed(data)
        if not is_running:
            break
        yield from lines.due()
        time.sleep(_POLL_INTERVAL)
    yield from lines.end()


def split_lines(chunks: Iterable[bytes], now: Callable[[], float] = time.monotonic) -> Iterator[str]:
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

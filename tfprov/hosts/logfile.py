"""Reading log files that grow, that start anew when they are full, and that hold any bytes at all."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from tfprov.hosts.terminal_text import Lines, shown

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

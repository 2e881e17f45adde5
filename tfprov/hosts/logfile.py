"""Reading log files that grow, that start anew when they are full, and that hold any bytes at all."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

_POLL = 0.1
"""Seconds between two looks at a log that is followed."""
_LINE_LIMIT = 10_000
"""Characters of a line that are shown: a program that never ends its line must not fill the terminal or the memory."""
_CHUNK = 1024 * 1024


def last_lines(paths: Sequence[Path], count: int | None) -> list[str]:
    """Return the last `count` lines (default: all) of the files in turn; what is not UTF-8 shows as U+FFFD."""
    lines: list[str] = []
    for path in paths:
        lines.extend(_clean(line) for line in _whole(path).split(b"\n"))
        if not lines[-1]:
            lines.pop()
    return lines if count is None else lines[max(0, len(lines) - count) :]


def follow(path: Path, tail: int | None, running: Callable[[], bool]) -> Iterator[str]:
    """Yield lines as they are written, from `tail` lines before the end, until the writer no longer runs."""
    offset = _start(path, tail)
    rest = b""
    while True:
        alive = running()  # asked before reading, so that the last lines before an end are not missed
        offset = 0 if _size(path) < offset else offset
        while data := _read(path, offset):
            offset += len(data)
            *lines, rest = (rest + data).split(b"\n")
            yield from map(_clean, lines)
            rest = rest[:_LINE_LIMIT]
        if not alive:
            break
        time.sleep(_POLL)
    if rest:
        yield _clean(rest)


def split(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines in a stream of bytes that arrives in pieces."""
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from map(_clean, whole)
        rest = rest[:_LINE_LIMIT]
    if rest:
        yield _clean(rest)


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


def _clean(line: bytes) -> str:
    return line[:_LINE_LIMIT].rstrip(b"\r").decode("utf-8", errors="replace")

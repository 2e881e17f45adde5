"""The logs of a run's tasks: compressed in small members as lines come, and bounded.

    worker-0.log.gz                    the first half of what a task may store
    worker-0.1.log.gz, worker-0.2...   two quarters in turn: the one that is full longer makes room

Each line is `MILLISECONDS<TAB>TEXT`, and each quarter begins with `#<TAB>NUMBER` to put them in order. A member holds the
lines of half a second, so that a kill loses no more than that. `zcat` reads the files.
"""

import gzip
import os
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tfprov.atomic_write import write_whole

LIMIT = 16 * 1024 * 1024
"""Bytes of text that are kept of a task, before they are compressed."""
OF_ALL = 1024 * 1024 * 1024
"""Bytes of text that are kept of all tasks of a run."""
_NAME = re.compile(r"(?P<job>[a-z_]+)-(?P<index>[0-9]+)\.log\.gz", re.ASCII)
_PART = re.compile(r"(?P<job>[a-z_]+)-(?P<index>[0-9]+)(?:\.[12])?\.log\.gz", re.ASCII)
_NUMBER = "#"
_MAGIC = b"\x1f\x8b"
"""Begins a gzip member."""
_CHUNK = 256 * 1024
_LONGEST = 16 * 1024
"""Characters of a line that are kept."""


def limit_for(tasks: int) -> int:
    """Return the bytes that each of `tasks` may store."""
    return min(LIMIT, OF_ALL // max(1, tasks))


@dataclass(frozen=True)
class LogLine:
    """A line of a task, recorded `at` seconds since 1970; `gap` marks where lines were left out for their number."""

    at: float
    text: str
    gap: bool = False


class TaskLog:
    """Writes the log of one task into `directory`, at most `limit` bytes of text.

    Lines that an earlier writer has recorded, and that come again because the log is read from its start, are skipped.
    """

    def __init__(self, directory: Path, task: str, limit: int = LIMIT) -> None:
        self._stem, self._limit = directory / task.replace("/", "-"), limit
        self._pending: list[str] = []
        self._size, self._number = 0, 0
        self._known: Iterator[LogLine] | None = None
        if self._path(0).exists():
            self._resume(directory, task)

    def _resume(self, directory: Path, task: str) -> None:
        for path in map(self._path, range(3)):  # nothing can follow a member that a kill has cut
            if path.exists():
                os.truncate(path, _whole_size(path))
        known = list(_segments(directory, task))
        self._number = known[-1][0] if known else 0
        self._size = sum(len(line.text.encode("utf-8", "replace")) + 15 for line in known[-1][1]) if known else 0
        self._known = iter([line for _, lines in known for line in lines])

    def _path(self, number: int) -> Path:
        part = f".{1 + (number - 1) % 2}" if number else ""
        return self._stem.with_name(f"{self._stem.name}{part}.log.gz")

    def add(self, at: float, text: str) -> None:
        """Add a line that was printed or read `at` seconds since 1970; `flush` writes it."""
        text = text[:_LONGEST]
        if self._known is not None:
            known = next(self._known, None)
            if known is not None and known.text == text:
                return
            self._known = None
        self._pending.append(f"{int(at * 1000)}\t{text}\n")

    def skip(self) -> None:
        """Expect no recorded lines again: the next ones follow them."""
        self._known = None

    @property
    def pending(self) -> int:
        """The number of lines that `flush` would write."""
        return len(self._pending)

    def flush(self) -> None:
        """Write what was added. Raises OSError."""
        if not self._pending:
            return
        text = "".join(self._pending).encode("utf-8", "replace")
        self._pending = []
        mode = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        if self._size and self._size + len(text) > self._room:
            self._number, self._size = self._number + 1, 0
            mode |= os.O_TRUNC
            text = f"{_NUMBER}\t{self._number}\n".encode() + text
        self._size += len(text)
        descriptor = os.open(self._path(self._number), mode, 0o600)
        try:
            write_whole(descriptor, gzip.compress(text, 6, mtime=0))
        finally:
            os.close(descriptor)

    @property
    def _room(self) -> int:
        return self._limit // (4 if self._number else 2)


def logged_tasks(directory: Path) -> list[str]:
    """Return the names of the tasks with logs, in their order."""
    try:
        names = [match for name in os.listdir(directory) if (match := _NAME.fullmatch(name))]  # noqa: PTH208  names only
    except OSError:
        return []
    return [f"{m['job']}/{m['index']}" for m in sorted(names, key=lambda m: (m["job"], int(m["index"])))]


def read_log(directory: Path, task: str, ends: Mapping[str, int] | None = None) -> Iterator[LogLine]:
    """Yield the recorded lines of a task, up to where its files end by `ends`; a cut or damaged member ends a file."""
    before = 0
    for number, lines in _segments(directory, task, ends):
        if number > before + 1:
            yield LogLine(lines[0].at if lines else 0.0, "… lines were left out: the log is bounded", gap=True)
        before = number
        yield from lines


class LogTail:
    """Reads the lines that are added to the logs in `directory`, from now on or, with `last`, that many lines before.

    `tasks` returns the tasks with logs there.
    """

    def __init__(self, directory: Path, last: int = 0, tasks: Callable[[Path], Iterable[str]] = logged_tasks) -> None:
        self._directory, self._ends = directory, dict[str, int]()
        for path in directory.glob("*.log.gz"):
            self._ends[path.name] = _whole_size(path)
        ends = dict(self._ends)  # what is added from here on is new
        self.begin = {task: list(deque(read_log(directory, task, ends), last)) for task in tasks(directory)}

    def new(self) -> list[tuple[str, LogLine]]:
        """Return the new lines, each with its task, in the order in which they were recorded."""
        lines = []
        for path in sorted(self._directory.glob("*.log.gz")):
            match = _PART.fullmatch(path.name)
            if match is not None:
                lines += [(f"{match['job']}/{match['index']}", line) for line in self._of(path)]
        return sorted(lines, key=lambda one: one[1].at)

    def _of(self, path: Path) -> Iterator[LogLine]:
        begin = self._ends.get(path.name, 0)
        if not _continues(path, begin):  # it has made room
            begin = 0
        for end, data in _members(path, begin):
            if end:
                self._ends[path.name] = end
                yield from filter(None, map(_parsed, data.decode("utf-8", "replace").split("\n")))


def _continues(path: Path, begin: int) -> bool:
    """Whether a file ends at `begin`, or goes on there with another member."""
    with path.open("rb") as file:
        file.seek(begin)
        return file.read(len(_MAGIC)) == _MAGIC if path.stat().st_size > begin else path.stat().st_size == begin


def _parsed(line: str) -> LogLine | None:
    at, _, text = line.partition("\t")
    return LogLine(int(at) / 1000, text) if at.isdigit() else None


def _segments(directory: Path, task: str, ends: Mapping[str, int] | None = None) -> Iterator[tuple[int, list[LogLine]]]:
    """Yield the number and the lines of each file of a task, in order; the first half has the number 0."""
    stem = task.replace("/", "-")
    parts = []
    for name in (f"{stem}.log.gz", f"{stem}.1.log.gz", f"{stem}.2.log.gz"):
        number, lines = 0, []
        for line in _texts(directory / name, None if ends is None else ends.get(name, 0)):
            at, _, text = line.partition("\t")
            if at == _NUMBER:
                number = int(text) if text.isdigit() else 0
            elif (parsed := _parsed(line)) is not None:
                lines.append(parsed)
        if lines:
            parts.append((number, lines))
    yield from sorted(parts, key=lambda part: part[0])


def _texts(path: Path, limit: int | None) -> Iterator[str]:
    """Yield the lines of a file of gzip members, up to what is cut or damaged, or behind `limit`."""
    for end, data in _members(path):
        if limit is not None and not 0 < end <= limit:
            return
        yield from data.decode("utf-8", "replace").split("\n")[:-1]


def _whole_size(path: Path) -> int:
    """Return the bytes up to the end of the last whole member."""
    return max((end for end, _ in _members(path)), default=0)


def _members(path: Path, begin: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield the content of each member from `begin` on and the offset of its end, which is 0 for one that is cut."""
    try:
        file = path.open("rb")
    except OSError:
        return
    with file:
        file.seek(begin)
        reader, content, data, end = zlib.decompressobj(31), b"", b"", 0
        while data or (data := file.read(_CHUNK)):
            try:
                content += reader.decompress(data)
            except zlib.error:
                break
            data = reader.unused_data
            if reader.eof:
                end = file.tell() - len(data)
                yield end, content
                reader, content = zlib.decompressobj(31), b""
        if content:
            yield 0, content

"""Files of JSON objects, one a line, that are read while they are written; a kill cuts the last line at most."""

import io
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tfprov.atomic_write import write_whole

_TAIL = 64 * 1024
"""Bytes at the end in which the last line is looked for first: the error of many hosts takes more."""


class Appender:
    """Appends to the file at `path`; each line is one write, so that several writers may share it."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":  # an earlier writer was killed in its last line
            os.write(self._descriptor, b"\n")

    def append(self, record: Mapping[str, Any]) -> None:
        """Append a line. Raises OSError."""
        line = json.dumps(record, ensure_ascii=False, separators=(",", ":"), default=str) + "\n"
        write_whole(self._descriptor, line.encode("utf-8", "replace"))

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file, none if it is missing; cut and damaged lines are left out."""
    try:
        file = path.open("rb")
    except OSError:
        return
    with file:
        for line in file:
            if (record := _parsed(line)) is not None:
                yield record


def last_line(path: Path) -> dict[str, Any] | None:
    """Return the last whole object of a file; None if there is none."""
    try:
        with path.open("rb") as file:
            size, tail = file.seek(0, io.SEEK_END), _TAIL
            while True:
                file.seek(max(0, size - tail))
                lines = file.read().splitlines(keepends=True)
                record = next((record for line in reversed(lines) if (record := _parsed(line)) is not None), None)
                if record is not None or tail >= size:
                    return record
                tail *= 8
    except OSError:
        return None


def _parsed(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


class Follower:
    """Reads the lines that are added to a file since the last call."""

    def __init__(self, path: Path) -> None:
        self._path, self._at, self._rest = path, 0, b""

    def new(self) -> list[dict[str, Any]]:
        """Return the new objects; none if the file is missing."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                data = file.read()
        except OSError:
            return []
        self._at += len(data)
        *whole, self._rest = (self._rest + data).split(b"\n")
        return [record for line in whole if (record := _parsed(line + b"\n")) is not None]

"""A sparse file of a container: only its data is sent, which an engine's archive would fill up with zeros."""

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from tfprov.errors import HostError
from tfprov.hosts import docker_beside
from tfprov.hosts.engine_api import Engine

_PROGRAM = """import os, sys
file = os.open(sys.argv[1], os.O_RDONLY | os.O_NOFOLLOW)
facts = os.fstat(file)
if facts.st_blocks * 1024 > facts.st_size:
    sys.exit(3)
at = 0
while at < facts.st_size:
    try:
        begin = os.lseek(file, at, os.SEEK_DATA)
    except OSError:
        break
    at = min(os.lseek(file, begin, os.SEEK_HOLE), facts.st_size)
    sys.stdout.buffer.write(b"%d %d\\n" % (begin, at - begin))
    os.lseek(file, begin, os.SEEK_SET)
    while begin < at:
        data = os.read(file, min(at - begin, 1 << 20))
        if not data:
            sys.exit(1)
        sys.stdout.buffer.write(data)
        begin += len(data)
sys.stdout.buffer.write(b"%d 0\\n" % facts.st_size)
"""
"""Prints each stretch of data behind a line with its place and length; last a line with the file's size. Nothing for a file
of which at least half is on the disk: an archive of that takes no longer."""
_STRETCH = re.compile(rb"(\d{1,19}) (\d{1,19})")
_LONGEST = 64
"""Bytes of the line in front of a stretch."""
_ZEROS = bytes(1024 * 1024)


def sparse(engine: Engine, facts: Mapping[str, Any], path: str) -> "SparseMember | None":
    """Open a sparse file of a container; None for any other, and where the image has no Python."""
    pieces = docker_beside.pieces(engine, facts, ["python3", "-I", "-S", "-c", _PROGRAM, path])
    first = next(pieces, b"")
    return SparseMember(engine.host, path, first, pieces) if first else None


class SparseMember(io.RawIOBase):
    """A file that is read once, from its beginning to its end. See Sparse. Reading it raises nothing but HostError."""

    def __init__(self, host: str, path: str, first: bytes, pieces: Iterator[bytes]) -> None:
        self._host, self._path, self._rest, self._pieces = host, path, first, pieces
        self._at = self._begin = self._left = 0
        self._ended = False

    def readable(self) -> bool:
        """It is."""
        return True

    def _more(self) -> None:
        if not (piece := next(self._pieces, b"")):
            raise HostError(self._host, f"{self._path} was not sent to its end", "run this again")
        self._rest += piece

    def _look(self) -> None:
        """Have `_begin` and `_left` be the next data from here on; at the end of the file, none."""
        if self._left or self._ended:
            return
        while b"\n" not in self._rest:
            if len(self._rest) > _LONGEST:
                raise self._nonsense()
            self._more()
        line, _, self._rest = self._rest.partition(b"\n")
        stretch = _STRETCH.fullmatch(line)
        if stretch is None or int(stretch[1]) < self._at:
            raise self._nonsense()
        self._begin, self._left = int(stretch[1]), int(stretch[2])
        self._ended = not self._left

    def _nonsense(self) -> HostError:
        return HostError(self._host, f"{self._path} was not sent as it was asked for", "run this again")

    def hole(self) -> int:
        """See Sparse."""
        self._look()
        return self._begin - self._at if self._at < self._begin else 0

    def seek(self, offset: int, whence: int = io.SEEK_CUR, /) -> int:
        """Go on in a hole."""
        self._at += offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` with what comes next, of a hole with zeros."""
        if gap := self.hole():
            size = min(len(buffer), gap, len(_ZEROS))
            buffer[:size] = _ZEROS[:size]
            self._at += size
            return size
        if not self._left:
            return 0
        if not self._rest:
            self._more()
        size = min(len(buffer), self._left, len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        self._at += size
        self._begin += size
        self._left -= size
        return size

    def close(self) -> None:
        """Let go of the program."""
        with suppress(HostError):
            getattr(self._pieces, "close", lambda: None)()
        super().close()

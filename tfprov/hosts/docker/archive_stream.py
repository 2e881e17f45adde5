"""An archive that an engine sends, read as a stream: nothing that is wrong with it passes for the end of a file."""

import io
import math
import os
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, cast

import docker

from tfprov.errors import HostError
from tfprov.hosts import bounds
from tfprov.hosts.docker.engine import Engine

_END = 1024
"""Zero bytes that end an archive; one without them was cut off."""
_PATIENCE = 16
"""Reads behind the end of an archive: its end is looked for more than once."""
REST = 64 * 1024
"""Bytes that are read for nothing, so that a connection can be used again."""


class Long(Exception):
    """An archive has more bytes than are read of it to list a directory."""


def sent_archive(engine: Engine, container: str, path: str) -> Iterator[bytes]:
    """Ask for `path` as an archive; its name is given as bytes, because it need not be UTF-8."""
    try:
        with engine.errors():
            chunks, _ = engine.api.get_archive(container, cast(str, os.fsencode(path)))
    except HostError as error:
        if isinstance(error.__cause__, docker.errors.NotFound):
            raise HostError(engine.host, f"no such file: {path}") from None
        raise
    return cast(Iterator[bytes], chunks)


@contextmanager
def damage(host: str, path: str) -> Iterator[None]:
    """Turn what is wrong with an archive into an error of the host: the file shrank, or the engine gave up on it."""
    try:
        yield
    except (tarfile.TarError, ValueError, ArithmeticError, LookupError, RecursionError) as error:  # of its headers
        raise HostError(host, f"{path} could not be read to its end: {error}", "run this again") from None


class Chunks(io.RawIOBase):
    """What the engine sends, as a file; reading it raises nothing but HostError."""

    def __init__(self, engine: Engine, chunks: Iterator[bytes], limit: float = math.inf) -> None:
        self._engine, self._chunks, self._limit = engine, chunks, limit
        self._rest = self._last = b""
        self._read = self._used = self._empty = 0
        self._bound: float = bounds.ARCHIVE_HEADER  # to open an archive is to read its first header

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` with what comes next."""
        if not self._rest:
            with self._engine.errors():
                self._rest = next(self._chunks, b"")
            self._last = (self._last + self._rest[-_END:])[-_END:]
            self._read += len(self._rest)
            if self._read > self._limit:
                raise Long
        if not self._rest:
            self._empty += 1
            if (
                self._empty > _PATIENCE
            ):  # tarfile asks for every block of a file that was cut off, of a billion if need be
                raise tarfile.ReadError("it was cut off")
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        self._used += size
        if self._used > self._bound:
            raise tarfile.ReadError(f"a header longer than {bounds.amount(bounds.ARCHIVE_HEADER)}")
        return size

    def bounded(self, offset: float) -> None:
        """Let no more be read than up to `offset`, which a header must end before."""
        self._bound = offset

    def ended(self, offset: int) -> bool:
        """Read what is left; whether an archive whose last member ends at `offset` has its end as well."""
        while self.read(REST):
            pass
        return self._read >= offset + _END and self._last == bytes(_END)

    def close(self) -> None:
        """Let go of the connection, which can be used again when little is left in it."""
        if self.closed:
            return
        left = REST
        with suppress(HostError, Long, tarfile.ReadError):
            while left > 0 and (data := self.read(left)):
                left -= len(data)
        close: Callable[[], None] = getattr(self._chunks, "close", lambda: None)
        close()
        super().close()


def members(archive: tarfile.TarFile, chunks: Chunks) -> Iterator[tarfile.TarInfo]:
    """Yield the members of an archive that is read as a stream. What a header announces is held in memory by tarfile."""
    while True:
        chunks.bounded(archive.offset + bounds.ARCHIVE_HEADER)
        member = archive.next()
        chunks.bounded(math.inf)
        archive.members = []  # type: ignore[attr-defined]  # of which it keeps every one
        if member is None:
            return
        if member.size < 0:
            raise tarfile.ReadError("a size below zero")
        yield member


class Member(io.RawIOBase):
    """A file in an archive; reading it raises nothing but HostError. It lets go of the archive where it is all of it."""

    def __init__(self, host: str, path: str, chunks: Chunks, content: IO[bytes], *, whole: bool = True) -> None:
        self._host, self._path, self._chunks, self._content, self._whole = host, path, chunks, content, whole

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` with what comes next."""
        with damage(self._host, self._path):
            data = self._content.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Let go of the connection."""
        if self._whole:
            self._chunks.close()
        super().close()

"""Read an archive that an engine sends as a stream, distinguishing a truncated or broken archive from its end."""

import io
import math
import os
import tarfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, BinaryIO, cast

from tfprov.errors import HostError
from tfprov.hosts import bounds
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_api.sdk import docker

_TRAILER = 1024
"""Zero bytes at the end of an archive; a truncated one lacks them."""
_MAX_EMPTY_READS = 16
"""Reads after the end of an archive that tarfile may need to find its end."""
DRAIN_SIZE = 64 * 1024
"""Bytes read and dropped to make a connection reusable."""


class ArchiveTooLong(Exception):
    """An archive exceeds the limit for listing a directory."""


def request_archive(engine: Engine, container: str, path: str) -> Iterator[bytes]:
    """Request `path` as an archive. Its name is passed as bytes: it need not be UTF-8."""
    try:
        with engine.errors():
            chunks, _ = engine.api.get_archive(container, cast(str, os.fsencode(path)))
    except HostError as error:
        if isinstance(error.__cause__, docker.errors.NotFound):
            raise HostError(engine.host, f"no such file: {path}") from None
        raise
    return cast(Iterator[bytes], chunks)


@contextmanager
def archive_errors(host: str, path: str) -> Iterator[None]:
    """Turn errors of an archive into HostError: the file shrank, or the engine stopped sending."""
    try:
        yield
    except (tarfile.TarError, ValueError, ArithmeticError, LookupError, RecursionError) as error:  # of its headers
        raise HostError(host, f"{path} could not be read completely: {error}", "run this again") from None


class ArchiveStream(io.RawIOBase):
    """An engine's archive as a file. Reads raise HostError; ArchiveTooLong beyond `limit` bytes."""

    def __init__(self, engine: Engine, chunks: Iterator[bytes], limit: float = math.inf) -> None:
        self._engine, self._chunks, self._limit = engine, chunks, limit
        self._rest = self._last = b""
        self._read = self._used = self._empty = 0
        self._bound: float = bounds.ARCHIVE_HEADER  # opening an archive reads its first header

    def readable(self) -> bool:
        """See io.RawIOBase."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into `buffer`."""
        if not self._rest:
            with self._engine.errors():
                self._rest = next(self._chunks, b"")
            self._last = (self._last + self._rest[-_TRAILER:])[-_TRAILER:]
            self._read += len(self._rest)
            if self._read > self._limit:
                raise ArchiveTooLong
        if not self._rest:
            self._empty += 1
            if self._empty > _MAX_EMPTY_READS:  # tarfile asks for every block of a truncated file, even for a billion
                raise tarfile.ReadError("it was truncated")
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        self._used += size
        if self._used > self._bound:
            raise tarfile.ReadError(f"a header longer than {bounds.format_size(bounds.ARCHIVE_HEADER)}")
        return size

    def set_limit(self, offset: float) -> None:
        """Fail reads beyond `offset`: the header being read must end before it."""
        self._bound = offset

    def is_complete(self, offset: int) -> bool:
        """Read the rest; return whether the archive, whose last member ends at `offset`, has its trailer."""
        while self.read(DRAIN_SIZE):
            pass
        return self._read >= offset + _TRAILER and self._last == bytes(_TRAILER)

    def close(self) -> None:
        """Release the connection; it is reusable if little was left to read."""
        if self.closed:
            return
        left = DRAIN_SIZE
        with suppress(HostError, ArchiveTooLong, tarfile.ReadError):
            while left > 0 and (data := self.read(left)):
                left -= len(data)
        close: Callable[[], None] = getattr(self._chunks, "close", lambda: None)
        close()
        super().close()


def open_archive(stream: ArchiveStream) -> tarfile.TarFile:
    """Open the archive of `stream`, to be read in order."""
    return tarfile.open(fileobj=io.BufferedReader(stream), mode="r|")


def iter_members(archive: tarfile.TarFile, chunks: ArchiveStream) -> Iterator[tarfile.TarInfo]:
    """Yield the members of a streamed archive, limiting each header: tarfile holds headers in memory."""
    while True:
        chunks.set_limit(archive.offset + bounds.ARCHIVE_HEADER)
        member = archive.next()
        chunks.set_limit(math.inf)
        archive.members = []  # type: ignore[attr-defined]  # tarfile would keep all of them
        if member is None:
            return
        if member.size < 0:
            raise tarfile.ReadError("a size below zero")
        yield member


class ArchiveFile(io.RawIOBase):
    """A file in an archive. Reads raise only HostError. With `owns_stream`, closing it closes the archive."""

    def __init__(
        self, host: str, path: str, chunks: ArchiveStream, content: IO[bytes], *, owns_stream: bool = True
    ) -> None:
        self._host, self._path, self._chunks, self._content, self._owns_stream = (
            host,
            path,
            chunks,
            content,
            owns_stream,
        )

    def readable(self) -> bool:
        """See io.RawIOBase."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into `buffer`."""
        with archive_errors(self._host, self._path):
            data = self._content.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the file, and its archive with `owns_stream`."""
        if self._owns_stream:
            self._chunks.close()
        super().close()


def last_bytes(file: BinaryIO, size: int) -> bytes:
    """Return the last `size` bytes of a file that cannot seek, holding little more in memory."""
    chunks: deque[bytes] = deque()
    size_held = 0
    while chunk := file.read(DRAIN_SIZE):
        chunks.append(chunk)
        size_held += len(chunk)
        while chunks and size_held - len(chunks[0]) >= size:
            size_held -= len(chunks.popleft())
    return b"".join(chunks)[max(0, size_held - size) :]

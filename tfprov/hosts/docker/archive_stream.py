"""Read an archive that an engine sends as a stream, distinguishing a truncated or broken archive from its end."""

import io
import math
import tarfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, cast

from tfprov.errors import HostError
from tfprov.hosts import bounds
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_api.archive import ArchiveAnswer
from tfprov.hosts.docker.engine_errors import NOT_FOUND, Refused

_TRAILER = 1024
"""Zero bytes at the end of an archive; a truncated one lacks them."""
DRAIN_SIZE = 64 * 1024
"""Bytes read and dropped to make a connection reusable."""


class ArchiveTooLong(Exception):
    """An archive exceeds the limit for listing a directory."""


def request_archive(engine: Engine, container: str, path: str) -> ArchiveAnswer:
    """Request `path` as an archive. Raises HostError, with a message of its own if there is no such file."""
    try:
        return engine.archive(container, path)
    except Refused as error:
        if error.status == NOT_FOUND:
            raise HostError(engine.host, f"no such file: {path}") from None
        raise


@contextmanager
def archive_errors(host: str, path: str) -> Iterator[None]:
    """Turn errors of an archive into HostError: the file shrank, or the engine stopped sending."""
    try:
        yield
    except (tarfile.TarError, ValueError, ArithmeticError, LookupError, RecursionError) as error:  # of its headers
        raise HostError(host, f"{path} could not be read completely: {error}", "run this again") from None


class ArchiveStream:
    """An engine's archive, read in order. Reads raise HostError; ArchiveTooLong beyond `limit` bytes.

    tarfile reads headers through `read`, `seek` and `tell`; the content of files is read past it, with `readinto`, because
    its own streams read 10 kB at a time and copy each byte several times.
    """

    def __init__(self, engine: Engine, answer: ArchiveAnswer, limit: float = math.inf) -> None:
        self._engine, self._answer, self._limit = engine, answer, limit
        self._postponed: HostError | None = None
        self._rest, self._last = memoryview(b""), b""
        self._received = self._position = 0
        self._bound: float = bounds.ARCHIVE_HEADER  # opening an archive reads its first header
        self._closed = False

    def _receive(self) -> bool:
        """Wait for more, unless there is some; return whether there is."""
        if self._rest:
            return True
        self._raise_postponed()
        with self._engine.errors():
            return self._next_piece()

    def _next_piece(self) -> bool:
        piece = next(self._answer, b"")
        self._rest, self._last = memoryview(piece), (self._last + piece[-_TRAILER:])[-_TRAILER:]
        self._received += len(piece)
        if self._received > self._limit:
            raise ArchiveTooLong
        return bool(piece)

    def readinto(self, buffer: memoryview) -> int:
        """Fill `buffer`; return how much was there before the end. An error waits until what came before it was read."""
        self._raise_postponed()
        begin, size = 0, len(buffer)
        try:
            with self._engine.errors():
                while begin < size and (self._rest or self._next_piece()):
                    count = min(size - begin, len(self._rest))
                    buffer[begin : begin + count], self._rest = self._rest[:count], self._rest[count:]
                    begin += count
        except HostError as error:
            if not begin:
                raise
            self._postponed = error
        self._position += begin
        return begin

    def _raise_postponed(self) -> None:
        if self._postponed is not None:
            raise self._postponed

    def read(self, size: int) -> bytes:
        """Read `size` bytes of a header, or fewer at the end."""
        if size < 0 or self._position + size > self._bound:
            raise tarfile.ReadError(f"a header longer than {bounds.format_size(bounds.ARCHIVE_HEADER)}")
        data = bytearray(size)
        return bytes(data[: self.readinto(memoryview(data))])

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seek(self, position: int) -> int:
        """Skip to `position`, or to the end; there is no way back."""
        while self._position < position and self._receive():
            size = min(len(self._rest), position - self._position)
            self._rest = self._rest[size:]
            self._position += size
        return self._position

    def set_limit(self, offset: float) -> None:
        """Fail reads of headers beyond `offset`: the header being read must end before it."""
        self._bound = offset

    def is_complete(self, offset: int) -> bool:
        """Read the rest; return whether the archive, whose last member ends at `offset`, has its trailer."""
        while self._receive():
            self._rest = self._rest[:0]
        return self._received >= offset + _TRAILER and self._last == bytes(_TRAILER)

    def close(self) -> None:
        """Release the connection; it is reusable if little was left to read. Idempotent."""
        if self._closed:
            return
        self._closed = True
        end = self._received + DRAIN_SIZE
        self._rest = self._rest[:0]
        with suppress(HostError, ArchiveTooLong):
            while self._received < end and self._receive():
                self._rest = self._rest[:0]
        self._answer.close()

    def __enter__(self) -> "ArchiveStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_archive(stream: ArchiveStream) -> tarfile.TarFile:
    """Open the archive of `stream`, to be read in order."""
    return tarfile.TarFile(fileobj=cast(BinaryIO, stream), mode="r")


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


def is_plain(member: tarfile.TarInfo) -> bool:
    """Whether the content of a regular file follows as it is; an engine sends no sparse members."""
    return member.isreg() and not member.issparse()


class ArchiveFile(io.RawIOBase):
    """The content of a member, whose header was just read. Reads raise only HostError.

    With `owns_stream`, closing it closes the archive.
    """

    def __init__(
        self, host: str, path: str, chunks: ArchiveStream, member: tarfile.TarInfo, *, owns_stream: bool = True
    ) -> None:
        self._host, self._path, self._chunks, self._owns_stream = host, path, chunks, owns_stream
        self._end = chunks.tell() + member.size

    def readable(self) -> bool:
        """See io.RawIOBase."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into `buffer`."""
        view = memoryview(buffer)[: max(0, self._end - self._chunks.tell())]
        if not view:
            return 0
        size = self._chunks.readinto(view)
        if not size:
            problem = f"{self._path} could not be read completely: unexpected end of data"
            raise HostError(self._host, problem, "run this again")
        return size

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

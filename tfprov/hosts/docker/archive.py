"""Build archives to put into containers, choose which directories to read as archives, and read parts of files."""

import io
import os
import re
import tarfile
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from tfprov.errors import HostError
from tfprov.hosts import bounds
from tfprov.hosts.base import File, OnProgress, Prefix, ignore_progress
from tfprov.hosts.docker import exec as docker_exec
from tfprov.hosts.docker.engine import Engine

_CHUNK = 1024 * 1024
"""Bytes of a file per read."""


def writable_directory(path: str) -> bytes:
    """Return an archive that makes the directory `path` writable for any user; a new volume belongs to root.

    Without the sticky bit, which would keep a program that is not root from replacing restored files.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo(path.strip("/"))
        info.type, info.mode = tarfile.DIRTYPE, 0o777
        archive.addfile(info)
    return buffer.getvalue()


def subtree(archive: bytes, directory: str) -> bytes:
    """Return the part of `archive` below `directory`, with names relative to it."""
    buffer, prefix = io.BytesIO(), directory.strip("/") + "/"
    with tarfile.open(fileobj=io.BytesIO(archive)) as old, tarfile.open(fileobj=buffer, mode="w") as new:
        for info in old:
            if info.name.lstrip("/").startswith(prefix):
                info.name = info.name.lstrip("/").removeprefix(prefix)
                new.addfile(info, old.extractfile(info) if info.isfile() else None)
    return buffer.getvalue()


def symlink(path: str, target: str) -> bytes:
    """Return an archive that makes `path` a symbolic link to `target`, creating parent directories."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo(path.strip("/"))
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, target, 0o777
        archive.addfile(info)
    return buffer.getvalue()


def pack_files(host: str, files: Mapping[str, Path], on_progress: OnProgress = ignore_progress) -> Iterator[bytes]:
    """Yield an archive of local files, readable and writable by anyone, in chunks. `files` maps archive names to paths.

    The engine writes in place and may be interrupted, so the last file, which names the others, is truncated first: if it
    is complete, all are. `on_progress` gets the bytes sent and the total. Raises HostError for an unreadable local file.
    """
    sent_bytes, total = 0, sum(path.stat().st_size for path in files.values() if path.exists())
    for name in list(files)[-1:]:
        yield _header(name, 0, 0.0)
    for name, path in files.items():
        for piece in _pack_file(host, name, path):
            yield piece
            sent_bytes += len(piece)
            on_progress(min(sent_bytes, total), total)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _pack_file(host: str, name: str, path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            yield _header(name, status.st_size, status.st_mtime)
            left = status.st_size
            while left and (chunk := file.read(min(_CHUNK, left))):
                yield chunk
                left -= len(chunk)
    except OSError as error:  # an error of this machine, not of the connection
        raise HostError(host, f"{path} cannot be sent: {error.strerror}") from None
    if left:
        raise HostError(host, f"{path} shrank while it was being sent")
    yield bytes(-status.st_size % tarfile.BLOCKSIZE)


def _header(name: str, size: int, modified: float) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o666, int(modified)
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


_REQUEST = 256 * 1024
"""Bytes transferred in the time of one further request: 25 ms at 10 MB/s."""
LARGE = 64 * 1024 * 1024
"""Bytes from which a file may be worth its own request: if it is sparse, its holes are not sent."""
_MEMBER_OVERHEAD = 1024
"""Bytes of an archive per file, besides its content."""


def plan_archives(names: Collection[str], files: Mapping[str, File]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the directories to read as archives, each with those of `names` below it; "" is the checkpoint directory.

    An archive of a directory has all of `files` below it. It pays off if the unrequested files take less time than one
    request per requested file. Files in no yielded directory are to be requested one by one.
    """
    requested = frozenset(names) & files.keys()
    small = frozenset(name for name in requested if files[name].size < LARGE)
    large_dominate = _REQUEST * len(small) <= sum(files[name].size for name in requested - small)
    yield from _plan_below("", small if large_dominate else requested, files)


def _plan_below(
    directory: str, names: frozenset[str], files: Mapping[str, File]
) -> Iterator[tuple[str, frozenset[str]]]:
    unwanted = sum(file.size + _MEMBER_OVERHEAD for name, file in files.items() if name not in names)
    if len(names) > 1 and unwanted <= _REQUEST * (len(names) - 1):
        yield directory, names
        return
    if directory.count("/") >= bounds.NESTED:
        return
    prefix_length = len(directory) + 1 if directory else 0
    inside: dict[str, dict[str, File]] = defaultdict(dict)
    for name, file in files.items():
        folder, slash, _ = name[prefix_length:].partition("/")
        if slash:
            inside[name[:prefix_length] + folder][name] = file
    for folder, inside_files in inside.items():
        yield from _plan_below(folder, names & inside_files.keys(), inside_files)


SPARSE_PROGRAM = """import os, sys
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
"""Prints each stretch of data after a line with its offset and length, and last a line with the file's size. Prints nothing
for a file of which at least half is on the disk: an archive of that takes no longer."""
_STRETCH_LINE = re.compile(rb"(\d{1,19}) (\d{1,19})")
_MAX_STRETCH_LINE = 64
"""Maximum bytes of the line before a stretch."""
_ZEROS = bytes(1024 * 1024)


def open_sparse(engine: Engine, facts: Mapping[str, Any], path: str) -> "SparseFileReader | None":
    """Open a sparse file of a container; None for any other file, or if the image has no Python."""
    pieces = docker_exec.stream_output(engine, facts, ["python3", "-I", "-S", "-c", SPARSE_PROGRAM, path])
    first = next(pieces, b"")
    return SparseFileReader(engine.host, path, first, pieces) if first else None


_REST_SCRIPT = """[ -f "$1" ] && [ ! -L "$1" ] || exit 66
sum=$(head -c "$2" "$1" | sha256sum) && [ "${sum%% *}" = "$3" ] || exit 67
echo same && exec tail -c "+$(($2 + 1))" "$1\""""
"""Prints a line, and what follows the first $2 bytes of a regular file, if these have the SHA-256 $3; else nothing."""
_SAME = b"same\n"
_SLOWEST_DISK = 20e6
"""Bytes a second that the slowest disk of a host reads, a busy one or one in a network."""


def open_rest(engine: Engine, facts: Mapping[str, Any], path: str, before: Prefix) -> BinaryIO | None:
    """Open a file of a container behind `before`; None if it does not begin so, or if the image lacks the programs."""
    argv = ["sh", "-c", _REST_SCRIPT, "sh", path, str(before.size), before.sha256]
    silence = bounds.ACTION_TIMEOUT + before.size / _SLOWEST_DISK  # it prints nothing while it reads the beginning
    pieces = docker_exec.stream_output(engine, facts, argv, silence)
    first = b""
    while len(first) < len(_SAME) and (piece := next(pieces, b"")):
        first += piece
    if not first.startswith(_SAME):
        return None
    return cast(BinaryIO, io.BufferedReader(_Pieces(first[len(_SAME) :], pieces)))


class _Pieces(io.RawIOBase):
    """The output of a program as a file. Reads raise only HostError."""

    def __init__(self, first: bytes, pieces: Iterator[bytes]) -> None:
        self._rest, self._pieces = memoryview(first), pieces

    def readable(self) -> bool:
        """See io.RawIOBase."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into `buffer`."""
        self._rest = self._rest or memoryview(next(self._pieces, b""))
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size

    def close(self) -> None:
        """End the program."""
        with suppress(HostError):
            getattr(self._pieces, "close", lambda: None)()
        super().close()


class SparseFileReader(io.RawIOBase):
    """A file to be read once, from beginning to end. See SparseReader. Reads raise only HostError."""

    def __init__(self, host: str, path: str, first: bytes, pieces: Iterator[bytes]) -> None:
        self._host, self._path, self._rest, self._pieces = host, path, first, pieces
        self._at = self._begin = self._left = 0
        self._ended = False

    def readable(self) -> bool:
        """See io.RawIOBase."""
        return True

    def _receive(self) -> None:
        if not (piece := next(self._pieces, b"")):
            raise HostError(self._host, f"{self._path} was not sent completely", "run this again")
        self._rest += piece

    def _read_stretch(self) -> None:
        """Set `_begin` and `_left` to the next stretch of data; at the end of the file, to none."""
        if self._left or self._ended:
            return
        while b"\n" not in self._rest:
            if len(self._rest) > _MAX_STRETCH_LINE:
                raise self._format_error()
            self._receive()
        line, _, self._rest = self._rest.partition(b"\n")
        stretch = _STRETCH_LINE.fullmatch(line)
        if stretch is None or int(stretch[1]) < self._at:
            raise self._format_error()
        self._begin, self._left = int(stretch[1]), int(stretch[2])
        self._ended = not self._left

    def _format_error(self) -> HostError:
        return HostError(self._host, f"{self._path} was not sent in the expected format", "run this again")

    def hole(self) -> int:
        """See SparseReader."""
        self._read_stretch()
        return self._begin - self._at if self._at < self._begin else 0

    def seek(self, offset: int, whence: int = io.SEEK_CUR, /) -> int:
        """Skip `offset` bytes of a hole."""
        self._at += offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read into `buffer`; a hole reads as zeros."""
        if hole := self.hole():
            size = min(len(buffer), hole, len(_ZEROS))
            buffer[:size] = _ZEROS[:size]
            self._at += size
            return size
        if not self._left:
            return 0
        if not self._rest:
            self._receive()
        size = min(len(buffer), self._left, len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        self._at += size
        self._begin += size
        self._left -= size
        return size

    def close(self) -> None:
        """End the program."""
        with suppress(HostError):
            getattr(self._pieces, "close", lambda: None)()
        super().close()

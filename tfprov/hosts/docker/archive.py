"""Archives to put into a container: they give a task what it must find in its checkpoint directory when it starts."""

import io
import os
import re
import tarfile
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tfprov.errors import HostError
from tfprov.hosts.base import File, Sent, untold
from tfprov.hosts.docker import exec as docker_exec
from tfprov.hosts.docker.engine import Engine

_CHUNK = 1024 * 1024
"""Bytes of a file held in memory."""


def directory_for_all(path: str) -> bytes:
    """Return an archive that makes `path` writable for whoever the image runs as; a fresh volume belongs to root.

    Without the sticky bit: with it, a program that is not root could not replace a file that was put there for it.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo(path.strip("/"))
        info.type, info.mode = tarfile.DIRTYPE, 0o777
        archive.addfile(info)
    return buffer.getvalue()


def below(archive: bytes, directory: str) -> bytes:
    """Return `archive` with its names as they are below `directory`, and without what is not."""
    buffer, top = io.BytesIO(), directory.strip("/") + "/"
    with tarfile.open(fileobj=io.BytesIO(archive)) as old, tarfile.open(fileobj=buffer, mode="w") as new:
        for info in old:
            if info.name.lstrip("/").startswith(top):
                info.name = info.name.lstrip("/").removeprefix(top)
                new.addfile(info, old.extractfile(info) if info.isfile() else None)
    return buffer.getvalue()


def link(path: str, target: str) -> bytes:
    """Return an archive that makes `path` a symbolic link to `target`; directories on the way to it are made."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo(path.strip("/"))
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, target, 0o777
        archive.addfile(info)
    return buffer.getvalue()


def of_files(host: str, files: Mapping[str, Path], sent: Sent = untold) -> Iterator[bytes]:
    """Yield an archive of local files by the names they get, for anyone to read and write, a piece at a time.

    The engine writes in place and may be cut off. So the last file, which names the others, is emptied first: whoever
    finds it whole finds all of them whole. `sent` is told how much of them was taken. Raises HostError, for `host`, when a
    file here cannot be read.
    """
    come, whole = 0, sum(path.stat().st_size for path in files.values() if path.exists())
    for name in list(files)[-1:]:
        yield _header(name, 0, 0.0)
    for name, path in files.items():
        for piece in _file(host, name, path):
            yield piece
            come += len(piece)
            sent(min(come, whole), whole)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _file(host: str, name: str, path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            yield _header(name, status.st_size, status.st_mtime)
            left = status.st_size
            while left and (chunk := file.read(min(_CHUNK, left))):
                yield chunk
                left -= len(chunk)
    except OSError as error:  # of this machine, and not the connection's
        raise HostError(host, f"{path} cannot be sent: {error.strerror}") from None
    if left:
        raise HostError(host, f"{path} became shorter while it was sent")
    yield bytes(-status.st_size % tarfile.BLOCKSIZE)


def _header(name: str, size: int, modified: float) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o666, int(modified)
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


_REQUEST = 256 * 1024
"""Bytes that are moved in the time that a file takes which is asked for alone: 25 ms over 10 MB/s."""
LARGE = 64 * 1024 * 1024
"""Bytes from which on a file may be worth asking for alone: should it be sparse, its holes need not be sent."""
_HEADER = 1024
"""Bytes that an archive needs for a file, besides its content."""


def bundles(names: Collection[str], files: Mapping[str, File]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield directories to be read whole, with those of `names` below; the checkpoint directory itself is "".

    An archive of a directory has all of `files` below it: it is worth that where what is not wanted takes less time than
    to ask for each file that is. What is in none of them is better asked for alone, as large files are beside a few others.
    """
    wanted = frozenset(names) & files.keys()
    small = frozenset(name for name in wanted if files[name].size < LARGE)
    alone = _REQUEST * len(small) <= sum(files[name].size for name in wanted - small)
    yield from _below("", small if alone else wanted, files)


def _below(top: str, names: frozenset[str], files: Mapping[str, File]) -> Iterator[tuple[str, frozenset[str]]]:
    unwanted = sum(file.size + _HEADER for name, file in files.items() if name not in names)
    if len(names) > 1 and unwanted <= _REQUEST * (len(names) - 1):
        yield top, names
        return
    cut = len(top) + 1 if top else 0
    inside: dict[str, dict[str, File]] = defaultdict(dict)
    for name, file in files.items():
        folder, slash, _ = name[cut:].partition("/")
        if slash:
            inside[name[:cut] + folder][name] = file
    for folder, there in inside.items():
        yield from _below(folder, names & there.keys(), there)


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
    pieces = docker_exec.pieces(engine, facts, ["python3", "-I", "-S", "-c", _PROGRAM, path])
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

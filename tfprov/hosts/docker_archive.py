"""Archives to put into a container: they give a task what it must find in its checkpoint directory when it starts."""

import io
import os
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tfprov.errors import HostError
from tfprov.hosts.base import Sent, untold

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

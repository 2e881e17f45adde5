"""Writing files so that nobody ever sees half of one. Standard library only."""

import contextlib
import errno
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_CHUNK = 1024 * 1024
"""Bytes copied at a time."""
_FEW = 16
"""Files that are flushed one by one: each costs a turn of the disk, and a whole file system may have more to write."""
_TELLS = (5, 8)
"""The first Linux whose syncfs() tells what could not be written."""


def replace(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write `data` to `path` beside it, fsync, and rename over it."""
    beside = path.with_name(f"{path.name}.part")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        if not mode & 0o077:  # it is private also where a run that was killed has left it with another mode
            os.fchmod(descriptor, mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def private_directory(path: Path) -> Path:
    """Make `path` and what is missing above it for its owner alone, whatever the umask; return it.

    A directory of ours that is there already is closed to others; what is above it is left as it is.
    """
    missing = [path, *path.parents]
    missing = missing[: next((number for number, one in enumerate(missing) if one.is_dir()), len(missing))]
    for one in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another run has just made it
            one.mkdir(mode=0o700)
            one.chmod(0o700)
    status = path.stat()
    if status.st_mode & 0o077 and status.st_uid == os.getuid():
        path.chmod(0o700)
    return path


def sync(path: Path) -> None:
    """Make what a file holds, or the names in a directory, outlive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Flush:
    """Files that are to outlive a power cut, all at once: 10,000 files one by one cost a disk 10,000 turns.

    To be entered before the first of them is written, and left when all are. `below` is a directory of their file system.
    """

    def __init__(self, below: Path) -> None:
        self._below, self._files = below, list[Path]()

    def __enter__(self) -> "Flush":
        # What could not be written since a descriptor was opened is told to whoever flushes by it.
        self._descriptor = os.open(self._below, os.O_RDONLY | os.O_CLOEXEC)
        return self

    def add(self, path: Path) -> None:
        """One more file."""
        self._files.append(path)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._flush()
        finally:
            os.close(self._descriptor)

    def _flush(self) -> None:
        if len(self._files) > _FEW and (syncfs := _syncfs()) is not None:
            syncfs(self._descriptor)
        else:
            for path in self._files:
                sync(path)


def _syncfs() -> Callable[[int], None] | None:
    """Return what flushes a whole file system; None where there is nothing that also tells what went wrong."""
    import ctypes  # noqa: PLC0415  a supervisor needs none

    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    function: Any = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if os.uname().sysname != "Linux" or release is None or (int(release[1]), int(release[2])) < _TELLS:
        return None

    def syncfs(descriptor: int) -> None:
        if function(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    return None if function is None else syncfs


def copy_files(
    files: Mapping[str, Path], directory: Path, sent: Callable[[int, int], None] = lambda _sent, _whole: None
) -> None:
    """Copy each file beside the name it gets in `directory`, and rename it once it is on the disk.

    `sent` is told how many bytes were copied, and of how many.
    """
    come, whole = 0, sum(path.stat().st_size for path in files.values())
    for name, path in files.items():
        beside = directory / f"{name}.part"
        with path.open("rb") as source, beside.open("wb") as sink:
            while chunk := source.read(_CHUNK):
                sink.write(chunk)
                come += len(chunk)
                sent(come, whole)
        sync(beside)
        beside.replace(directory / name)
    if files:
        sync(directory)


def rewrite(path: Path, before: bytes, data: bytes) -> None:
    """Replace the file at `path`, which held `before` when it was read.

    Its mode, owner, extended attributes and access list stay, and a link to it still leads to it. OSError says why it
    was left as it is: it holds something else by now, it has other names, or it would have another owner.
    """
    target = Path(os.path.realpath(path))
    found = target.stat()
    if found.st_nlink > 1:
        raise OSError(errno.EMLINK, f"it has {found.st_nlink} names (hard links), and only one would have the change")
    # Hidden: in a directory of inventories it is not read as one.
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    beside = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            _keep_owner(file.fileno(), found)
            shutil.copystat(target, beside)
            os.utime(beside)
            file.flush()
            os.fsync(file.fileno())
        _refuse_changed(target, before)
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync(target.parent)


def _keep_owner(descriptor: int, found: os.stat_result) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (found.st_uid, found.st_gid):
        try:
            os.fchown(descriptor, found.st_uid, found.st_gid)
        except OSError:
            raise OSError(errno.EPERM, "it belongs to another user or group, and would not any more") from None


def _refuse_changed(target: Path, before: bytes) -> None:
    if target.read_bytes() != before:
        raise OSError(errno.EBUSY, "it was changed by somebody else meanwhile")

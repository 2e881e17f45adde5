"""Atomic writes of files: readers never see a partial file. Standard library only."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

_CHUNK = 1024 * 1024
"""Bytes copied at a time."""
_FEW = 16
"""Files that are flushed one by one; with more, syncfs() is faster, though it also flushes other files."""
_REPORTS_ERRORS = (5, 8)
"""The first Linux whose syncfs() reports write errors."""


def replace(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Replace `path` with `data`: write a temporary file beside it, fsync, and rename. An OSError has the file's name."""
    beside = path.with_name(f"{path.name}.part")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    if not mode & 0o077:  # also if a killed run left the file with another mode
        os.fchmod(descriptor, mode)
    _write_flushed(descriptor, data, path)
    beside.replace(path)


def replace_shared(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replace `path` as `replace` does, where other processes may do so, or may have files, at the same time."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:200]}.", suffix=".part", dir=path.parent)
    try:
        os.fchmod(descriptor, mode)
        _write_flushed(descriptor, data, path)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _write_flushed(descriptor: int, data: bytes, path: Path) -> None:
    """Write, flush and close a file that takes the place of `path`, which an error names: a descriptor has no name."""
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def replace_output(path: Path, data: bytes) -> None:
    """Replace a file that a user named: it keeps its mode, a symlink leads to it, and a device or a pipe takes the data."""
    if path.exists() and not path.is_file():
        with path.open("wb") as sink:
            sink.write(data)
    else:
        os.umask(umask := os.umask(0))
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~umask
        replace_shared(Path(os.path.realpath(path)), data, mode=mode)  # a FILE.part there may be the user's, too


def write_whole(descriptor: int, data: bytes) -> None:
    """Write all of `data`. A disk that becomes full takes what fits of one write, and raises OSError at the next."""
    while data:
        data = data[os.write(descriptor, data) :]


def private_directory(path: Path) -> Path:
    """Create `path` and its missing parents with mode 0700, whatever the umask, and return it.

    An existing directory of the user gets mode 0700; existing parents are unchanged.
    """
    missing = [path, *path.parents]
    missing = missing[: next((number for number, parent in enumerate(missing) if parent.is_dir()), len(missing))]
    for directory in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another run has just created it
            directory.mkdir(mode=0o700)
            directory.chmod(0o700)
    status = path.stat()
    if status.st_mode & 0o077 and status.st_uid == os.getuid():
        path.chmod(0o700)
    return path


def sync(path: Path) -> None:
    """Flush a file, or the names in a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Flush:
    """Flushes many files to disk at once: one by one, 10,000 files take 10,000 flushes.

    Enter it before the first file is written, and leave it after the last. `below` is a directory on their file system.
    """

    def __init__(self, below: Path) -> None:
        self._below = below
        self._files: list[Path] = []

    def __enter__(self) -> Flush:
        # syncfs() reports the write errors since its descriptor was opened.
        self._descriptor = os.open(self._below, os.O_RDONLY | os.O_CLOEXEC)
        return self

    def add(self, path: Path) -> None:
        """Add a file to flush."""
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


class Writeback:
    """Has the kernel write a large file to disk while it is still growing, so that its flush finds little left to do.

    Linux alone has a call for it; elsewhere, and where that fails, the flush does all of it.
    """

    _EVERY = 32 * 1024 * 1024
    _WRITE = 2  # SYNC_FILE_RANGE_WRITE of sync_file_range(2): begins to write, and waits for nothing

    def __init__(self, descriptor: int, begin: int) -> None:
        self._descriptor, self._begun = descriptor, begin

    def reached(self, position: int) -> None:
        """Call it with the bytes that the file has, from time to time."""
        size = position - self._begun
        if size >= self._EVERY:
            begin, self._begun = self._begun, position
            if (sync_file_range := _sync_file_range()) is not None:
                sync_file_range(self._descriptor, begin, size, self._WRITE)


@functools.lru_cache(maxsize=None)
def _sync_file_range() -> Callable[[int, int, int, int], int] | None:
    import ctypes  # noqa: PLC0415  a supervisor does not need it

    function: Any = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return cast("Callable[[int, int, int, int], int] | None", function)


def _syncfs() -> Callable[[int], None] | None:
    """Return syncfs(); None where it is missing or reports no write errors."""
    import ctypes  # noqa: PLC0415  a supervisor does not need it

    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    function: Any = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if os.uname().sysname != "Linux" or release is None or (int(release[1]), int(release[2])) < _REPORTS_ERRORS:
        return None

    def syncfs(descriptor: int) -> None:
        if function(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    return None if function is None else syncfs


def copy_files(
    files: Mapping[str, Path], directory: Path, sent: Callable[[int, int], None] = lambda _sent, _total: None
) -> None:
    """Copy files into `directory` under the names in `files`, each renamed once it is on disk.

    `sent` is called with the bytes copied so far and in total.
    """
    copied, total = 0, sum(path.stat().st_size for path in files.values())
    for name, path in files.items():
        beside = directory / f"{name}.part"
        with path.open("rb") as source, beside.open("wb") as sink:
            while chunk := source.read(_CHUNK):
                sink.write(chunk)
                copied += len(chunk)
                sent(copied, total)
        sync(beside)
        beside.replace(directory / name)
    if files:
        sync(directory)


def rewrite(path: Path, before: bytes, data: bytes) -> None:
    """Replace the content `before` of the file at `path` with `data`.

    Its mode, owner, extended attributes and access list are kept, and a symlink still leads to it. Raises OSError, and
    leaves the file unchanged, if it has other content by now, has hard links, or would get another owner.
    """
    target = Path(os.path.realpath(path))
    status = target.stat()
    if status.st_nlink > 1:
        raise OSError(errno.EMLINK, f"it has {status.st_nlink} names (hard links), and only one would have the change")
    # Hidden, so that it is not read as an inventory in a directory of them.
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    beside = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            _keep_owner(file.fileno(), status)
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


def _keep_owner(descriptor: int, status: os.stat_result) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (status.st_uid, status.st_gid):
        try:
            os.fchown(descriptor, status.st_uid, status.st_gid)
        except OSError:
            raise OSError(errno.EPERM, "it belongs to another user or group, and would not any more") from None


def _refuse_changed(target: Path, before: bytes) -> None:
    if target.read_bytes() != before:
        raise OSError(errno.EBUSY, "it was changed by another process meanwhile")

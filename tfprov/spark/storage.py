"""Files of a write and of a read, on this machine's disks and on fsspec's file systems."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from tfprov.atomic_write import sync
from tfprov.errors import one_line
from tfprov.tfrecord.extra import require
from tfprov.tfrecord.files import SCHEME, FileError, as_file_error

_TIMES = ("mtime", "LastModified", "last_modified", "updated", "created")
"""Names of the time of the last change, in the listings of several file systems."""

_ATTEMPTS = 10
"""At removing a directory in which files still appear."""


@dataclass(frozen=True)
class Entry:
    """A file or directory of a listing; `modified` is in seconds, or 0 where the file system does not say."""

    name: str
    is_directory: bool
    size: int
    modified: float


class Storage:
    """The file system of a path. Paths are those of the file system, `root` is the one that it was made for."""

    def __init__(self, path: str) -> None:
        fsspec = require("fsspec")
        if SCHEME.match(path):
            try:
                self._files, self.root = fsspec.core.url_to_fs(path)
            except (ImportError, ValueError) as error:
                raise FileError(f"{one_line(path)}: {one_line(str(error))}") from error
        else:
            self._files, self.root = fsspec.filesystem("file"), path
        self.is_local = not SCHEME.match(path)
        if hasattr(self._files, "invalidate_cache"):
            self._files.invalidate_cache()  # another process may have written since

    def url(self, name: str) -> str:
        """Return a name as tfprov.tfrecord opens it."""
        return name if self.is_local else str(self._files.unstrip_protocol(name))

    def info(self, name: str) -> Entry | None:
        """Return what lies there, or None."""
        try:
            return _entry(self._files.info(name))
        except FileNotFoundError:
            return None

    def is_file(self) -> bool:
        """Whether the path is a file."""
        entry = self.info(self.root)
        return entry is not None and not entry.is_directory

    def entries(self, name: str) -> list[Entry]:
        """Return what lies in a directory, in order of name; nothing where there is none."""
        try:
            listed = self._files.ls(name, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        entries = [_entry(each) for each in listed if each["name"].rstrip("/") != name.rstrip("/")]
        return sorted(entries, key=lambda entry: entry.name)

    def glob(self, pattern: str) -> list[str]:
        """Return the names that match a pattern."""
        return sorted(self._files.glob(pattern))

    def files(self, name: str) -> Iterator[str]:
        """Yield the files below a directory that are data: no part of their path begins with `.` or `_`."""
        for entry in self.entries(name):
            if is_hidden(entry.name):
                continue
            if entry.is_directory:
                yield from self.files(entry.name)
            else:
                yield entry.name

    def make_directories(self, name: str) -> None:
        """Make a directory, and those above it; raises FileError."""
        with as_file_error(self.url(name)):
            self._files.makedirs(name, exist_ok=True)

    def make_directory(self, name: str) -> None:
        """Make a directory in one that must be there, on this machine's disks; raises FileError."""
        if self.is_local:
            with as_file_error(name):
                Path(name).mkdir(exist_ok=True)
        else:
            self.make_directories(name)

    def create(self, name: str) -> BinaryIO:
        """Open a new file to write, in a directory that is there."""
        with as_file_error(self.url(name)):
            stream: BinaryIO = self._files.open(name, "wb")
        return stream

    def close(self, stream: BinaryIO) -> None:
        """Close a file that was written; on this machine's disks, when its bytes are there."""
        if self.is_local:
            stream.flush()
            os.fsync(stream.fileno())
        stream.close()

    def rename(self, source: str, target: str) -> None:
        """Give a file another name on the same file system."""
        self.make_directories(target.rpartition("/")[0])
        with as_file_error(self.url(target)):
            if self.is_local:
                Path(source).replace(target)
                sync(Path(target).parent)
            else:
                self._files.mv(source, target)

    def write(self, name: str, data: bytes) -> None:
        """Write a small file, whole or not at all."""
        folder, _, last = name.rpartition("/")
        self.make_directories(folder)
        part = f"{folder}/.{last}.{os.urandom(4).hex()}.part"
        stream = self.create(part)
        stream.write(data)
        self.close(stream)
        self.rename(part, name)

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a small file, or None where there is none."""
        try:
            data: bytes = self._files.cat_file(name)
        except FileNotFoundError:
            return None
        return data

    def remove(self, names: Sequence[str]) -> None:
        """Remove files; those that are gone do not matter. Raises FileError."""
        for name in names:
            with as_file_error(self.url(name)), contextlib.suppress(FileNotFoundError):
                self._files.rm_file(name)

    def remove_tree(self, name: str) -> None:
        """Remove a directory with all that is in it, and the one above it if that is hidden and empty then."""
        for _ in range(_ATTEMPTS):
            try:
                self._files.rm(name, recursive=True)
            except FileNotFoundError:
                break
            except (OSError, ValueError):  # a task that nobody waits for has just written there
                continue
        parent = name.rpartition("/")[0]
        if is_hidden(parent) and not self.entries(parent):
            with contextlib.suppress(OSError, ValueError):  # another job has just begun
                self._files.rmdir(parent)


def is_hidden(name: str) -> bool:
    """Whether Spark, Hadoop and tfprov pass over a file or directory."""
    last = name.rstrip("/").rpartition("/")[2]
    return last.startswith(".") or (last.startswith("_") and "=" not in last)


def _entry(listed: dict[str, Any]) -> Entry:
    changed = next((listed[name] for name in _TIMES if listed.get(name)), 0)
    seconds = changed.timestamp() if hasattr(changed, "timestamp") else float(changed)
    return Entry(listed["name"].rstrip("/"), listed["type"] == "directory", int(listed.get("size") or 0), seconds)

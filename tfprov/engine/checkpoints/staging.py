"""Copying a task's files into a directory beside their place, fsynced and hashed, before any of them counts."""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

from tfprov.engine.checkpoints.manifest import Entry
from tfprov.engine.checkpoints.shards import Place
from tfprov.errors import HostError
from tfprov.hosts.base import File

_CHUNK = 1024 * 1024
"""Bytes copied at a time."""


class Staging:
    """Files copied below `directory`; `entries` describes each, and `trouble` says why the last one failed.

    `moved` is called with the bytes that were copied of the files of one fetch, and with how many these have.
    """

    def __init__(self, directory: Path, moved: Callable[[int, int], None]) -> None:
        self.directory, self._moved = directory, moved
        self.entries: dict[str, Entry] = {}
        self.copied = self.size = 0
        self.trouble = ""

    def fetch(self, files: Mapping[str, Place]) -> bool:
        """Copy each of `files` from where it lies; False when one of them cannot be had."""
        whole, begin = sum(source.files[name].size for name, source in files.items()), self.size
        try:
            for name, source in files.items():
                self._copy(name, source, lambda copied: self._moved(self.size - begin + copied, whole))
        except HostError as error:
            self.trouble = str(error)
            return False
        return True

    def _copy(self, name: str, source: Place, moved: Callable[[int], None]) -> None:
        """Copy as much of a file as was listed: an event file that grows meanwhile is complete up to there."""
        with source.runtime.open(source.task, name) as stream:
            self._write(source.runtime.host, name, source.files[name], stream, moved)

    def take(self, name: str, host: str, file: File, stream: BinaryIO) -> None:
        """Copy one file of `host` that is open already; HostError when it is shorter than it should be."""
        self._write(host, name, file, stream, lambda copied: self._moved(self.size + copied, 0))

    def _write(self, host: str, name: str, file: File, stream: BinaryIO, moved: Callable[[int], None]) -> None:
        to = self.directory / name
        to.parent.mkdir(parents=True, exist_ok=True)
        digest, left = hashlib.sha256(), file.size
        with to.open("wb") as sink:
            while left and (chunk := stream.read(min(_CHUNK, left))):
                sink.write(chunk)
                digest.update(chunk)
                left -= len(chunk)
                moved(file.size - left)
            sink.flush()
            os.fsync(sink.fileno())
        if left:
            raise HostError(host, f"{name} became shorter while it was copied")
        self.entries[name] = Entry(digest.hexdigest(), file.size, file.modified)
        self.copied += 1
        self.size += file.size

    def place(self, names: Iterable[str], target: Path) -> None:
        """Move copied files to where they belong, below `target`."""
        for name in names:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (self.directory / name).replace(target / name)

    def clean(self) -> None:
        """Remove what was copied and not moved."""
        shutil.rmtree(self.directory, ignore_errors=True)

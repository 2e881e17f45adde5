"""Copies a task's files into a staging directory, hashed and fsynced, before they are moved into place."""

import errno
import hashlib
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace as with_fields
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from tfprov.atomic_write import Flush, Writeback, sync
from tfprov.engine.checkpoints.manifest import GatheredFile
from tfprov.engine.checkpoints.shards import CheckpointDir
from tfprov.engine.checkpoints.unfinished import hash_prefix, keep_unfinished, unfinished_size
from tfprov.errors import HostError, Unreachable, printable
from tfprov.formats.checkpoint import stays_below
from tfprov.hosts import bounds
from tfprov.hosts.base import File, SparseReader

if TYPE_CHECKING:
    from hashlib import _Hash

_CHUNK = 256 * 1024
"""Bytes copied at a time: with 1 MiB, writing takes the kernel several times as long (measured)."""
_ZEROS = bytes(_CHUNK)
_NO_NAME = (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ)
"""What a file system answers that cannot have a file of that name, such as an encrypted one or that of a USB drive."""
_BATCH_FILES, _BATCH_BYTES = 1000, 256 * 1024 * 1024
"""Independent files are moved into place after this many files or bytes: an interrupted gather loses no more than that."""


class Staging:
    """Files copied below `directory`; `entries` describes each, and `last_error` says why the last one failed.

    `lost` is that error if the host was lost: each further file would be a try to reach it.

    `placed` are the entries of those that were moved to where they belong.

    `resumed` are the bytes that were there of unfinished files.

    `moved` is called with the bytes that were copied of the files of one fetch, and with how many these have.
    """

    def __init__(self, directory: Path, moved: Callable[[int, int], None]) -> None:
        self.directory, self._moved = directory, moved
        self.entries: dict[str, GatheredFile] = {}
        self.placed: dict[str, GatheredFile] = {}
        self.copied = self.size = self.resumed = 0
        self.last_error = ""
        self.lost: Unreachable | None = None
        self._made: set[Path] = set()

    def at(self, directory: Path) -> "Staging":
        """Return one that copies below another directory, and has copied nothing yet."""
        return Staging(directory, self._moved)

    def fetch(self, files: Mapping[str, CheckpointDir], *, may_change: bool = False) -> bool:
        """Copy `files`; return False if one cannot be read, or of those that `may_change` was saved again meanwhile."""
        moved = self._counting(sum(source.files[name].size for name, source in files.items()))
        by_place: dict[CheckpointDir, list[str]] = defaultdict(list)
        for name, source in files.items():
            by_place[source].append(name)
        try:
            with self._flushing() as flush:
                for source, names in by_place.items():
                    for name in self._copy(names, source, moved):
                        flush.add(self.directory / name)
                    if may_change and source.has_changed(names):
                        self.last_error = "it was saved again while it was copied"
                        return False
        except HostError as error:
            self.last_error, self.lost = str(error), error if isinstance(error, Unreachable) else None
            return False
        return True

    def fetch_each(self, names: Collection[str], source: CheckpointDir) -> Iterator[list[str]]:
        """Copy `names`, and yield them in batches, each once it is on the disk; unreadable files are left out.

        `last_error` says why one cannot be read. Raises Unreachable for a lost host: the yielded files stay.
        """
        if not names:
            return
        moved = self._counting(sum(source.files[name].size for name in names))
        copying = self._copy(names, source, moved, all_or_nothing=False)
        while batch := self._next_batch(copying):
            yield batch

    def _next_batch(self, copying: Iterator[str]) -> list[str]:
        batch: list[str] = []
        end = self.size + _BATCH_BYTES
        with self._flushing() as flush:
            for name in copying:
                batch.append(name)
                flush.add(self.directory / name)
                if len(batch) == _BATCH_FILES or self.size >= end:
                    break
        return batch

    def _counting(self, whole: int) -> Callable[[int], None]:
        begin = self.size
        return lambda copied: self._moved(self.size - begin + copied, whole)

    def _flushing(self) -> Flush:
        self.directory.mkdir(parents=True, exist_ok=True)
        return Flush(self.directory)

    def _copy(
        self,
        names: Collection[str],
        source: CheckpointDir,
        moved: Callable[[int], None],
        *,
        all_or_nothing: bool = True,
    ) -> Iterator[str]:
        """Copy files and yield each name; of each file only the listed size, as event files grow meanwhile.

        Raises HostError for the first unreadable file; without `all_or_nothing`, only Unreachable for a lost host.
        """
        left = dict.fromkeys(names)
        begun = [name for name in names if self._unfinished(name, source)]
        if len(left) - len(begun) > 1:
            # The files that fail here are read one by one below, which gives the error of each.
            with suppress(HostError):
                for name, stream in source.open_each([name for name in names if name not in begun]):
                    self._write_whole(name, source, stream, moved)
                    del left[name]
                    yield name
        for name in left:
            try:
                self._copy_one(name, source, moved)
            except HostError as error:
                self.last_error = str(error)
                if all_or_nothing or isinstance(error, Unreachable):
                    raise
            else:
                yield name

    def _copy_one(self, name: str, source: CheckpointDir, moved: Callable[[int], None]) -> None:
        if not ((size := self._unfinished(name, source)) and self._continue(name, source, size, moved)):
            self._write_whole(name, source, source.open(name), moved)

    def _unfinished(self, name: str, source: CheckpointDir) -> int:
        return unfinished_size(self.directory / name, source.files[name].size) if stays_below(name) else 0

    def _continue(self, name: str, source: CheckpointDir, size: int, moved: Callable[[int], None]) -> bool:
        """Copy what a copy of `size` bytes lacks; return False if the file does not begin so."""
        digest, before = hash_prefix(self.directory / name, size)
        try:
            stream = source.open_rest(name, before)
        except Unreachable:
            raise
        except HostError:  # such as one that takes too long to read it: it would do so at each further gather
            stream = None
        if stream is None:
            return False
        self.resumed += size
        with stream:
            self._write(source.runtime.host, name, source.files[name], stream, moved, digest=digest, begin=size)
        return True

    def _write_whole(self, name: str, source: CheckpointDir, stream: BinaryIO, moved: Callable[[int], None]) -> None:
        with stream:
            self._write(source.runtime.host, name, source.files[name], stream, moved)

    def take(self, files: Iterable[tuple[str, File, BinaryIO]], host: str) -> None:
        """Copy files of `host` that are opened one after the other; HostError when one is shorter than it should be."""
        with self._flushing() as flush:
            for name, file, stream in files:
                self._write(host, name, file, stream, lambda copied: self._moved(self.size + copied, 0))
                flush.add(self.directory / name)

    def _write(  # noqa: PLR0913  the last two go on with an unfinished file
        self,
        host: str,
        name: str,
        file: File,
        stream: BinaryIO,
        moved: Callable[[int], None],
        *,
        digest: "_Hash | None" = None,
        begin: int = 0,
    ) -> None:
        if not stays_below(name):  # a host must not write outside, whatever its engine answers
            what = f"{printable(name)} would not stay in the directory that is gathered into"
            raise HostError(host, f"a file that is called {what}", "look at its Docker engine: it should not send that")
        to = self._place_of(name, host)
        digest, left = digest or hashlib.sha256(), file.size - begin
        with to.open("r+b" if begin else "wb") as sink:
            sink.seek(begin)
            writeback = Writeback(sink.fileno(), begin)
            for piece in _readable(_pieces(stream, left), host, name):
                # Zeros become holes, whether they were holes on the host or an archive contained them.
                if piece == _ZEROS[: len(piece)]:
                    sink.seek(len(piece), os.SEEK_CUR)
                else:
                    sink.write(piece)
                digest.update(piece)
                left -= len(piece)
                writeback.reached(file.size - left)
                moved(file.size - left)
            sink.truncate(file.size - left)
        if left:
            raise HostError(host, f"{name} became shorter while it was copied")
        self.entries[name] = GatheredFile(digest.hexdigest(), file.size, file.modified)
        self.copied += 1
        self.size += file.size

    def _place_of(self, name: str, host: str) -> Path:
        """Return where the copy of a file is written, in a directory that is there; HostError if it cannot be."""
        if name.count("/") > bounds.NESTED:
            raise HostError(host, f"{printable(name)} lies below more than {bounds.NESTED} directories")
        to = self.directory / name
        try:
            if to.parent not in self._made:
                to.parent.mkdir(parents=True, exist_ok=True)
                self._made.add(to.parent)
            to.touch()
        except OSError as error:
            if error.errno not in _NO_NAME:
                raise
            raise HostError(host, f"{printable(name)} cannot be stored on this machine: {error.strerror}") from None
        return to

    def read_text(self, name: str, size: int) -> str:
        """Return the first `size` bytes of a copied file."""
        with (self.directory / name).open("rb") as file:
            return file.read(size).decode("utf-8", "surrogateescape")

    def replace_text(self, name: str, text: str) -> None:
        """Replace the content of a copied file; its entry keeps size and time, by which a change on the host is noticed."""
        path = self.directory / name
        path.write_text(text)
        sync(path)
        self.entries[name] = with_fields(self.entries[name], sha256=hashlib.sha256(text.encode()).hexdigest())

    def place(self, names: Iterable[str], target: Path) -> None:
        """Move copied files to where they belong, below `target`."""
        made = set()
        for name in names:
            to = target / name
            if to.parent not in made:
                to.parent.mkdir(parents=True, exist_ok=True)
                made.add(to.parent)
            (self.directory / name).replace(to)
            self.placed[name] = self.entries[name]

    def keep_unfinished(self, names: Collection[str]) -> None:
        """Remove copied files that were not moved into place, but those of `names` that can be continued."""
        keep_unfinished(self.directory, names)
        self._made.clear()

    def clean(self) -> None:
        """Remove copied files that were not moved into place."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self._made.clear()


def _readable(pieces: Iterator[bytes | memoryview], host: str, name: str) -> Iterator[bytes | memoryview]:
    """Yield the `pieces` of a file of `host`. HostError if it cannot be read: an OSError is one of this machine's disk."""
    try:
        yield from pieces
    except OSError as error:
        raise HostError(host, f"{printable(name)} cannot be read: {error.strerror or error}") from None


def _pieces(stream: BinaryIO, size: int) -> Iterator[bytes | memoryview]:
    """Yield up to `size` bytes of a file without reading its holes; every byte that arrived before an error."""
    left, buffer = size, memoryview(bytearray(min(size, _CHUNK)))
    # BufferedReader.readinto reads until the buffer is full, and an error meanwhile loses what it has read.
    read = getattr(stream, "readinto1", None) or stream.readinto  # type: ignore[attr-defined]
    hole = stream.hole if isinstance(stream, SparseReader) else lambda: 0
    while left:
        gap = hole() if left >= _CHUNK else 0
        if gap >= _CHUNK:
            gap = min(gap, left) // _CHUNK * _CHUNK
            stream.seek(gap, os.SEEK_CUR)
            left -= gap
            yield from repeat(_ZEROS, gap // _CHUNK)
        elif size := read(buffer[: min(_CHUNK, left)]):
            left -= size
            yield buffer[:size]
        else:
            return

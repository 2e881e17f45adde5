"""Content by its digest: the blobs of an OCI image layout.

A blob appears by a rename, after it was written beside and fsynced: there is never half of one, and two writers of the
same blob do no harm. What a killed process leaves behind lies in `incoming/`.
"""

import contextlib
import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

from tfprov.atomic_write import private_directory, replace, sync
from tfprov.errors import DeliveryError
from tfprov.images.oci_spec import MAX_DOCUMENT, Descriptor, digest_of

CHUNK = 64 * 1024
"""Bytes read, hashed and written at a time. 1 MiB costs twice the CPU time: such buffers are mapped anew each time."""


@contextmanager
def stored(directory: Path) -> Iterator[None]:
    """Convert OSError into DeliveryError."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        fix = "free some space there: `tfprov image prune`" if full else "make it readable and writable"
        raise DeliveryError(f"{error.filename or directory}: {error.strerror or error}", fix) from None


class Incoming:
    """A blob that is being written and hashed. Nothing is stored until `keep` is called."""

    def __init__(self, blobs: "Blobs") -> None:
        self._blobs = blobs
        descriptor, name = tempfile.mkstemp(dir=blobs.incoming)
        self._file, self._path = os.fdopen(descriptor, "wb", buffering=0), Path(name)
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        """Take the next bytes, all of them."""
        self._hash.update(data)
        self.size += len(data)
        with stored(self._path):
            rest = memoryview(data)
            while rest:  # a file may take less than it is given, as when the disk is nearly full
                rest = rest[self._file.write(rest) :]
        return len(data)

    def close(self) -> None:
        """End the writing."""
        self._file.close()

    @property
    def digest(self) -> str:
        """Of what was written so far."""
        return f"sha256:{self._hash.hexdigest()}"

    def read(self) -> bytes:
        """Return what was written; DeliveryError when that is more than a manifest or a configuration can be."""
        if self.size > MAX_DOCUMENT:
            raise DeliveryError(f"an image's JSON is not valid: it has {self.size} bytes")
        with stored(self._path):
            return self._path.read_bytes()

    def describe(self, media_type: str) -> Descriptor:
        """Return the descriptor it has once it is kept."""
        return Descriptor(media_type=media_type, digest=self.digest, size=self.size)

    def keep(self, media_type: str) -> Descriptor:
        """Store the blob; when this returns, it is fsynced and in place."""
        self.close()
        blob = self.describe(media_type)
        if not self._blobs.has(blob):
            with stored(self._path):
                sync(self._path)
                self._path.rename(self._blobs.path(blob.digest))
        return blob

    def drop(self) -> None:
        """Remove the file if it was not kept."""
        self.close()
        self._path.unlink(missing_ok=True)


class Blobs:
    """The blobs of the layout at `directory`. Every method raises DeliveryError when the disk fails it."""

    def __init__(self, directory: Path) -> None:
        self.incoming = directory / "incoming"
        self.directory = directory / "blobs" / "sha256"
        with stored(directory):
            private_directory(self.directory)
            private_directory(self.incoming)

    def path(self, digest: str) -> Path:
        """Return where the blob of a descriptor's `digest` is, or would be."""
        return self.directory / digest.removeprefix("sha256:")

    def has(self, blob: Descriptor) -> bool:
        """Whether the blob is stored. Its size is compared: a disk that lost power may have kept the name only."""
        try:
            return self.path(blob.digest).stat().st_size == blob.size
        except OSError:
            return False

    def open(self, blob: Descriptor) -> BufferedReader:
        """Open a blob for reading; once open, it can be read to its end even when it is pruned."""
        path = self.path(blob.digest)
        with stored(path):
            return path.open("rb")

    def begin(self) -> Incoming:
        """Return a blob to write; whoever begins one drops it in the end."""
        with stored(self.incoming):
            return Incoming(self)

    @contextmanager
    def receive(self) -> Iterator[Incoming]:
        """Yield a blob to write; what was not kept in the block is gone after it."""
        blob = self.begin()
        try:
            yield blob
        finally:
            blob.drop()

    def put(self, stream: BinaryIO, media_type: str) -> Descriptor:
        """Store all that `stream` yields."""
        with self.receive() as blob:
            while data := stream.read(CHUNK):
                blob.write(data)
            return blob.keep(media_type)

    def write(self, data: bytes, media_type: str) -> Descriptor:
        """Store `data`."""
        with self.receive() as blob:
            blob.write(data)
            return blob.keep(media_type)

    def read(self, blob: Descriptor) -> bytes:
        """Return a manifest or a configuration; DeliveryError when it is missing or was damaged on the disk."""
        with self.open(blob) as file:
            data = file.read(MAX_DOCUMENT + 1)
        if digest_of(data) != blob.digest:
            fix = "remove it: images are made again when they are needed"
            raise DeliveryError(f"{self.path(blob.digest)} is damaged", fix)
        return data

    def sound(self, blob: Descriptor) -> bool:
        """Read a blob and compare its digest; a damaged one is removed."""
        if not self.has(blob):
            return False
        with self.open(blob) as file, stored(self.path(blob.digest)):
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if f"sha256:{digest}" == blob.digest:
            return True
        self.path(blob.digest).unlink(missing_ok=True)
        return False


KEEP = 50
"""Files that are remembered: the last ones that were read."""


def digest_of_file(path: Path, cache: Path) -> str:
    """Return the sha256 of the file at `path`; OSError when it cannot be read.

    The file `cache` remembers it as long as the size, the time of change to the nanosecond and the inode stay. A cache
    that is damaged, or cannot be written, costs only time.
    """
    key, stamp = str(path.resolve()), _stamp(path)
    known = _read(cache).get(key)
    if isinstance(known, list) and known[:-1] == stamp and isinstance(known[-1], str):
        return known[-1]
    with path.open("rb") as file:
        digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    if _stamp(path) == stamp:  # else it was written while it was read
        _remember(cache, key, [*stamp, digest])
    return digest


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def _remember(cache: Path, key: str, entry: list[Any]) -> None:
    known = _read(cache)
    known.pop(key, None)
    known[key] = entry
    last = dict(list(known.items())[-KEEP:])
    with contextlib.suppress(OSError):
        private_directory(cache.parent)
        replace(cache, json.dumps(last).encode(), mode=0o600)


def _read(cache: Path) -> dict[str, Any]:
    try:
        known = json.loads(cache.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return known if isinstance(known, dict) else {}

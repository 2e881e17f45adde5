"""The content-addressed blobs of an OCI image layout.

A blob is written to `incoming/`, fsynced and renamed: a stored blob is always complete, and two writers of the same blob
do no harm. Files of a killed process stay in `incoming/` until `prune`.
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
def disk_errors(directory: Path) -> Iterator[None]:
    """Convert OSError into DeliveryError."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        fix = "free some space there: `tfprov image prune`" if full else "make it readable and writable"
        raise DeliveryError(f"{error.filename or directory}: {error.strerror or error}", fix) from None


class IncomingBlob:
    """A blob that is being written and hashed. Nothing is stored until `keep` is called."""

    def __init__(self, blobs: "Blobs") -> None:
        self._blobs = blobs
        descriptor, name = tempfile.mkstemp(dir=blobs.incoming)
        self._file, self._path = os.fdopen(descriptor, "wb", buffering=0), Path(name)
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        """Write and hash all of `data`."""
        self._hash.update(data)
        self.size += len(data)
        with disk_errors(self._path):
            rest = memoryview(data)
            while rest:  # an unbuffered write may be short, for example when the disk is nearly full
                rest = rest[self._file.write(rest) :]
        return len(data)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def digest(self) -> str:
        """The digest of the bytes written so far."""
        return f"sha256:{self._hash.hexdigest()}"

    def read(self) -> bytes:
        """Return the bytes written; DeliveryError when they are more than a manifest or a configuration may have."""
        if self.size > MAX_DOCUMENT:
            raise DeliveryError(f"an image's JSON is not valid: it has {self.size} bytes")
        with disk_errors(self._path):
            return self._path.read_bytes()

    def describe(self, media_type: str) -> Descriptor:
        """Return the blob's descriptor."""
        return Descriptor(media_type=media_type, digest=self.digest, size=self.size)

    def keep(self, media_type: str) -> Descriptor:
        """Fsync the blob and move it to its place."""
        self.close()
        blob = self.describe(media_type)
        if not self._blobs.has(blob):
            with disk_errors(self._path):
                sync(self._path)
                self._path.rename(self._blobs.path(blob.digest))
        return blob

    def drop(self) -> None:
        """Remove the file if it was not kept."""
        self.close()
        self._path.unlink(missing_ok=True)


class Blobs:
    """The blobs of the layout at `directory`. Every method raises DeliveryError on disk errors."""

    def __init__(self, directory: Path) -> None:
        self.incoming = directory / "incoming"
        self.directory = directory / "blobs" / "sha256"
        with disk_errors(directory):
            private_directory(self.directory)
            private_directory(self.incoming)

    def path(self, digest: str) -> Path:
        """Return the path of the blob with this digest, stored or not."""
        return self.directory / digest.removeprefix("sha256:")

    def has(self, blob: Descriptor) -> bool:
        """Whether the blob is stored with its full size: after a power loss a file may be there without its content."""
        try:
            return self.path(blob.digest).stat().st_size == blob.size
        except OSError:
            return False

    def open(self, blob: Descriptor) -> BufferedReader:
        """Open a blob for reading; once open, it can be read to its end even when it is pruned."""
        path = self.path(blob.digest)
        with disk_errors(path):
            return path.open("rb")

    def begin(self) -> IncomingBlob:
        """Return a new blob to write; the caller drops it in the end."""
        with disk_errors(self.incoming):
            return IncomingBlob(self)

    @contextmanager
    def receive(self) -> Iterator[IncomingBlob]:
        """Yield a blob to write, removed after the block unless it was kept."""
        blob = self.begin()
        try:
            yield blob
        finally:
            blob.drop()

    def put(self, stream: BinaryIO, media_type: str) -> Descriptor:
        """Store the content of `stream`."""
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
        """Return a manifest or a configuration; DeliveryError when it is missing or damaged."""
        with self.open(blob) as file:
            data = file.read(MAX_DOCUMENT + 1)
        if digest_of(data) != blob.digest:
            fix = "remove it: images are made again when they are needed"
            raise DeliveryError(f"{self.path(blob.digest)} is damaged", fix)
        return data

    def verify(self, blob: Descriptor) -> bool:
        """Whether a blob has the content of its digest; a damaged blob is removed."""
        if not self.has(blob):
            return False
        with self.open(blob) as file, disk_errors(self.path(blob.digest)):
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if f"sha256:{digest}" == blob.digest:
            return True
        self.path(blob.digest).unlink(missing_ok=True)
        return False


MAX_CACHED = 50
"""Entries of the digest cache: the files hashed last."""


def digest_of_file(path: Path, cache: Path) -> str:
    """Return the sha256 of the file at `path`; OSError when it cannot be read.

    The file `cache` holds digests by path; an entry is valid as long as size, mtime (in ns) and inode are the same. A
    damaged or read-only cache costs only time.
    """
    key, stamp = str(path.resolve()), _stamp(path)
    cached = _read_cache(cache).get(key)
    if isinstance(cached, list) and cached[:-1] == stamp and isinstance(cached[-1], str):
        return cached[-1]
    with path.open("rb") as file:
        digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    if _stamp(path) == stamp:  # else it was written while it was read
        _write_cache(cache, key, [*stamp, digest])
    return digest


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def _write_cache(cache: Path, key: str, entry: list[Any]) -> None:
    entries = _read_cache(cache)
    entries.pop(key, None)
    entries[key] = entry
    newest = dict(list(entries.items())[-MAX_CACHED:])
    with contextlib.suppress(OSError):
        private_directory(cache.parent)
        replace(cache, json.dumps(newest).encode(), mode=0o600)


def _read_cache(cache: Path) -> dict[str, Any]:
    try:
        entries = json.loads(cache.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return entries if isinstance(entries, dict) else {}

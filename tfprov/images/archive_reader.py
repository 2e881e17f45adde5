"""Reads the files of an image archive from a stream, in one pass and in constant memory.

Nothing is extracted by name: every file becomes an incoming blob, hashed while it is written, and names are keys of a
dictionary. A hostile name therefore reaches no path; it is refused all the same: no tool that saves images writes one.
"""

import hashlib
import lzma
import re
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import IO

from tfprov.errors import LONGEST, DeliveryError, one_line, printable
from tfprov.images.blobs import CHUNK, Blobs, IncomingBlob
from tfprov.images.oci_spec import Parsed, parse

MAX_MEMBERS = 10_000
"""More files mean a root file system: an image has at most 127 layers with three files each."""

_GZIP, _ZSTD = b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"
_DIGEST = re.compile(r"(?:blobs/sha256/(?P<blob>[0-9a-f]{64})|(?P<config>[0-9a-f]{64})\.json)\Z")
# `docker save` writes a layer that two images share once, and links to it; so do skopeo and podman.
_LINK = re.compile(r"[0-9a-f]{64}/layer\.tar\Z")
_LINKED = re.compile(r"\.\./(?P<name>[0-9a-f]{64}(?:/layer)?\.tar)\Z")


class UncompressedDigest:
    """The sha256 of the uncompressed content of a gzip stream, computed while the stream is read."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._inflate: zlib._Decompress | None = None
        self._broken = False

    def write(self, data: bytes) -> None:
        """Hash the next bytes of the stream, which may have several gzip members in a row."""
        try:
            while data and not self._broken:
                self._inflate = self._inflate or zlib.decompressobj(wbits=31)
                data = self._inflate_member(self._inflate, data)
        except zlib.error:
            self._broken = True

    def _inflate_member(self, inflate: "zlib._Decompress", data: bytes) -> bytes:
        # Bounded steps: a small stream may hold gigabytes of zeros.
        while True:
            piece = inflate.decompress(data, CHUNK)
            self._hash.update(piece)
            if inflate.eof:
                self._inflate = None
                return inflate.unused_data
            data = inflate.unconsumed_tail
            if not data and len(piece) < CHUNK:
                return b""

    @property
    def digest(self) -> str | None:
        """None when the stream is damaged or not at its end."""
        return None if self._broken or self._inflate else f"sha256:{self._hash.hexdigest()}"


class ArchiveMember:
    """A file of the archive. `compression` is `gzip`, `zstd` or empty, detected from the first bytes."""

    def __init__(self, blob: IncomingBlob) -> None:
        self.blob = blob
        self.compression = ""
        self._unpacked: UncompressedDigest | None = None

    def fill(self, file: IO[bytes]) -> None:
        """Store and hash all of `file`."""
        while data := file.read(CHUNK):
            self.write(data)
        self.blob.close()

    def write(self, data: bytes) -> None:
        """Store and hash the next bytes; the first ones tell the compression."""
        if not self.blob.size:
            self._recognize(data)
        self.blob.write(data)
        if self._unpacked:
            self._unpacked.write(data)

    def _recognize(self, first: bytes) -> None:
        if first.startswith(_GZIP):
            self.compression, self._unpacked = "gzip", UncompressedDigest()
        elif first.startswith(_ZSTD):
            self.compression = "zstd"

    @property
    def diff_id(self) -> str | None:
        """The digest of the uncompressed content; None when it is damaged, or compressed with zstd."""
        if self._unpacked:
            return self._unpacked.digest
        return None if self.compression else self.blob.digest


class ArchiveMembers:
    """The files of one archive, by name."""

    def __init__(self) -> None:
        self._files: dict[str, ArchiveMember] = {}
        self._links: dict[str, str] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def __getitem__(self, name: str) -> ArchiveMember:
        member = self._files.get(self._links.get(name, name))
        if member is None:
            raise DeliveryError(f"the archive is cut off or damaged: {_tail(name)} is missing")
        return member

    def parse(self, kind: type[Parsed], name: str) -> Parsed:
        """Read one of the archive's JSON documents."""
        return parse(kind, self[name].blob.read(), _tail(name))

    def take(self, blobs: Blobs, stream: IO[bytes]) -> None:
        """Read the archive to its end; DeliveryError when the stream is no archive or is damaged."""
        with _archive_errors(), _opened(stream) as archive:
            for number, entry in enumerate(archive):
                if number == MAX_MEMBERS:
                    raise DeliveryError(f"more than {MAX_MEMBERS} files: not an image archive")
                self._take(blobs, archive, entry)

    def _take(self, blobs: Blobs, archive: tarfile.TarFile, entry: tarfile.TarInfo) -> None:
        name = self._check_name(entry.name)
        if entry.isdir():
            return
        if entry.issym() and _LINK.match(name) and (match := _LINKED.match(entry.linkname)):
            self._links[name] = match["name"]
            return
        file = archive.extractfile(entry) if entry.type in (tarfile.REGTYPE, tarfile.AREGTYPE) else None
        if file is None:
            raise DeliveryError(f"{_tail(name)} is a link or a device: not an image archive")
        if name in self._files:
            raise DeliveryError(f"{_tail(name)} is in it twice")
        member = self._files[name] = ArchiveMember(blobs.begin())
        member.fill(file)
        self._check_digest(name, member.blob.digest)

    def _check_name(self, name: str) -> str:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise DeliveryError(f"{_tail(name)} leads out of the archive")
        return str(path)

    def _check_digest(self, name: str, digest: str) -> None:
        match = _DIGEST.match(name)
        if match and digest != f"sha256:{match['blob'] or match['config']}":
            raise DeliveryError(f"{_tail(name)} is damaged: its content has another digest")

    def drop(self) -> None:
        """Remove all files that were not kept."""
        for member in self._files.values():
            member.blob.drop()


def _tail(name: str) -> str:
    """Return a name for a message, shortened at the front: the end tells more than a digest at the beginning."""
    return printable(name if len(name) <= LONGEST else f"...{name[3 - LONGEST :]}")


def _opened(stream: IO[bytes]) -> tarfile.TarFile:
    try:
        return tarfile.open(fileobj=stream, mode="r|*", bufsize=CHUNK)
    # It reads a byte of a header of gzip where there is none. Python 3.11.2, that of Debian 12, decompresses fields of the
    # header before it knows which errors that can have.
    except (AttributeError, TypeError):
        raise EOFError("it ends in its first bytes") from None


@contextmanager
def _archive_errors() -> Iterator[None]:
    """Convert the errors that tarfile and the decompressors raise for a damaged archive into DeliveryError."""
    try:
        yield
    except (tarfile.TarError, EOFError, ValueError, OverflowError, zlib.error, lzma.LZMAError) as error:
        what = "not a whole archive (tar, plain or compressed with gzip, bzip2 or xz)"
        raise DeliveryError(f"{what}: {one_line(str(error))}") from None
    except OSError as error:
        raise DeliveryError(one_line(error.strerror or str(error))) from None

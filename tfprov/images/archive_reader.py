"""The files of an image archive, taken from a stream in one pass and in constant memory.

Nothing is extracted by name: every file becomes an incoming blob, hashed while it is written, and names are looked up in a
dictionary. So a hostile name leads nowhere; it is refused all the same, as no tool that saves images writes one.
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
from tfprov.images.blobs import CHUNK, Blobs, Incoming
from tfprov.images.oci_spec import Parsed, parse

MAX_MEMBERS = 10_000
"""Far beyond any image (three files a layer, 127 layers): more files mean that it is a root file system."""

_GZIP, _ZSTD = b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"
_DIGEST = re.compile(r"(?:blobs/sha256/(?P<blob>[0-9a-f]{64})|(?P<config>[0-9a-f]{64})\.json)\Z")
# `docker save` writes a layer that two images share once, and links to it; so do skopeo and podman.
_LINK = re.compile(r"[0-9a-f]{64}/layer\.tar\Z")
_LINKED = re.compile(r"\.\./(?P<name>[0-9a-f]{64}(?:/layer)?\.tar)\Z")


class Unpacked:
    """The sha256 of what a gzip stream holds, computed while the stream passes."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._inflate: zlib._Decompress | None = None
        self._broken = False

    def write(self, data: bytes) -> None:
        """Take the next bytes of the stream, which may be of several gzip members in a row."""
        try:
            while data and not self._broken:
                self._inflate = self._inflate or zlib.decompressobj(wbits=31)
                data = self._member(self._inflate, data)
        except zlib.error:
            self._broken = True

    def _member(self, inflate: "zlib._Decompress", data: bytes) -> bytes:
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


class Member:
    """A file of the archive. `compression` is `gzip`, `zstd` or nothing, told from its first bytes."""

    def __init__(self, blob: Incoming) -> None:
        self.blob = blob
        self.compression = ""
        self._unpacked: Unpacked | None = None

    def fill(self, file: IO[bytes]) -> None:
        """Store and hash all of `file`."""
        first = True
        while data := file.read(CHUNK):
            if first:
                self._recognize(data)
                first = False
            self.blob.write(data)
            if self._unpacked:
                self._unpacked.write(data)
        self.blob.close()

    def _recognize(self, first: bytes) -> None:
        if first.startswith(_GZIP):
            self.compression, self._unpacked = "gzip", Unpacked()
        elif first.startswith(_ZSTD):
            self.compression = "zstd"

    @property
    def diff_id(self) -> str | None:
        """The digest of the uncompressed content; None when it is damaged, or compressed in a way Python cannot read."""
        if self._unpacked:
            return self._unpacked.digest
        return None if self.compression else self.blob.digest


class Members:
    """The files of one archive, by name."""

    def __init__(self) -> None:
        self._files: dict[str, Member] = {}
        self._links: dict[str, str] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def __getitem__(self, name: str) -> Member:
        member = self._files.get(self._links.get(name, name))
        if member is None:
            raise DeliveryError(f"the archive is cut off or damaged: {_tail(name)} is missing")
        return member

    def parse(self, kind: type[Parsed], name: str) -> Parsed:
        """Read one of the archive's JSON documents."""
        return parse(kind, self[name].blob.read(), _tail(name))

    def take(self, blobs: Blobs, stream: IO[bytes]) -> None:
        """Read the archive to its end; DeliveryError when it is none, or is damaged."""
        with _readable(), tarfile.open(fileobj=stream, mode="r|*", bufsize=CHUNK) as archive:
            for number, entry in enumerate(archive):
                if number == MAX_MEMBERS:
                    raise DeliveryError(f"more than {MAX_MEMBERS} files: not an archive of an image")
                self._take(blobs, archive, entry)

    def _take(self, blobs: Blobs, archive: tarfile.TarFile, entry: tarfile.TarInfo) -> None:
        name = self._checked(entry.name)
        if entry.isdir():
            return
        if entry.issym() and _LINK.match(name) and (linked := _LINKED.match(entry.linkname)):
            self._links[name] = linked["name"]
            return
        file = archive.extractfile(entry) if entry.type in (tarfile.REGTYPE, tarfile.AREGTYPE) else None
        if file is None:
            raise DeliveryError(f"{_tail(name)} is a link or a device: not an archive of an image")
        if name in self._files:
            raise DeliveryError(f"{_tail(name)} is there twice")
        member = self._files[name] = Member(blobs.begin())
        member.fill(file)
        self._check_digest(name, member.blob.digest)

    def _checked(self, name: str) -> str:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise DeliveryError(f"{_tail(name)} leads out of the archive")
        return str(path)

    def _check_digest(self, name: str, digest: str) -> None:
        named = _DIGEST.match(name)
        if named and digest != f"sha256:{named['blob'] or named['config']}":
            raise DeliveryError(f"{_tail(name)} is damaged: its content has another digest")

    def drop(self) -> None:
        """Forget all that was not kept."""
        for member in self._files.values():
            member.blob.drop()


def _tail(name: str) -> str:
    """Return a name as it stands in a message: its end says more than the digest it may begin with."""
    return printable(name if len(name) <= LONGEST else f"...{name[3 - LONGEST :]}")


@contextmanager
def _readable() -> Iterator[None]:
    """Turn what a damaged archive makes tarfile and the decompressors raise into DeliveryError."""
    try:
        yield
    except (tarfile.TarError, EOFError, ValueError, OverflowError, zlib.error, lzma.LZMAError) as error:
        what = "not a whole archive (tar, plain or compressed with gzip, bzip2 or xz)"
        raise DeliveryError(f"{what}: {one_line(str(error))}") from None
    except OSError as error:
        raise DeliveryError(one_line(error.strerror or str(error))) from None

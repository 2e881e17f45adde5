"""Receives one layer from an engine, until it turns out to be one that the layout has."""

import hashlib
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress

from tfprov.images.blobs import CHUNK, Blobs, IncomingBlob
from tfprov.images.oci_spec import Descriptor, compression

OPENING = 64 * 1024
"""Bytes by which a layer is recognized. The time of its first file is within the first 512."""
_GZIP = 31
"""zlib's `wbits` for a gzip stream."""


class KnownLayer(Exception):
    """The layer begins like one of the layout."""


class DamagedUpload(Exception):
    """The layer is no gzip stream, or is longer than the image."""


class Openings:
    """The first bytes of layers of the layout, uncompressed."""

    def __init__(self, blobs: Blobs, layers: Sequence[Descriptor]) -> None:
        self._openings = [_read_opening(blobs, layer) for layer in layers]

    def match(self, start: bytes | bytearray) -> bool:
        """Whether a layer begins with `start`."""
        return any(opening.startswith(start) for opening in self._openings)


def _read_opening(blobs: Blobs, layer: Descriptor) -> bytes:
    inflate = zlib.decompressobj(wbits=_GZIP) if compression(layer) else None
    opening = b""
    with blobs.open(layer) as file, suppress(zlib.error):  # a damaged layer is like no other
        while len(opening) < OPENING and (data := file.read(CHUNK)):
            opening += inflate.decompress(data, OPENING) if inflate else data
    return opening[:OPENING]


class LayerUpload:
    """A layer on its way into `blobs`: compressed as it comes, stored uncompressed.

    `limit` is the number of bytes, uncompressed, after which it is refused.
    """

    def __init__(self, blobs: Blobs, openings: Openings, limit: int) -> None:
        self.blob: IncomingBlob = blobs.begin()
        self.received = 0
        self._openings, self._limit = openings, limit
        self._start: bytearray | None = bytearray()
        self._inflate = zlib.decompressobj(wbits=_GZIP)
        self._hash = hashlib.sha256()

    def write(self, data: bytes) -> None:
        """Take the next compressed bytes. Raises KnownLayer and DamagedUpload."""
        self.received += len(data)
        self._hash.update(data)
        for piece in self._pieces(data):
            if self._start is not None:
                self._compare(self._start, piece)
            if self._start is None:
                self._store(piece)

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield uncompressed bytes in bounded steps: a few compressed ones may hold gigabytes of zeros."""
        try:
            while data and not self._inflate.eof:
                yield self._inflate.decompress(data, CHUNK)
                data = self._inflate.unconsumed_tail
        except zlib.error as error:
            raise DamagedUpload(str(error)) from None
        if data or self._inflate.unused_data:
            raise DamagedUpload("bytes after the end of the layer")

    def _compare(self, start: bytearray, piece: bytes) -> None:
        start += piece
        if not self._openings.match(start[:OPENING]):
            self._start = None
            self._store(bytes(start[: -len(piece)] if piece else start))
        elif len(start) >= OPENING:
            raise KnownLayer

    def _store(self, piece: bytes) -> None:
        if self.blob.size + len(piece) > self._limit:
            raise DamagedUpload(f"more than {self._limit} bytes")
        self.blob.write(piece)

    def finish(self) -> None:
        """Mark the end of the layer. Raises DamagedUpload when it is cut off, and KnownLayer when the layout has it."""
        if not self._inflate.eof:
            raise DamagedUpload("the layer is cut off")
        if self._start is not None:
            raise KnownLayer
        self.blob.close()

    @property
    def digest(self) -> str:
        """The digest of the compressed bytes so far."""
        return f"sha256:{self._hash.hexdigest()}"

    def drop(self) -> None:
        """Remove it, unless it was kept."""
        self.blob.drop()

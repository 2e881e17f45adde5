"""Compressed streams: gzip and zlib, with memory bounded by what is asked for."""

import zlib
from collections.abc import Callable
from typing import BinaryIO, Protocol

from tfprov.errors import printable
from tfprov.tfrecord.errors import SchemaError

AUTO = "auto"
NONE = "none"
_WINDOW_BITS = {"gzip": 31, "zlib": 15}
_EXTENSIONS = {".gz": "gzip", ".gzip": "gzip", ".zlib": "zlib", ".zz": "zlib", ".deflate": "zlib"}
_OTHER_NAMES = {"": NONE, "uncompressed": NONE, "gz": "gzip", "deflate": "zlib"}
_INPUT = 64 * 1024
"""Compressed bytes read at a time."""


class Source(Protocol):
    """A stream of bytes; `read` returns at most `size` bytes, and none at the end only."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes."""


class DamagedStream(Exception):
    """Compressed data that cannot be read further."""


def codec_of(path: str, option: str | None) -> str:
    """Return `none`, `gzip` or `zlib`: what `option` names, or for `auto` and None what the path's extension means."""
    name = AUTO if option is None else option.lower()
    if name == AUTO:
        return next((codec for end, codec in _EXTENSIONS.items() if path.lower().endswith(end)), NONE)
    name = _OTHER_NAMES.get(name, name)
    if name != NONE and name not in _WINDOW_BITS:
        raise SchemaError(f"unknown compression `{printable(option)}`", "use auto, none, gzip or zlib")
    return name


def decompressed(stream: Source, codec: str) -> Source:
    """Return `stream` as a stream of uncompressed bytes; its `read` raises DamagedStream."""
    return stream if codec == NONE else _Inflated(stream, codec)


class _Inflated:
    """Reads a compressed stream. A gzip file may have several members, and zeros behind the last."""

    def __init__(self, stream: Source, codec: str) -> None:
        self._stream, self._codec = stream, codec
        self._pending = b""
        self._member = self._new_member()
        self._started = self._ended = False

    def _new_member(self) -> "zlib._Decompress":
        return zlib.decompressobj(wbits=_WINDOW_BITS[self._codec])

    def read(self, size: int, /) -> bytes:
        while not self._ended:
            if self._member.eof and not self._next_member():
                return b""
            data = self._inflate(size)
            if data:
                return data
        return b""

    def _next_member(self) -> bool:
        """Go on to the next member of a gzip file; False at the end of the data."""
        self._pending = (self._pending or self._stream.read(_INPUT)).lstrip(b"\0")
        while not self._pending and (more := self._stream.read(_INPUT)):
            self._pending = more.lstrip(b"\0")
        if not self._pending:
            self._ended = True
            return False
        if self._codec != "gzip":
            raise DamagedStream("bytes follow the end of the compressed data")
        self._member = self._new_member()
        return True

    def _inflate(self, size: int) -> bytes:
        source = self._pending or self._stream.read(_INPUT)
        if not source and not self._started:  # an empty file has no records, and no header
            self._ended = True
            return b""
        self._started = True
        try:
            data = self._member.decompress(source, size)
        except zlib.error as error:
            raise DamagedStream(f"the {self._codec} data is damaged ({error})") from error
        if not source and not data:
            raise DamagedStream(f"the {self._codec} data ends too early")
        self._pending = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
        return data


def compressor(sink: BinaryIO, codec: str) -> tuple[Callable[[bytes], object], Callable[[], object]]:
    """Return a function that writes bytes to `sink` compressed, and one that writes the end of the compressed data."""
    if codec == NONE:
        return sink.write, lambda: None
    deflate = zlib.compressobj(wbits=_WINDOW_BITS[codec])
    return lambda data: sink.write(deflate.compress(data)), lambda: sink.write(deflate.flush())

"""Read the chunks of an engine's answer as they arrive, with less work for each than http.client has."""

import http.client
from collections.abc import Iterator
from typing import Any

_READ = 256 * 1024
"""Bytes per read."""
_MAX_LINE = 64 * 1024
"""Bytes of a chunk's first line, and of each line after the last chunk, as in http.client."""


def iter_chunked(file: Any) -> Iterator[memoryview]:
    """Yield the pieces of a chunked body, which `file` reads.

    Raises the errors of the connection, and HTTPException for a body that is malformed or cut off; no piece that arrived
    before is lost.
    """
    body = _ChunkedBody(file)
    while size := body.next_size():
        while size:
            piece = body.take(size)
            size -= len(piece)
            yield piece
        body.end_chunk()
    body.skip_trailers()


class _ChunkedBody:
    def __init__(self, file: Any) -> None:
        self._file = file
        self._set(b"")

    def _set(self, data: bytes) -> None:
        self._data, self._view, self._at = data, memoryview(data), 0

    def _receive(self) -> bytes:
        data: bytes = self._file.read1(_READ)
        if not data:
            raise http.client.IncompleteRead(b"")
        return data

    def _line(self) -> bytes:
        while (end := self._data.find(b"\n", self._at, self._at + _MAX_LINE)) < 0:
            rest = self._data[self._at :]
            if len(rest) >= _MAX_LINE:
                raise http.client.LineTooLong("chunk size")
            self._set(rest + self._receive())
        line = self._data[self._at : end]
        self._at = end + 1
        return line

    def next_size(self) -> int:
        """Read the first line of a chunk and return its size; 0 for the last one."""
        digits = self._line().partition(b";")[0].strip()
        if not digits or digits.strip(b"0123456789abcdefABCDEF"):
            raise http.client.IncompleteRead(b"")
        return int(digits, 16)

    def take(self, size: int) -> memoryview:
        """Return 1 to `size` bytes of a chunk."""
        if self._at == len(self._data):
            self._set(self._receive())
        piece = self._view[self._at : self._at + size]
        self._at += len(piece)
        return piece

    def end_chunk(self) -> None:
        """Read the end of a chunk."""
        if self._line().strip():
            raise http.client.IncompleteRead(b"")

    def skip_trailers(self) -> None:
        """Read what follows the last chunk."""
        while self._line().strip():
            pass

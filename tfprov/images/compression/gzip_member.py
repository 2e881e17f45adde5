"""Compresses a stream into one gzip member, with several cores.

Each piece is compressed alone and ends at a byte, so that the pieces in a row are one member, as `pigz --independent` makes
it. The same input gives the same bytes with every number of cores, as long as zlib is the same.
"""

import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from typing import BinaryIO

LEVEL = 1
"""Level 6 makes layers 9 % smaller and takes three times as long: 36 MB/s a core beside 100."""
PIECE = 1024 * 1024
"""Bytes that are compressed at a time."""

_HEADER = b"\x1f\x8b\x08\x00" + bytes(4) + b"\x04\xff"
"""Deflate, no name, no time, the fastest level, an unknown system: nothing of this machine."""
_SAMPLES, _SAMPLE = 16, 64 * 1024
"""How many samples of a layer are compressed beforehand, and their bytes."""
_LAST_BLOCK = b"\x03\x00"
"""An empty block that is the last."""


def gzip_pieces(source: BinaryIO, pool: Executor, at_once: int, on_piece: Callable[[bytes], object]) -> Iterator[bytes]:
    """Yield the gzip member of all of `source`; `at_once` pieces are compressed in `pool` at the same time.

    `on_piece` is called with each piece before it is compressed, in their order.
    """
    checksum, size = 0, 0
    waiting: deque[Future[bytes]] = deque()
    yield _HEADER
    try:
        while piece := source.read(PIECE):
            waiting.append(pool.submit(deflate, piece))
            on_piece(piece)
            checksum, size = zlib.crc32(piece, checksum), size + len(piece)
            if len(waiting) >= at_once:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
    yield _LAST_BLOCK + checksum.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little")


def deflate(piece: bytes) -> bytes:
    """Return `piece` compressed, as blocks of a stream that goes on."""
    stream = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return stream.compress(piece) + stream.flush(zlib.Z_FULL_FLUSH)


def sample_ratio(source: BinaryIO, size: int) -> float:
    """Return the compressed share of a few samples of `source`, which has `size` bytes."""
    total = packed = 0
    for number in range(_SAMPLES):
        source.seek(max(0, size - _SAMPLE) * number // (_SAMPLES - 1))
        piece = source.read(_SAMPLE)
        total, packed = total + len(piece), packed + len(deflate(piece))
    source.seek(0)
    return packed / max(1, total)

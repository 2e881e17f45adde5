"""Protobuf's wire format in NumPy: the same field of many records in one operation.

A position may be anything: readers clip it to the data, and callers compare the result with the record's end before
they use it.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Positions = NDArray[np.int64]
Words = NDArray[np.uint64]
Mask = NDArray[np.bool_]

_STOPS = np.uint64(0x8080808080808080)
_LOW7 = tuple(np.uint64(0x7F << 8 * place) for place in range(8))
LONGEST_LENGTH = 5
"""Bytes of the varint of a length: 35 bits, more than any record has."""
LONGEST_VARINT = 10
FIELD_1 = 0x0A
"""The tag of a field with the number 1 and a length: nearly every field of these messages."""
FEW = 256
"""Ranges for which a step in lock-step takes longer than to go through the fields of each range."""


@dataclass(frozen=True)
class Wire:
    """The bytes of a block with PADDING behind them, as bytes and as the words that begin at each byte."""

    data: bytes
    octets: NDArray[np.uint8]
    words: Words

    @classmethod
    def of(cls, data: bytes) -> "Wire":
        """Look at `data`, which is not copied and ends with at least 8 bytes that belong to no record."""
        return cls(data, np.frombuffer(data, np.uint8), np.ndarray((len(data) - 7,), "<u8", data, strides=(1,)))

    def at(self, positions: Positions) -> Words:
        """Return the 8 bytes at each position; the caller keeps positions within the data."""
        return self.words[positions]


def small(words: Words) -> tuple[Positions, Positions]:
    """Return the varints that the words begin with, of at most 5 bytes, and their sizes; 0 for longer ones."""
    first = (words & np.uint64(0xFF)).view(np.int64)
    if not (first & 0x80).any():
        return first, np.ones(len(words), np.int64)
    stops = ~words & np.uint64(0x8080808080)
    stop = stops & -stops
    sizes = np.zeros(len(words), np.int64)
    for place in range(LONGEST_LENGTH):
        sizes += (stop >= np.uint64(0x80 << 8 * place)) & (stop > 0)
    values = compress(words & (stop | stop - np.uint64(1)), LONGEST_LENGTH)
    sizes = np.where(stop == 0, 0, sizes)
    return values, sizes


def compress(words: Words, places: int = 8) -> Positions:
    """Return the numbers whose groups of 7 bits stand in the lower `places` bytes of the words."""
    values = words & _LOW7[0]
    for place in range(1, places):
        values |= (words & _LOW7[place]) >> np.uint64(place)
    return values.view(np.int64)


def varints(octets: NDArray[np.uint8]) -> tuple[NDArray[np.int64], Positions]:
    """Return all varints in `octets`, as signed numbers, and the position behind each.

    Raises ValueError for a varint that is longer than 10 bytes, or is not complete.
    """
    behind = np.flatnonzero(octets < 0x80) + 1
    if len(octets) and (not len(behind) or behind[-1] != len(octets)):
        raise ValueError("a number is cut off")
    starts = np.empty_like(behind)
    starts[:1], starts[1:] = 0, behind[:-1]
    sizes = behind - starts
    if len(sizes) == len(octets):
        return octets.astype(np.int64), behind
    if sizes.max() > LONGEST_VARINT:
        raise ValueError("a number has more than 10 bytes")
    data = octets.tobytes() + bytes(8)
    words = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))[starts]
    longest = int(min(sizes.max(), 8))
    values = compress(words & low_bytes(sizes), longest).view(np.uint64)
    if sizes.max() > 8:
        for place in (8, 9):
            has = np.flatnonzero(sizes > place)
            bits = octets[starts[has] + place].astype(np.uint64) & np.uint64(0x7F)
            values[has] |= bits << np.uint64(7 * place)
    return values.view(np.int64), behind


_LOW_BYTES = np.array([(1 << 8 * min(size, 8)) - 1 for size in range(LONGEST_VARINT + 1)], np.uint64)


def low_bytes(sizes: Positions) -> Words:
    """Return masks of the lower `sizes` bytes of words; 8 bytes for sizes of 8 to 10."""
    return _LOW_BYTES[sizes]


def single_varints(wire: Wire, starts: Positions, sizes: Positions) -> tuple[NDArray[np.int64], Mask]:
    """Return the number in each range of bytes, and where there is exactly one, of at most 8 bytes."""
    if (sizes == 1).all():
        octets = wire.octets[starts]
        return octets.astype(np.int64), octets < 0x80
    words = wire.at(starts) & low_bytes(np.minimum(sizes, 8))
    stops = ~words & _STOPS & low_bytes(np.minimum(sizes, 8))
    single = (stops == np.uint64(0x80) << (8 * np.maximum(sizes - 1, 0)).view(np.uint64)) & (sizes <= 8) & (sizes > 0)
    return compress(words, int(min(sizes.max(initial=1), 8))), single


def ranges(wire: Wire, starts: Positions, sizes: Positions) -> pa.Array:
    """Return ranges of bytes, which lie one behind the other in the data and do not overlap, as an array of binaries."""
    count = len(starts)
    if not count:
        return pa.array([], pa.large_binary())
    offsets = np.empty(2 * count, np.int64)
    offsets[0::2] = starts
    offsets[1::2] = starts + sizes
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(wire.data)]
    both = pa.LargeBinaryArray.from_buffers(pa.large_binary(), 2 * count - 1, buffers)
    return both.take(pa.array(np.arange(0, 2 * count, 2)))


def contents(binaries: pa.Array) -> tuple[NDArray[np.uint8], Positions]:
    """Return the bytes of an array of large binaries without nulls, one after the other, and their offsets."""
    _, offset_buffer, data = binaries.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[binaries.offset : binaries.offset + len(binaries) + 1]
    octets = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return octets[offsets[0] : offsets[-1]], offsets - offsets[0]


def grouped_varints(binaries: pa.Array) -> tuple[NDArray[np.int64], Positions]:
    """Return all varints in an array of large binaries, and how many each has.

    Raises ValueError where one is not complete in its binary.
    """
    octets, offsets = contents(binaries)
    values, behind = varints(octets)
    ends = np.searchsorted(behind, offsets[1:], side="right")
    complete = behind[np.maximum(ends - 1, 0)] == offsets[1:] if len(behind) else np.zeros(len(ends), bool)
    if not (complete | (offsets[1:] == offsets[:-1]) | (offsets[1:] == 0)).all():
        raise ValueError("a number is cut off")
    return values, np.diff(ends, prepend=0)


def fields_of(data: bytes, start: int, end: int) -> tuple[list[int], list[int]] | None:
    """Return where the contents of the fields in a range begin and end; None unless all have number 1 and a length.

    For few ranges with many fields, which take too many steps in lock-step.
    """
    starts: list[int] = []
    ends: list[int] = []
    while start < end:
        size = data[start + 1]
        if data[start] != FIELD_1:
            return None
        start += 2
        if size > 127:
            size, start = _length(data, start - 1)
        starts.append(start)
        start += size
        ends.append(start)
    return (starts, ends) if start == end else None


def _length(data: bytes, start: int) -> tuple[int, int]:
    """Return the varint at `start`, of at most 5 bytes, and the position behind it."""
    value = 0
    for place in range(LONGEST_LENGTH):
        byte = data[start + place]
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return value, start + place + 1
    return 1 << 62, start

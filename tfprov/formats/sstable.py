"""Reads the table files of TensorFlow, the format of a checkpoint's index: sorted keys and values in checked blocks.

The format is LevelDB's: blocks, each followed by its compression (one byte) and the masked CRC-32C of both; a block that
lists the blocks of data; and a footer of 48 bytes. Every byte belongs to a block or to the footer, and is checked.
Standard library only; the caller brings the CRC.
"""

import os
import struct
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

from tfprov.formats.protobuf import varint
from tfprov.formats.tfrecord import mask_crc

Extend = Callable[[int, bytes], int]
"""Returns the CRC-32C of a prefix, of which the CRC is known, and more bytes: `google_crc32c.extend`."""

_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
_TRAILER = struct.Struct("<BI")
_NO_COMPRESSION, _SNAPPY = 0, 1


class CheckpointError(ValueError):
    """A damaged file of a checkpoint: the file, the tensor if there is one, and what is wrong, in one line."""


class _Handle(NamedTuple):
    """Where a block is, in bytes; `size` is without the trailer."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.offset + self.size + _TRAILER.size


def entries(stream: BinaryIO, extend: Extend) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a table file, in order; one block is in memory at a time.

    Raises ValueError for the first damage, without the name of the file.
    """
    size = stream.seek(0, os.SEEK_END)
    others, index = _footer(stream, size)
    blocks = [_handle(value) for _, value in _entries(_block(stream, index, extend, size))]
    _block(stream, others, extend, size)
    at = 0
    for handle in (*blocks, others, index):
        if handle.offset != at:
            raise CheckpointError(f"no block begins at byte {at}")
        at = handle.end
    if at != size - _FOOTER:
        raise CheckpointError(f"no block begins at byte {at}")
    last = None
    for handle in blocks:
        for key, value in _entries(_block(stream, handle, extend, size)):
            if last is not None and key <= last:
                raise CheckpointError(f"the keys of the block at byte {handle.offset} are not sorted")
            last = key
            yield key, value


def _footer(stream: BinaryIO, size: int) -> tuple[_Handle, _Handle]:
    """Return where the block of other indexes, which is empty, and the block that lists the blocks of data are."""
    stream.seek(-min(size, _FOOTER), os.SEEK_END)
    footer = stream.read(_FOOTER)
    if len(footer) < _FOOTER or int.from_bytes(footer[-8:], "little") != _MAGIC:
        raise CheckpointError("the file does not end as an index does: it is cut short, or no index")
    others, position = _read_handle(footer, 0)
    index, _ = _read_handle(footer, position)
    written = b"".join(map(_encoded, (*others, *index))).ljust(_FOOTER - 8, b"\0")
    if footer[:-8] != written:  # a number has many encodings: a flipped bit may choose another one
        raise CheckpointError("the footer is damaged")
    return others, index


def _encoded(number: int) -> bytes:
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes((*encoded, number))


def _read_handle(data: bytes, position: int) -> tuple[_Handle, int]:
    offset, position = varint(data, position)
    size, position = varint(data, position)
    return _Handle(offset, size), position


def _handle(value: bytes) -> _Handle:
    return _read_handle(value, 0)[0]


def _block(stream: BinaryIO, handle: _Handle, extend: Extend, size: int) -> bytes:
    """Return the contents of a block whose checksum is right."""
    if handle.end > size - _FOOTER:
        raise CheckpointError(f"the block at byte {handle.offset} is longer than the file")
    stream.seek(handle.offset)
    data = stream.read(handle.size + _TRAILER.size)
    compression, crc = _TRAILER.unpack(data[handle.size :])
    if mask_crc(extend(0, data[: handle.size + 1])) != crc:
        raise CheckpointError(f"the block at byte {handle.offset} does not match its checksum")
    if compression != _NO_COMPRESSION:
        how = "snappy" if compression == _SNAPPY else f"method {compression}"
        raise CheckpointError(
            f"the block at byte {handle.offset} is compressed ({how}), which no checkpoint's index is"
        )
    return data[: handle.size]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a block. A key shares its first bytes with the key before it."""
    end = len(block) - 4
    if end >= 0:
        end -= 4 * int.from_bytes(block[end:], "little")  # the offsets of keys that share nothing, for a binary search
    if end < 0:
        raise CheckpointError("a block is shorter than its list of keys")
    key, position = b"", 0
    while position < end:
        shared, position = varint(block, position)
        own, position = varint(block, position)
        length, position = varint(block, position)
        if shared > len(key) or position + own + length > end:
            raise CheckpointError("a key or a value is longer than its block")
        key = key[:shared] + block[position : position + own]
        position += own
        yield key, block[position : position + length]
        position += length

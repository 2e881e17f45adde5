"""TFRecord framing: bytes to blocks of whole records, with every checksum verified, and records to bytes.

Memory is bounded by the size of a block, or of the largest record if that is larger: a length is believed only after
its checksum was verified and it was compared with the maximum, and even then the buffer grows with the data that
arrives, not with the length.
"""

import itertools
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tfprov.errors import one_line
from tfprov.tfrecord.checksums import crc32c, length_crc, length_crcs, masked
from tfprov.tfrecord.compression import DamagedStream, Source
from tfprov.tfrecord.errors import SALVAGE, DamagedFile, SchemaError

PADDING = 16
"""Zero bytes behind the data of a block, so that words can be read at its end."""
BLOCK_BYTES = 2 << 20
"""Bytes read at a time: larger blocks do not fit into the processor's cache, and decode more slowly."""
MAX_RECORD_BYTES = 1 << 30
_LARGEST = (1 << 31) - 1
"""The largest protobuf message."""
_HEADER, _FOOTER = 12, 4
_LENGTH = struct.Struct("<Q")
_HEADER_FIELDS = struct.Struct("<QI")


@dataclass(frozen=True)
class Block:
    """Whole records of one file: record `i` is `data[starts[i]:ends[i]]`. PADDING zero bytes follow the data.

    `offset` is the position of `data` in the uncompressed file, `first` the number of the first record.
    """

    file: str
    offset: int
    first: int
    data: bytes
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    def place(self, index: int) -> tuple[str, int, int]:
        """Return file, offset and number of the record at `index`, as errors want them."""
        return self.file, self.offset + int(self.starts[index]) - _HEADER, self.first + index

    def slice(self, start: int, stop: int) -> "Block":
        """Return some of the records."""
        return Block(
            self.file, self.offset, self.first + start, self.data, self.starts[start:stop], self.ends[start:stop]
        )

    def with_records(self, records: Sequence[bytes]) -> "Block":
        """Return a block with other bytes for the records, whose places in the file are lost."""
        ends = np.cumsum(np.array([len(record) for record in records], np.int64))
        starts = np.concatenate([np.zeros(1, np.int64), ends])[: len(records)]
        return Block(self.file, self.offset, self.first, b"".join((*records, bytes(PADDING))), starts, ends)

    def record(self, index: int) -> bytes:
        """Return the bytes of one record."""
        return self.data[self.starts[index] : self.ends[index]]


def read_blocks(
    stream: Source, file: str, *, block_bytes: int = BLOCK_BYTES, max_record_bytes: int = MAX_RECORD_BYTES
) -> Iterator[Block]:
    """Yield the records of `stream` in blocks; raises DamagedFile behind the last intact record."""
    if not 0 < max_record_bytes <= _LARGEST:
        raise SchemaError(f"max_record_bytes must be between 1 and {_LARGEST}, not {max_record_bytes}")
    return _Reader(stream, file, block_bytes, max_record_bytes).blocks()


class _Reader:
    def __init__(self, stream: Source, file: str, block_bytes: int, max_record_bytes: int) -> None:
        self._stream, self._file = stream, file
        self._block_bytes, self._max = block_bytes, max_record_bytes
        self._offset = self._records = 0
        self._failure: str | None = None

    def blocks(self) -> Iterator[Block]:
        tail, needed = b"", 0
        while True:
            data = self._more(tail, max(needed, len(tail) + self._block_bytes))
            ended = len(data) == len(tail)
            block, used = self._scan(data)
            if len(block):
                yield block
            self._offset, self._records, tail = self._offset + used, self._records + len(block), data[used:]
            needed = self._needed(tail)
            if ended:
                break
        if self._failure is not None:
            raise self._damage(self._failure)
        if tail:
            part = "header" if len(tail) < _HEADER else "data"
            raise self._damage(f"the file ends in the {part} of the record")

    def _more(self, tail: bytes, size: int) -> bytes:
        """Return `tail` with more of the stream, up to `size` bytes in all; an error of the stream ends it."""
        parts, length = [tail], len(tail)
        try:
            while length < size and (part := self._stream.read(min(size - length, self._block_bytes))):
                parts.append(part)
                length += len(part)
        except DamagedStream as error:
            self._failure = str(error)
        except (OSError, EOFError) as error:
            self._failure = f"cannot be read: {one_line(str(error))}"
        return b"".join(parts)

    def _scan(self, data: bytes) -> tuple[Block, int]:
        """Return the intact records at the beginning of `data`, and their size in bytes."""
        data += bytes(PADDING)
        starts, ends, crcs = _split(data, self._max)
        intact = _intact(data, starts, ends, crcs)
        block = Block(self._file, self._offset, self._records, data, starts[:intact], ends[:intact])
        return block, int(ends[intact - 1]) + _FOOTER if intact else 0

    def _needed(self, tail: bytes) -> int:
        """Return how many bytes the record at the beginning of `tail` has; raises DamagedFile for one that is wrong."""
        if len(tail) < _HEADER:
            return 0
        length, crc = _HEADER_FIELDS.unpack_from(tail)
        if crc != length_crc(tail[:8]):
            raise self._damage("the length does not match its checksum", self._hint(tail))
        if length > self._max:
            fix = f"pass max_record_bytes={length} to read it" if length <= _LARGEST else SALVAGE
            raise self._damage(f"its length is {length} bytes, and the maximum is {self._max}", fix)
        size = _HEADER + length + _FOOTER
        if len(tail) >= size:  # the scan stopped at it
            raise self._damage("the data does not match its checksum")
        return int(size)

    def _hint(self, tail: bytes) -> str:
        if self._records == 0 and tail[:2] == b"\x1f\x8b":
            return "it looks like a gzip file: pass compression='gzip'"
        if self._records == 0 and tail[0] & 15 == 8 and int.from_bytes(tail[:2]) % 31 == 0:
            return "it looks like a zlib file: pass compression='zlib'"
        return SALVAGE

    def _damage(self, what: str, fix: str = SALVAGE) -> DamagedFile:
        return DamagedFile(self._file, self._offset, self._records, what, fix)


def _split(data: bytes, maximum: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint32]]:
    """Return the starts and ends of the records that lie whole in `data` if its lengths are true, and their CRCs."""
    starts: list[int] = []
    crcs: list[int] = []
    add_start, add_crc, length_at, crc = starts.append, crcs.append, _LENGTH.unpack_from, crc32c
    position, size = 0, len(data) - PADDING
    while position <= size:  # beyond the end, the padding says a length of 0, and the record does not fit
        (length,) = length_at(data, position)
        start = position + _HEADER
        following = start + length + _FOOTER
        if following > size or length > maximum:
            break
        add_start(start)
        add_crc(crc(data[start : start + length]))
        position = following
    first = np.array([*starts, position + _HEADER], np.int64)
    return first[:-1], first[1:] - (_HEADER + _FOOTER), masked(np.array(crcs, np.uint32))


def _intact(data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64], crcs: NDArray[np.uint32]) -> int:
    """Return how many of the records have correct checksums before the first that has not."""
    words = np.ndarray((len(data) - 3,), "<u4", data, strides=(1,))
    correct = (words[starts - 4] == length_crcs(ends - starts)) & (words[ends] == crcs)
    return len(starts) if correct.all() else int(correct.argmin())


def framed(records: pa.Array) -> bytes:
    """Return the bytes of a TFRecord file with an array of large binaries without nulls."""
    if not len(records):
        return b""
    _, offset_buffer, data = records.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[records.offset : records.offset + len(records) + 1]
    octets = b"" if data is None else data.slice(int(offsets[0]), int(offsets[-1] - offsets[0])).to_pybytes()
    bounds = (offsets - offsets[0]).tolist()
    bodies = [crc32c(octets[start:end]) for start, end in itertools.pairwise(bounds)]
    lengths = np.diff(offsets)
    headers = np.empty(len(records), np.dtype([("length", "<u8"), ("crc", "<u4")]))
    headers["length"], headers["crc"] = lengths, length_crcs(lengths)
    footers = masked(np.array(bodies, np.uint32)).astype("<u4")
    joined = pc.binary_join_element_wise(
        _fixed(headers, 12), records, _fixed(footers, 4), pa.scalar(b"", pa.large_binary())
    )
    _, offset_buffer, data = joined.buffers()
    whole = np.frombuffer(offset_buffer, np.int64)[joined.offset : joined.offset + len(joined) + 1]
    result: bytes = data.slice(int(whole[0]), int(whole[-1] - whole[0])).to_pybytes()
    return result


def _fixed(values: "np.ndarray[tuple[int], np.dtype[np.generic]]", size: int) -> pa.Array:
    offsets = np.arange(0, size * len(values) + 1, size)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values.tobytes())]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(values), buffers)

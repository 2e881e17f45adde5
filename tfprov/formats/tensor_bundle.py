"""Verifies a checkpoint without TensorFlow: every block of its index, and the checksum of every tensor.

TensorFlow keeps a masked CRC-32C of each block of `PREFIX.index` and of the data of each tensor. Data are read in pieces:
a tensor may be larger than the memory. Standard library only; the caller brings the CRC.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import BinaryIO

from tfprov.formats.bundle_entry import STRING, VARIANT, Entry, Header, parse_entry, parse_header, readable, slice_key
from tfprov.formats.sstable import CheckpointError, Extend, entries
from tfprov.formats.tfrecord import mask_crc

_PIECE = 1 << 20
_HEADER_KEY = b""


def verify(prefix: Path, extend: Extend) -> int:
    """Read the checkpoint `prefix`; return its number of tensors, a partitioned one counted once.

    Raises CheckpointError, with the file and the tensor, for the first damage, and OSError for a file that is missing.
    """
    index = prefix.with_name(f"{prefix.name}.index")
    try:
        with index.open("rb") as stream:
            header, tensors = _index(stream, extend)
        _check_slices(tensors)
    except ValueError as error:
        raise CheckpointError(f"{index.name}: {error}") from None
    with ExitStack() as files:
        shards: dict[int, BinaryIO] = {}
        for key, entry in sorted(tensors.items(), key=lambda item: (item[1].shard, item[1].offset)):
            if entry.slices:
                continue
            name = f"{prefix.name}.data-{entry.shard:05d}-of-{header.shards:05d}"
            if entry.shard not in shards:
                shards[entry.shard] = files.enter_context(prefix.with_name(name).open("rb"))
            try:
                _Tensor(shards[entry.shard], entry, header, extend).verify()
            except CheckpointError as error:
                raise CheckpointError(f"{name}: tensor {readable(key)}: {error}") from None
    return sum(not key.startswith(b"\0") for key in tensors)


def _index(stream: BinaryIO, extend: Extend) -> tuple[Header, Mapping[bytes, Entry]]:
    """Return the header and the entries of an index by their keys."""
    header, tensors = None, {}
    for key, value in entries(stream, extend):
        if key == _HEADER_KEY:
            header = parse_header(value)
            continue
        try:
            tensors[key] = entry = parse_entry(value)
        except ValueError as error:
            raise CheckpointError(f"tensor {readable(key)}: {error}") from None
        if header is not None and entry.shard >= header.shards:
            raise CheckpointError(f"tensor {readable(key)}: its data are in file {entry.shard} of {header.shards}")
    if header is None:
        raise CheckpointError("the header is missing")
    return header, tensors


def _check_slices(tensors: Mapping[bytes, Entry]) -> None:
    """Raise CheckpointError unless the slices of every partitioned tensor are there and are as large as the tensor."""
    for name, entry in tensors.items():
        elements = 0
        for part in entry.slices:
            stored = tensors.get(slice_key(name, part))
            if (
                stored is None
                or stored.slices
                or (stored.dtype, stored.shape) != (entry.dtype, part.shape(entry.shape))
            ):
                raise CheckpointError(f"tensor {readable(name)}: a slice is missing, or of another type or shape")
            elements += stored.elements
        if entry.slices and elements < entry.elements:
            raise CheckpointError(f"tensor {readable(name)}: its slices have {elements} of {entry.elements} elements")


class _Tensor:
    """The data of one tensor, read once from front to back."""

    def __init__(self, stream: BinaryIO, entry: Entry, header: Header, extend: Extend) -> None:
        self.stream, self.entry, self.header, self.extend = stream, entry, header, extend
        self.left, self.crc = entry.size, 0

    def verify(self) -> None:
        """Raise CheckpointError if the data are cut short, of another size, or do not match their checksum."""
        entry = self.entry
        present = self.stream.seek(0, os.SEEK_END)
        if entry.offset + entry.size > present:
            raise CheckpointError(f"its data end at byte {entry.offset + entry.size}, and the file at {present}")
        if entry.expected_size not in (None, entry.size):
            raise CheckpointError(f"it has {entry.size} bytes, and its type and shape {entry.expected_size}")
        self.stream.seek(entry.offset)
        if entry.size and entry.dtype == STRING:
            self.read_strings()
        elif entry.size and entry.dtype == VARIANT:
            self.read_variants()
        elif entry.elements and not entry.size:
            raise CheckpointError("its data are missing")
        else:
            self.checked(self.left)
        if self.left:
            raise CheckpointError(f"{self.left} bytes follow its last element")
        if mask_crc(self.crc) != entry.crc:
            raise CheckpointError("its data do not match their checksum")

    def read_strings(self) -> None:
        """Read the lengths of all strings, the masked CRC of the lengths, and the strings.

        The CRC is of the lengths as numbers of 4 bytes, 8 from 4 GiB on, not as they are stored.
        """
        total = 0
        for length in self.varints(self.entry.elements):
            total += length
            self.crc = self.extend(self.crc, self.number(length, wide=length > 0xFFFFFFFF))
        stored = self.raw(4)
        if stored != self.number(mask_crc(self.crc)):
            raise CheckpointError("the lengths of its strings do not match their checksum")
        self.crc = self.extend(self.crc, stored)
        self.checked(total)

    def read_variants(self) -> None:
        """Read each element: its length, which the CRC has as 8 bytes, its bytes, and the masked CRC so far."""
        for _ in range(self.entry.elements):
            length = next(self.varints(1))
            self.crc = self.extend(self.crc, self.number(length, wide=True))
            self.checked(length)
            stored = self.raw(4)
            if stored != self.number(mask_crc(self.crc)):
                raise CheckpointError("an element does not match its checksum")
            self.crc = self.extend(self.crc, stored)

    def number(self, value: int, *, wide: bool = False) -> bytes:
        """Return a number as the machine that wrote the checkpoint had it in memory."""
        return value.to_bytes(8 if wide else 4, "big" if self.header.is_big_endian else "little")

    def checked(self, size: int) -> None:
        """Read `size` bytes into the CRC."""
        if size > self.left:
            raise CheckpointError(f"an element has {size} bytes where {self.left} are left")
        end = self.left - size
        while self.left > end:
            self.crc = self.extend(self.crc, self.raw(min(_PIECE, self.left - end)))

    def raw(self, size: int) -> bytes:
        """Read `size` bytes."""
        data = self.stream.read(size) if size <= self.left else b""
        if len(data) < size:
            raise CheckpointError("its data are cut short")
        self.left -= size
        return data

    def varints(self, count: int) -> Iterator[int]:
        """Yield `count` integers of 7 bits a byte; the stream buffers what is read byte by byte."""
        byte = partial(self.raw, 1)
        for _ in range(count):
            value = 0
            for shift in range(0, 70, 7):
                (part,) = byte()
                value |= (part & 127) << shift
                if part < 128:
                    break
            else:
                raise CheckpointError("the length of an element has no end")
            yield value & 0xFFFFFFFFFFFFFFFF

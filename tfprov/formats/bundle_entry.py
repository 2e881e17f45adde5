"""What an index says: BundleHeaderProto and BundleEntryProto of tensor_bundle.proto, and the keys of slices."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tfprov.formats import protobuf
from tfprov.formats.sstable import CheckpointError

STRING, VARIANT = 7, 21
_SIZES = (
    {1: 4, 2: 8, 3: 4, 4: 1, 5: 2, 6: 1, 8: 8, 9: 8, 10: 1, 11: 1, 12: 1, 13: 4, 14: 2, 15: 2, 16: 2, 17: 2, 18: 16}
    | {19: 2, 22: 4, 23: 8}
    | dict.fromkeys(range(24, 33), 1)  # numbers of 8 bits and fewer take a byte each
)
"""The size of one element of each DataType of types.proto, in bytes; strings, resources and variants have none."""
_VERSION = 1
"""The version of the format that TensorFlow has written since 1.0."""
_FULL = -1
"""The length, in a key, of a slice that has the whole of a dimension."""


@dataclass(frozen=True)
class Header:
    """The number of data files, and whether the machine that wrote them has the highest byte of a number first."""

    shards: int
    is_big_endian: bool


@dataclass(frozen=True)
class Slice:
    """A part of a tensor: its start and length in each dimension; the length is -1 for the whole dimension."""

    extents: tuple[tuple[int, int], ...]

    def shape(self, whole: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of this part of a tensor. Raises CheckpointError if it is not within the tensor."""
        if len(whole) != len(self.extents):
            raise CheckpointError("a slice has another number of dimensions")
        shape = tuple(dim if length == _FULL else length for dim, (_, length) in zip(whole, self.extents, strict=True))
        for dim, part, (start, _) in zip(whole, shape, self.extents, strict=True):
            if start < 0 or part < 0 or start + part > dim:
                raise CheckpointError("a slice reaches beyond the tensor")
        return shape


@dataclass(frozen=True)
class Entry:
    """A tensor: its data are `size` bytes at `offset` of a data file, or, with `slices`, those of other entries."""

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    crc: int
    slices: tuple[Slice, ...]

    @property
    def elements(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def expected_size(self) -> int | None:
        """The size of the data in bytes; None if it does not follow from type and shape."""
        return self.elements * _SIZES[self.dtype] if self.dtype in _SIZES else None


def parse_header(data: bytes) -> Header:
    """Parse a BundleHeaderProto. Raises ValueError."""
    fields = _fields(data)
    shards, order = _number(fields, 1), _number(fields, 2)
    needs = _number(_fields(_bytes(fields, 3)), 2)
    if needs > _VERSION:
        raise CheckpointError(f"the checkpoint has version {needs} of the format, and {_VERSION} is the last one known")
    if not 0 < shards < 100_000 or order not in (0, 1):
        raise CheckpointError(f"the header names {shards} data files and byte order {order}")
    return Header(shards, is_big_endian=bool(order))


def parse_entry(data: bytes) -> Entry:
    """Parse a BundleEntryProto. Raises ValueError."""
    fields = _fields(data)
    shape_fields = _fields(_bytes(fields, 2))
    shape = tuple(_number(_fields(_message(dim)), 1) for dim in shape_fields.get(2, ()))
    shard, offset, size = (_number(fields, number) for number in (3, 4, 5))
    if min(shard, offset, size, *shape) < 0 or _number(shape_fields, 3):
        raise CheckpointError("a dimension, the shard, the offset or the size is negative or unknown")
    slices = tuple(_slice(_message(one)) for one in fields.get(7, ()))
    return Entry(_number(fields, 1), shape, shard, offset, size, _number(fields, 6), slices)


def slice_key(name: bytes, part: Slice) -> bytes:
    """Return the key of the entry of a slice, as TensorFlow encodes it (saved_tensor_slice_util.h, ordered_code.h)."""
    escaped = b"".join({0: b"\0\xff", 255: b"\xff\0"}.get(byte, bytes((byte,))) for byte in name)
    numbers = b"".join(_ordered(number) for extent in part.extents for number in extent)
    dimensions = len(part.extents)
    count = dimensions.to_bytes((dimensions.bit_length() + 7) // 8, "big")
    return b"\0" + escaped + b"\0\1" + bytes((len(count),)) + count + numbers


def readable(key: bytes) -> str:
    """Return the name of a key's tensor, for people; a key of a slice begins with a zero byte."""
    if key.startswith(b"\0"):
        key = key[1:].partition(b"\0\1")[0].replace(b"\0\xff", b"\0").replace(b"\xff\0", b"\xff") + b" (a slice)"
    name = key.decode("utf-8", "backslashreplace")
    return name if name.isprintable() else ascii(name)


def _ordered(number: int) -> bytes:
    """Return a signed number so that bytes sort as the numbers do: its length in leading ones, then the number."""
    length = (~number if number < 0 else number).bit_length() // 7 + 1
    ones = (1 << 8 * length) - (1 << 7 * length)
    return ((number & (1 << 8 * length) - 1) ^ ones).to_bytes(length, "big")


def _slice(data: bytes) -> Slice:
    extents = [_fields(_message(extent)) for extent in _fields(data).get(1, ())]
    return Slice(tuple((_number(extent, 1), _number(extent, 2) if 2 in extent else _FULL) for extent in extents))


def _fields(data: bytes) -> Mapping[int, Sequence[int | bytes]]:
    """Return the values of a protobuf message by the numbers of the fields."""
    values: dict[int, list[int | bytes]] = defaultdict(list)
    for key, number, content in protobuf.fields(data):
        values[key >> 3].append(content if key & 7 else number)
    return values


def _number(fields: Mapping[int, Sequence[int | bytes]], number: int) -> int:
    """Return an integer field, signed if it is of 64 bits, as the last value has it; 0 if it is not there."""
    value = fields.get(number, (0,))[-1]
    if isinstance(value, bytes):
        if len(value) != 4:
            raise CheckpointError("an entry of the index has a field of another type")
        return int.from_bytes(value, "little")
    return protobuf.signed(value)


def _bytes(fields: Mapping[int, Sequence[int | bytes]], number: int) -> bytes:
    return _message(fields.get(number, (b"",))[-1])


def _message(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise CheckpointError("an entry of the index has a field of another type")
    return value

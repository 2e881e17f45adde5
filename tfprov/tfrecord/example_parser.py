"""One tf.train.Example or SequenceExample at a time, by protobuf's rules: the path for records that are not regular.

Fields may come in any order and repeatedly, lists packed or not, and unknown fields are skipped. A map entry that is
repeated replaces the one before it, and messages that are repeated inside one are merged, as protobuf does it.
"""

import struct
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from tfprov.tfrecord.wire import varints


class Kind(IntEnum):
    """The list that a Feature has, by its field number; UNSET has none, like a Feature that is missing."""

    UNSET = 0
    BYTES = 1
    FLOAT = 2
    INT = 3


@dataclass(frozen=True)
class Feature:
    """The values of a Feature."""

    kind: Kind
    values: list[bytes] | list[float] | list[int]


Features = dict[bytes, Feature]
FeatureLists = dict[bytes, list[Feature]]

_VARINT, _FIXED64, _SIZED, _GROUP, _GROUP_END, _FIXED32 = range(6)
_MASK = (1 << 64) - 1
_FEW = 16
"""Bytes of packed numbers that are faster read one by one."""


def parse_example(data: bytes, wanted: Collection[bytes] | None = None) -> Features:
    """Return the features of an Example, or those that are `wanted`; raises ValueError for malformed messages."""
    return _features((value for number, value in _sized_fields(data) if number == 1), wanted)


def parse_sequence_example(data: bytes, wanted: Collection[bytes] | None = None) -> tuple[Features, FeatureLists]:
    """Return the context and the feature lists of a SequenceExample, or those that are `wanted`."""
    fields = list(_sized_fields(data))
    context = _features((value for number, value in fields if number == 1), wanted)
    lists: FeatureLists = {}
    for message in (value for number, value in fields if number == 2):
        for key, value in _entries(message):
            features = [_feature(each) for number, each in _sized_fields(value) if number == 1]
            if wanted is None or key in wanted:
                lists[key] = features
    return context, lists


def _features(messages: Iterator[bytes], wanted: Collection[bytes] | None) -> Features:
    return {
        key: _feature(value)
        for message in messages
        for key, value in _entries(message)
        if wanted is None or key in wanted
    }


def _entries(message: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a map; a value that is repeated in its entry is merged, by concatenation."""
    for number, entry in _sized_fields(message):
        if number == 1:
            key, values = b"", list[bytes]()
            for field, content in _sized_fields(entry):
                if field == 1:
                    key = content
                elif field == 2:
                    values.append(content)
            yield key, b"".join(values)


def _feature(message: bytes) -> Feature:
    """Return a Feature: of several kinds the last one, and repeated lists of one kind merged."""
    kind, parts = Kind.UNSET, list[bytes]()
    for number, content in _sized_fields(message):
        if number in (Kind.BYTES, Kind.FLOAT, Kind.INT):
            if number != kind:
                kind, parts = Kind(number), []
            parts.append(content)
    if kind == Kind.UNSET:
        return Feature(kind, [])
    return Feature(kind, _READERS[kind](b"".join(parts)))


def _bytes_list(data: bytes) -> list[bytes]:
    return [value for number, value in _sized_fields(data) if number == 1]


def _float_list(data: bytes) -> list[float]:
    values: list[float] = []
    for number, wire, start, end in _fields(data):
        if number != 1:
            continue
        if wire == _SIZED:
            if (end - start) % 4:
                raise ValueError("a list of floats does not end with a whole one")
            values.extend(struct.unpack_from(f"<{(end - start) // 4}f", data, start))
        elif wire == _FIXED32:
            values.append(struct.unpack_from("<f", data, start)[0])
    return values


def _int_list(data: bytes) -> list[int]:
    values: list[int] = []
    for number, wire, start, end in _fields(data):
        if number != 1:
            continue
        if wire == _SIZED and end - start > _FEW:
            values.extend(varints(np.frombuffer(data, np.uint8, end - start, start))[0].tolist())
        elif wire == _SIZED:
            position = start
            while position < end:
                value, position = _varint(data, position, end)
                values.append(_signed(value))
        elif wire == _VARINT:
            values.append(_signed(_varint(data, start, end)[0]))
    return values


_READERS: dict[Kind, Callable[[bytes], list[bytes] | list[float] | list[int]]] = {
    Kind.BYTES: _bytes_list,
    Kind.FLOAT: _float_list,
    Kind.INT: _int_list,
}


def _sized_fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the number and content of the fields that have a length: all that these messages know."""
    for number, wire, start, end in _fields(data):
        if wire == _SIZED:
            yield number, data[start:end]


def _fields(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield number, wire type, start and end of the content of each field."""
    position, size = 0, len(data)
    while position < size:
        tag = data[position]
        if tag & 7 == _SIZED and 8 <= tag < 128 and position + 1 < size and data[position + 1] < 128:
            start = position + 2  # nearly every field: one byte of tag, and one of length
            position = start + data[start - 1]
            if position > size:
                raise ValueError("a field is longer than its message")
            yield tag >> 3, _SIZED, start, position
            continue
        tag, position = _varint(data, position, size)
        number, wire = tag >> 3, tag & 7
        start, position = _skip(data, position, size, wire)
        if not 0 < number < 1 << 29:
            raise ValueError("a field has an invalid number")
        yield number, wire, start, position


def _skip(data: bytes, position: int, size: int, wire: int) -> tuple[int, int]:
    """Return where the content of a field begins and ends."""
    start = position
    if wire == _VARINT:
        end = _varint(data, position, size)[1]
    elif wire == _SIZED:
        length, start = _varint(data, position, size)
        end = start + length
    elif wire in (_FIXED64, _FIXED32):
        end = position + (8 if wire == _FIXED64 else 4)
    elif wire == _GROUP:
        end = _end_of_group(data, position, size)
    else:
        raise ValueError(f"a field has the invalid wire type {wire}")
    if end > size:
        raise ValueError("a field is longer than its message")
    return start, end


def _end_of_group(data: bytes, position: int, size: int) -> int:
    """Return the position behind the group that began before `position`: an unknown field of old writers."""
    depth = 1
    while depth:
        tag, position = _varint(data, position, size)
        if tag & 7 in (_GROUP, _GROUP_END):
            depth += 1 if tag & 7 == _GROUP else -1
        else:
            position = _skip(data, position, size, tag & 7)[1]
    return position


def _varint(data: bytes, position: int, size: int) -> tuple[int, int]:
    value = shift = 0
    while position < size and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _MASK, position
        shift += 7
    raise ValueError("a number is cut off" if position >= size else "a number has more than 10 bytes")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value

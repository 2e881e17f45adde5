"""Event files as TensorFlow writes them."""

import struct
from collections.abc import Mapping


def varint(number: int) -> bytes:
    if 0 <= number < 128:
        return bytes((number,))
    number &= (1 << 64) - 1
    groups = [number >> shift & 127 for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes([*(group | 128 for group in groups[:-1]), groups[-1]])


def sized(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def event(wall_time: float, step: int, values: Mapping[str, float | bytes] | None = None, rest: bytes = b"") -> bytes:
    """An Event with a Summary (none, if values is None) of simple values, or of tensors as bytes."""
    message = b"\x09" + struct.pack("<d", wall_time) + (b"\x10" + varint(step) if step else b"") + rest
    if values is None:
        return message
    parts = [
        sized(1, sized(1, tag.encode()) + (sized(8, value) if isinstance(value, bytes) else simple(value)))
        for tag, value in values.items()
    ]
    return message + sized(5, b"".join(parts))


def simple(value: float) -> bytes:
    return b"\x15" + struct.pack("<f", value)

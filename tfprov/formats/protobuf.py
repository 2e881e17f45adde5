"""The wire format of protobuf messages: fields and numbers. Standard library only, because tasks use it too.

A field starts with a key: its number, and in the low three bits how its value is written: 0 as a varint, 1 in eight bytes,
2 as bytes after their length, 5 in four bytes.
"""

from collections.abc import Iterator


def fields(message: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield (key, number, content) of each field: a varint has a number, other fields have content.

    Raises ValueError for a message that ends inside a field, and for groups, which TensorFlow's messages never have.
    """
    at, end = 0, len(message)
    while at < end:
        key, at = varint(message, at)
        number, size = 0, 0
        match key & 7:
            case 0:
                number, at = varint(message, at)
            case 1:
                size = 8
            case 2:
                size, at = varint(message, at)
            case 5:
                size = 4
            case _:
                raise ValueError(f"unknown wire type {key & 7}")
        if at + size > end:
            raise ValueError("the message ends inside a field")
        yield key, number, message[at : at + size]
        at += size


def varint(message: bytes, at: int) -> tuple[int, int]:
    """Return the number at `at`, 7 bits a byte and the lowest first, and the offset behind it. Raises ValueError."""
    value = 0
    if at < len(message) and message[at] < 128:  # as most numbers have it, and all keys of small numbers
        return message[at], at + 1
    for shift, byte in enumerate(message[at : at + 10]):
        value |= (byte & 127) << 7 * shift
        if byte < 128:
            return value, at + shift + 1
    raise ValueError("the message ends inside a number")


def signed(number: int) -> int:
    """Return the int64 of a varint: two's complement of 64 bits."""
    number &= (1 << 64) - 1
    return number - (1 << 64) if number >> 63 else number

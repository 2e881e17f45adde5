"""Masked CRC-32C of lengths and bodies, many at a time."""

from collections.abc import Callable, Sequence
from functools import cache

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from tfprov.formats.tfrecord import mask_crc

_DELTA = 0xA282EAD8
crc32c: Callable[[bytes], int] = google_crc32c.value


def masked(crcs: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Mask CRCs as TensorFlow does: rotate right by 15 bits and add a constant."""
    return (crcs >> np.uint32(15) | crcs << np.uint32(17)) + np.uint32(_DELTA)


@cache
def _length_tables() -> tuple[int, Sequence[NDArray[np.uint32]]]:
    """Return the CRC of eight zeros, and what each value of each of the four lower bytes changes of it.

    A CRC is linear: the CRC of a length is the XOR of these.
    """
    zeros = crc32c(bytes(8))
    tables = [
        np.array([crc32c(bytes(place) + bytes((byte,)) + bytes(7 - place)) ^ zeros for byte in range(256)], np.uint32)
        for place in range(4)
    ]
    return zeros, tables


def length_crcs(lengths: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return the masked CRCs of lengths below 4 GiB as 8 bytes each."""
    zeros, tables = _length_tables()
    crcs = np.full(len(lengths), zeros, np.uint32)
    for place, table in enumerate(tables):
        crcs ^= table[lengths >> 8 * place & 255]
    return masked(crcs)


def length_crc(header: bytes) -> int:
    """Return the masked CRC of the 8 bytes of one length."""
    return mask_crc(crc32c(header))

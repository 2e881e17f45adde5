"""Record files in memory: frames, and the messages of tf.train.Example written field by field."""

import struct
from collections.abc import Iterable, Mapping

from tests.support.event_files import sized, varint
from tfprov.formats.tfrecord import masked_crc


def frame(data: bytes) -> bytes:
    """A record with both checksums, by the standard library."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc(length)) + data + struct.pack("<I", masked_crc(data))


def ints(*values: int) -> bytes:
    return sized(3, sized(1, b"".join(map(varint, values))) if values else b"")


def floats(*values: float) -> bytes:
    return sized(2, sized(1, struct.pack(f"<{len(values)}f", *values)) if values else b"")


def texts(*values: bytes) -> bytes:
    return sized(1, b"".join(sized(1, value) for value in values))


def entry(key: str, feature: bytes) -> bytes:
    return sized(1, sized(1, key.encode()) + sized(2, feature))


def example(features: Mapping[str, bytes]) -> bytes:
    return sized(1, b"".join(entry(key, feature) for key, feature in features.items()))


def sequence(context: Mapping[str, bytes], lists: Mapping[str, Iterable[bytes]]) -> bytes:
    """A SequenceExample; each feature list is the Features in it."""
    entries = (entry(key, b"".join(sized(1, feature) for feature in features)) for key, features in lists.items())
    return example(context) + sized(2, b"".join(entries))

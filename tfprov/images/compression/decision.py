"""Decides whether the layers for a host are compressed. Pure."""

from typing import Literal

Mode = Literal["auto", "always", "never"]

MIN_MISSING = 16 * 1024 * 1024
"""Bytes that a host must lack for its link to be measured, which takes some 0.3 s."""
MIN_LAYER = 256 * 1024
"""Bytes of the smallest layer that is compressed: others are not worth the requests for another manifest."""
MAX_RATIO = 0.9
"""A layer whose compressed form is larger than this share stays as it is: an engine unpacks it faster."""

COMPRESSING = 90e6
"""Bytes a second that one core compresses, of an image with Python and TensorFlow, beside the SSH connection."""
RATIO = 0.4
"""The compressed share of such an image."""
UNPACKING, INFLATING = 100e6, 80e6
"""Bytes a second that an engine unpacks of a layer, plain or compressed."""
FASTEST = 25e6
"""Bytes a second of the fastest link for which layers are compressed: beyond, the engine's own work is a third of the time,
and what a busy controller measures may be its own load."""


def worth_compressing(rate: float, cores: int, size: int, to_compress: int) -> bool:
    """Whether layers of `size` bytes arrive earlier compressed, over a link of `rate` bytes a second.

    `to_compress` of the bytes have no compressed form yet. The saved time must be twice what compressing and unpacking
    take: the controller has other work, and an engine may be slower than assumed.
    """
    if rate >= FASTEST or size <= 0:
        return False
    saved = (1 - RATIO) * size / max(rate, 1.0)
    spent = to_compress / (max(1, cores) * COMPRESSING) + size / INFLATING - size / UNPACKING
    return saved > 2 * spent

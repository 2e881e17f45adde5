"""Decides which layers of an image an engine uploads, and which come from the layout. No effects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfprov.images.oci_spec import Descriptor, OciImage, compression

_UPLOAD_COST = 5
"""How much longer an engine takes to upload a byte than to save it: engine 20.10 uploads 35 MB/s, and saves 180 MB/s."""
_UPLOAD_START = 16 * 1024 * 1024
"""Bytes that an engine saves while an upload starts: 0.1 s for its questions, and for the layers that are refused."""


@dataclass(frozen=True)
class MissingLayers:
    """The layers that an engine uploads: from the lowest that the layout lacks to the uppermost.

    An engine uploads the uppermost layers first, and ends with the first one that is refused, so the layout's own layers
    between missing ones are uploaded, too. `uploaded` and `lower` are diff ids, the lowest first; `size` is what the
    files in `uploaded` occupy, in bytes, as the engine counts them.
    """

    uploaded: tuple[str, ...]
    lower: tuple[str, ...]
    size: int


def stored_layers(images: Mapping[str, OciImage]) -> dict[str, Descriptor]:
    """Return the layers of a layout's images by diff id: where there are two, the uncompressed one."""
    stored: dict[str, Descriptor] = {}
    for image in images.values():
        for diff_id, layer in zip(image.diff_ids, image.layers, strict=True):
            if diff_id not in stored or not compression(layer):
                stored[diff_id] = layer
    return stored


def missing_layers(
    diff_ids: Sequence[str], history: Sequence[Mapping[str, Any]], stored: Mapping[str, Descriptor]
) -> MissingLayers | None:
    """Return what to upload of an image with `diff_ids`; None where `docker save` is faster.

    `history` is the engine's, the oldest step first; its sizes are in bytes, 0 for a step without a layer.
    """
    lowest = next((number for number, diff_id in enumerate(diff_ids) if diff_id not in stored), len(diff_ids))
    lower = tuple(diff_ids[:lowest])
    if not lower or any(compression(stored[diff_id]) == "zstd" for diff_id in lower):
        return None
    uploaded = tuple(dict.fromkeys(diff_id for diff_id in diff_ids[lowest:] if diff_id not in lower))
    sizes = [int(step.get("Size") or 0) for step in history]
    size = upper_size(sizes, len(diff_ids) - lowest)
    is_faster = _UPLOAD_START + size * _UPLOAD_COST < sum(sizes)
    return MissingLayers(uploaded, lower, size) if is_faster or not uploaded else None


_MOST = 256 * 1024 * 1024
"""Bytes of a layer beyond four times its files: a file of a few bytes takes 1 kB of a layer."""


def upload_limit(size: int) -> int:
    """Return after how many bytes a layer is refused, of an image whose files occupy `size` bytes."""
    return 4 * size + _MOST


def upper_size(sizes: Sequence[int], layers: int) -> int:
    """Return an upper bound of the size of the uppermost `layers`: a layer without bytes looks like a step without one."""
    filled = [size for size in sizes if size]
    return sum(filled[max(0, len(filled) - layers) :]) if layers else 0

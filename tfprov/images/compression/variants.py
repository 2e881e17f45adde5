"""The compressed forms of layers, kept in the layout: made once, for all hosts and later runs.

`compressed/DIGEST` names the compressed form of the layer DIGEST, a blob like others; it is written when the blob is
complete. A file without a name in it is for a layer that does not shrink.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from tfprov.atomic_write import private_directory, replace_shared
from tfprov.errors import DeliveryError
from tfprov.images.blobs import Blobs, disk_errors
from tfprov.images.compression.decision import MIN_LAYER
from tfprov.images.oci_spec import Descriptor, compression, encode, parse


class _Record(BaseModel):
    variant: Descriptor | None


@dataclass(frozen=True)
class Variants:
    """The compressed forms in the layout at `directory`, whose blobs are `blobs`."""

    directory: Path
    blobs: Blobs

    def named(self, layer: Descriptor) -> Descriptor | None:
        """Return the compressed form of `layer`, stored or not; None without one. A damaged record counts as none."""
        record = self._read(layer)
        return record.variant if record else None

    def find(self, layer: Descriptor) -> Descriptor | None:
        """Return the compressed form of `layer`; None when it is not stored in full."""
        variant = self.named(layer)
        return variant if variant and self.blobs.has(variant) else None

    def may_shrink(self, layer: Descriptor) -> bool:
        """Whether `layer` is plain, large enough, and not known to keep its size."""
        if compression(layer) or layer.size < MIN_LAYER:
            return False
        record = self._read(layer)
        return record is None or record.variant is not None

    def record(self, layer: Descriptor, variant: Descriptor | None) -> None:
        """Record the compressed form of `layer`; None for a layer that does not shrink."""
        path = self._path(layer)
        entry = {"mediaType": variant.media_type, "digest": variant.digest, "size": variant.size} if variant else None
        with disk_errors(path):
            private_directory(path.parent)
            replace_shared(path, encode({"variant": entry}))

    def prune(self, needed: Collection[str]) -> set[str]:
        """Forget the compressed forms of layers that are not `needed`; return the digests of those that stay."""
        folder = self.directory / "compressed"
        with disk_errors(folder):
            paths = list(folder.iterdir()) if folder.is_dir() else []
            kept = [path for path in paths if f"sha256:{path.name}" in needed]
            for path in set(paths).difference(kept):
                path.unlink(missing_ok=True)
        records = [_parse(path) for path in kept]
        return {record.variant.digest for record in records if record and record.variant}

    def _path(self, layer: Descriptor) -> Path:
        return self.directory / "compressed" / layer.digest.removeprefix("sha256:")

    def _read(self, layer: Descriptor) -> _Record | None:
        return _parse(self._path(layer))


def _parse(path: Path) -> _Record | None:
    try:
        return parse(_Record, path.read_bytes())
    except (OSError, DeliveryError):
        return None

"""The controller's images: a directory in the OCI image layout, shared by all runs of a user.

`index.json` names the images. It is replaced as a whole, under a lock; a second lock keeps `prune` away while images are
stored or sent. Both are flocks, so a killed process leaves nothing to unlock.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tfprov.atomic_write import replace
from tfprov.errors import DeliveryError, HostError, Locked, TfprovError, Unreachable
from tfprov.images.blobs import Blobs, disk_errors
from tfprov.images.compression.engine_digests import EngineDigests
from tfprov.images.compression.variants import Variants
from tfprov.images.oci_spec import OCI_INDEX, Descriptor, Index, OciImage, OciManifest, encode, parse

_NAME = "org.opencontainers.image.ref.name"


class Layout:
    """The layout at `directory`, created when it is missing. Every method raises DeliveryError on disk errors."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.blobs = Blobs(directory)
        self.variants = Variants(directory, self.blobs)
        self.engines = directory / "engines"
        self._index = directory / "index.json"
        with self._lock_index():
            if not self._index.exists():
                replace(directory / "oci-layout", encode({"imageLayoutVersion": "1.0.0"}), mode=0o600)
                self._write_index({})

    def find(self, name: str) -> OciImage | None:
        """Return the image of that name and mark it as used; None when it or a part of it is missing."""
        manifest = self._read_index().get(name)
        image = self._complete(manifest) if manifest else None
        if image:
            self.mark_used(image)
        return image

    def images(self) -> dict[str, OciImage]:
        """Return every complete image, by name."""
        images = {name: self._complete(manifest) for name, manifest in sorted(self._read_index().items())}
        return {name: image for name, image in images.items() if image}

    def image(self, manifest: Descriptor) -> OciImage:
        """Read the image of a stored manifest; DeliveryError when it is missing or no image."""
        document = self.blobs.read(manifest)
        return OciImage.read(manifest, document, self.blobs.read(parse(OciManifest, document).config))

    def name(self, name: str, image: OciImage) -> None:
        """Give `image` the name `name`, moving it from another image. An image without a name is pruned."""
        with self.in_use(), self._lock_index():
            self._write_index(self._read_index() | {name: image.manifest})
        self.mark_used(image)

    def mark_used(self, image: OciImage) -> None:
        """Record the use of `image`, as the mtime of its manifest."""
        with suppress(OSError):
            os.utime(self.blobs.path(image.manifest.digest))

    def verify(self, image: OciImage) -> bool:
        """Whether all blobs of `image` have the content of their digests; damaged blobs are removed."""
        damaged = [blob for blob in image.blobs if not self.blobs.verify(blob)]
        return not damaged

    def explain(self, image: OciImage, error: HostError) -> TfprovError:
        """Return why an engine takes an image in no way: `error`, or damage here, which is removed."""
        if isinstance(error, Unreachable) or "no space" in str(error) or self.verify(image):
            return error
        what = f"{error.host} refuses an image whose layers were damaged on this machine; they are removed"
        return DeliveryError(what, "run this again: they are made anew")

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Lock out `prune` during the block: for code that stores or sends images."""
        with _flock(self.directory / "in-use.lock", fcntl.LOCK_SH):
            yield

    def prune(self, keep: int) -> int:
        """Keep the `keep` names used last, remove the other names and unneeded blobs; return the bytes freed.

        Locked while a run stores or sends images.
        """
        try:
            with _flock(self.directory / "in-use.lock", fcntl.LOCK_EX | fcntl.LOCK_NB), self._lock_index():
                named = self._read_index()
                remaining = dict(sorted(named.items(), key=lambda item: self._last_used(item[1]), reverse=True)[:keep])
                if remaining != named:
                    self._write_index(remaining)
                needed = {blob.digest for manifest in remaining.values() for blob in self._parts(manifest)}
                compressed = self.variants.prune(needed)
                EngineDigests(self.engines).prune(compressed)
                return self._sweep(needed | compressed)
        except BlockingIOError:
            raise Locked(f"{self.directory} is in use by another run", "prune when it is done") from None

    def _sweep(self, needed: set[str]) -> int:
        paths = {self.blobs.path(digest) for digest in needed}
        unused = [path for path in self.blobs.directory.iterdir() if path not in paths]
        unused += self.blobs.incoming.iterdir()
        with disk_errors(self.directory):
            freed = sum(path.stat().st_size for path in unused)
            for path in unused:
                path.unlink()
        return freed

    def _last_used(self, manifest: Descriptor) -> float:
        try:
            return self.blobs.path(manifest.digest).stat().st_mtime
        except OSError:
            return 0.0

    def _parts(self, manifest: Descriptor) -> tuple[Descriptor, ...]:
        try:
            return self.image(manifest).blobs
        except DeliveryError:  # a damaged image cannot be used
            return ()

    def _complete(self, manifest: Descriptor) -> OciImage | None:
        try:
            image = self.image(manifest)
        except DeliveryError:
            return None
        return image if all(map(self.blobs.has, image.blobs)) else None

    def _read_index(self) -> dict[str, Descriptor]:
        with disk_errors(self._index):
            data = self._index.read_bytes()
        try:
            manifests = parse(Index, data).manifests
        except DeliveryError:
            fix = f"remove {self.directory}: images are made again when they are needed"
            raise DeliveryError(f"{self._index} is damaged", fix) from None
        return {name: entry.blob for entry in manifests if (name := (entry.annotations or {}).get(_NAME))}

    def _write_index(self, named: dict[str, Descriptor]) -> None:
        entries = [
            {"mediaType": it.media_type, "digest": it.digest, "size": it.size, "annotations": {_NAME: name}}
            for name, it in sorted(named.items())
        ]
        with disk_errors(self._index):
            replace(self._index, encode({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": entries}), mode=0o600)

    @contextmanager
    def _lock_index(self) -> Iterator[None]:
        with _flock(self.directory / "index.lock", fcntl.LOCK_EX):
            yield


@contextmanager
def _flock(path: Path, operation: int) -> Iterator[None]:
    with disk_errors(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, operation)
        yield
    finally:
        os.close(descriptor)

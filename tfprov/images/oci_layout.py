"""The controller's images: a directory in OCI's image layout, shared by all runs of a user.

`index.json` names the images. It is replaced as a whole, under a lock; a second lock keeps `prune` away while images are
brought in or handed out. Both are the kernel's, so a killed process leaves nothing to unlock.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tfprov.atomic_write import replace
from tfprov.errors import DeliveryError, Locked
from tfprov.images.blobs import Blobs, stored
from tfprov.images.oci_spec import OCI_INDEX, Descriptor, Image, Index, Manifest, encode, parse

_NAME = "org.opencontainers.image.ref.name"


class Layout:
    """The layout at `directory`, made when it is missing. Every method raises DeliveryError when the disk fails it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.blobs = Blobs(directory)
        self._index = directory / "index.json"
        with self._naming():
            if not self._index.exists():
                replace(directory / "oci-layout", encode({"imageLayoutVersion": "1.0.0"}), mode=0o600)
                self._write({})

    def find(self, name: str) -> Image | None:
        """Return the image of that name; None when there is none, or a part of it is missing. It counts as used now."""
        manifest = self._named().get(name)
        image = self._whole(manifest) if manifest else None
        if image:
            self.use(image)
        return image

    def images(self) -> dict[str, Image]:
        """Return every image that is whole, by name."""
        images = {name: self._whole(manifest) for name, manifest in sorted(self._named().items())}
        return {name: image for name, image in images.items() if image}

    def image(self, manifest: Descriptor) -> Image:
        """Read the image of a stored manifest; DeliveryError when it is not there, or no image."""
        document = self.blobs.read(manifest)
        return Image.read(manifest, document, self.blobs.read(parse(Manifest, document).config))

    def name(self, name: str, image: Image) -> None:
        """Let `name` mean `image` from now on. An image without a name is pruned."""
        with self.in_use(), self._naming():
            self._write(self._named() | {name: image.manifest})
        self.use(image)

    def use(self, image: Image) -> None:
        """Note that `image` is needed: its manifest's time of change says so."""
        with suppress(OSError):
            os.utime(self.blobs.path(image.manifest.digest))

    def sound(self, image: Image) -> bool:
        """Read all of `image` to see whether it is still what was stored; parts that are not are removed."""
        damaged = [blob for blob in image.blobs if not self.blobs.sound(blob)]
        return not damaged

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep every blob where it is for the time of the block: who brings images in or hands them out holds this."""
        with _locked(self.directory / "in-use.lock", fcntl.LOCK_SH):
            yield

    def prune(self, keep: int) -> int:
        """Forget all names but the `keep` used last, and remove what no name needs; return the bytes this freed.

        Locked while a run brings images in or hands them out.
        """
        try:
            with _locked(self.directory / "in-use.lock", fcntl.LOCK_EX | fcntl.LOCK_NB), self._naming():
                named = self._named()
                kept = dict(sorted(named.items(), key=lambda item: self._used(item[1]), reverse=True)[:keep])
                if kept != named:
                    self._write(kept)
                return self._sweep({blob.digest for manifest in kept.values() for blob in self._parts(manifest)})
        except BlockingIOError:
            raise Locked(f"{self.directory} is in use by another run", "prune when it is done") from None

    def _sweep(self, needed: set[str]) -> int:
        paths = {self.blobs.path(digest) for digest in needed}
        gone = [path for path in self.blobs.directory.iterdir() if path not in paths]
        gone += self.blobs.incoming.iterdir()
        with stored(self.directory):
            freed = sum(path.stat().st_size for path in gone)
            for path in gone:
                path.unlink()
        return freed

    def _used(self, manifest: Descriptor) -> float:
        try:
            return self.blobs.path(manifest.digest).stat().st_mtime
        except OSError:
            return 0.0

    def _parts(self, manifest: Descriptor) -> tuple[Descriptor, ...]:
        try:
            return self.image(manifest).blobs
        except DeliveryError:  # a damaged image is of no use to anybody
            return ()

    def _whole(self, manifest: Descriptor) -> Image | None:
        try:
            image = self.image(manifest)
        except DeliveryError:
            return None
        return image if all(map(self.blobs.has, image.blobs)) else None

    def _named(self) -> dict[str, Descriptor]:
        with stored(self._index):
            data = self._index.read_bytes()
        try:
            manifests = parse(Index, data).manifests
        except DeliveryError:
            fix = f"remove {self.directory}: images are made again when they are needed"
            raise DeliveryError(f"{self._index} is damaged", fix) from None
        return {name: entry.blob for entry in manifests if (name := (entry.annotations or {}).get(_NAME))}

    def _write(self, named: dict[str, Descriptor]) -> None:
        entries = [
            {"mediaType": it.media_type, "digest": it.digest, "size": it.size, "annotations": {_NAME: name}}
            for name, it in sorted(named.items())
        ]
        with stored(self._index):
            replace(self._index, encode({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": entries}), mode=0o600)

    @contextmanager
    def _naming(self) -> Iterator[None]:
        with _locked(self.directory / "index.lock", fcntl.LOCK_EX):
            yield


@contextmanager
def _locked(path: Path, how: int) -> Iterator[None]:
    with stored(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)

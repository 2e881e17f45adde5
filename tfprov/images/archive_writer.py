"""An image as the archive that `docker load` reads, made while it is sent: nothing of it is written down or held.

It is an OCI layout and what `docker save` writes at once, so every engine finds what it knows. Layers may be left out: an
engine that has them does not look for them in the archive.
"""

import tarfile
from collections.abc import Collection, Iterator
from typing import Any

from tfprov.errors import DeliveryError
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import OCI_INDEX, Descriptor, Image, encode

PIECE = 128 * 1024
"""Bytes handed out at a time."""


def saved(layout: Layout, image: Image, reference: str | None, layers: Collection[Descriptor]) -> Iterator[bytes]:
    """Yield the archive of `image` with `layers` only, the lowest first, and with the name `reference`, if there is one.

    The layout must be held `in_use` meanwhile. DeliveryError when a blob is not whole on the disk.
    """
    paths = [_path(layer) for layer in image.layers]
    names = [reference] if reference else None
    manifest = encode([{"Config": _path(image.config), "RepoTags": names, "Layers": paths}])
    yield from _document("oci-layout", encode({"imageLayoutVersion": "1.0.0"}))
    yield from _document("index.json", _index(image, reference))
    yield from _document("manifest.json", manifest)
    for blob in {it.digest: it for it in (image.config, image.manifest, *layers)}.values():
        yield _header(_path(blob), blob.size)
        yield from _content(layout, blob)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _index(image: Image, reference: str | None) -> bytes:
    manifest = image.manifest
    entry: dict[str, Any] = {"mediaType": manifest.media_type, "digest": manifest.digest, "size": manifest.size}
    if reference:  # containerd wants it in full
        full, tag = f"docker.io/{reference}", reference.rpartition(":")[2]
        entry["annotations"] = {"io.containerd.image.name": full, "org.opencontainers.image.ref.name": tag}
    return encode({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [entry]})


def _document(name: str, data: bytes) -> Iterator[bytes]:
    yield _header(name, len(data))
    yield data + _padding(len(data))


def _content(layout: Layout, blob: Descriptor) -> Iterator[bytes]:
    rest = blob.size
    with layout.blobs.open(blob) as file:
        while rest:
            data = file.read(min(PIECE, rest))
            if not data:
                raise DeliveryError(f"{file.name} is damaged", "remove it: images are made again when they are needed")
            rest -= len(data)
            yield data
    if padding := _padding(blob.size):
        yield padding


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf(tarfile.PAX_FORMAT)


def _padding(size: int) -> bytes:
    return bytes(-size % tarfile.BLOCKSIZE)


def _path(blob: Descriptor) -> str:
    return f"blobs/{blob.digest.replace(':', '/')}"

"""Build image archives and layouts in the formats of docker save and OCI."""

import gzip
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from tfprov.images.archive import load
from tfprov.images.code import Code
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import (
    OCI_CONFIG,
    OCI_INDEX,
    OCI_LAYER,
    OCI_MANIFEST,
    Descriptor,
    OciImage,
    describe,
    digest_of,
    encode,
)

Entry = bytes | tarfile.TarInfo


def tar(entries: Mapping[str, Entry] | Sequence[tuple[str, Entry]]) -> bytes:
    """Return a tar of files, by name, and of complete headers."""
    pairs = entries.items() if isinstance(entries, Mapping) else entries
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, entry in pairs:
            info = entry if isinstance(entry, tarfile.TarInfo) else tarfile.TarInfo(name)
            data = entry if isinstance(entry, bytes) else b""
            info.name, info.size = name, len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def link(target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo()
    info.type, info.linkname = kind, target
    return info


LAYERS = (tar({"bin/sh": b"a shell"}), tar({"etc/motd": b"hello"}), tar({"bin/python": b"snake" * 3000}))


@lru_cache(maxsize=16)
def _digest_of(layer: bytes) -> str:
    """Return the digest of a layer, which many images have."""
    return digest_of(layer)


def config(layers: Sequence[bytes], **settings: Any) -> bytes:
    return encode(
        {
            "architecture": "amd64",
            "os": "linux",
            "created": "2024-05-01T00:00:00Z",
            "config": {"Env": ["PATH=/bin"], "Labels": None, "WorkingDir": "", **settings},
            "rootfs": {"type": "layers", "diff_ids": [_digest_of(layer) for layer in layers]},
            "history": [{"created_by": f"step {number}"} for number, _ in enumerate(layers)],
        }
    )


def save_entries(*images: tuple[str | None, Sequence[bytes]], **settings: Any) -> dict[str, Entry]:
    """Return the files that `docker save` of engine 20.10 writes; a repeated layer is a link."""
    files: dict[str, Entry] = {}
    written: dict[bytes, str] = {}
    entries = []
    for name, layers in images:
        document = config(layers, **settings)
        paths = []
        for layer in layers:
            folder = f"{len(files):064x}"
            paths.append(f"{folder}/layer.tar")
            files[f"{folder}/VERSION"] = b"1.0"
            files[paths[-1]] = link(f"../{written[layer]}") if layer in written else layer
            written.setdefault(layer, paths[-1])
        path = f"{digest_of(document).removeprefix('sha256:')}.json"
        files[path] = document
        entries.append({"Config": path, "RepoTags": [name] if name else None, "Layers": paths})
    return files | {"manifest.json": encode(entries), "repositories": b"{}"}


def blob_path(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


class OciArchive:
    """Builds an OCI layout."""

    def __init__(self) -> None:
        self.files: dict[str, Entry] = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}
        self.index: list[dict[str, Any]] = []

    def blob(self, media_type: str, data: bytes) -> Descriptor:
        descriptor = describe(media_type, data)
        self.files[blob_path(descriptor.digest)] = data
        return descriptor

    def image(self, layers: Sequence[bytes], suffix: str = "", stored: Sequence[bytes] = ()) -> Descriptor:
        """Add an image; `stored` are its compressed layers, `suffix` ends their media type."""
        parts = [self.blob(OCI_LAYER + suffix, data) for data in stored or layers]
        settings = self.blob(OCI_CONFIG, config(layers))
        document = {
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": entry(settings),
            "layers": list(map(entry, parts)),
        }
        return self.blob(OCI_MANIFEST, encode(document))

    def name(self, manifest: Descriptor, **annotations: str) -> None:
        self.index.append(
            entry(manifest) | {"annotations": {key.replace("_", "."): it for key, it in annotations.items()}}
        )

    def tar(self) -> bytes:
        index = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": self.index}
        return tar(self.files | {"index.json": encode(index)})


def entry(blob: Descriptor) -> dict[str, Any]:
    return {"mediaType": blob.media_type, "digest": blob.digest, "size": blob.size}


def oci_archive(layers: Sequence[bytes] = LAYERS, *, compressed: bool = False) -> bytes:
    """Return an OCI archive of one image."""
    archive = OciArchive()
    stored = [gzip.compress(layer, mtime=0) for layer in layers]
    archive.name(archive.image(layers, "+gzip", stored) if compressed else archive.image(layers))
    return archive.tar()


def load_image(layout: Layout, name: str = "base", layers: Sequence[bytes] = LAYERS, **settings: Any) -> OciImage:
    """Load an image into the layout."""
    return load(layout, io.BytesIO(tar(save_entries((f"{name}:1", layers), **settings))), name)


def code(**files: bytes) -> Code:
    """Return packed code with these files."""
    archive = tar({name.replace("__", "/"): data for name, data in sorted(files.items())})
    return Code("programs", digest_of(archive), archive)


def contents(layout: Layout) -> dict[str, bytes]:
    """Return the blobs of the layout, stored and incoming, by file name."""
    folders = (layout.blobs.directory, layout.blobs.incoming)
    return {path.name: path.read_bytes() for folder in folders for path in folder.iterdir()}


def settings(layout: Layout, image: OciImage) -> dict[str, Any]:
    """Return the configuration of an image."""
    document: dict[str, Any] = json.loads(layout.blobs.read(image.config))
    return document


def layer_files(layout: Layout, image: OciImage, number: int = -1) -> dict[str, tarfile.TarInfo]:
    """Return the tar entries of a layer, by name."""
    with layout.blobs.open(image.layers[number]) as file, tarfile.open(fileobj=file) as archive:
        return {member.name: member for member in archive}


def new_layout(directory: Path) -> Layout:
    return Layout(directory / "images")

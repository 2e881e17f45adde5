"""An image from an archive: what `docker save`, `podman save`, `skopeo copy … oci-archive:` and buildx write.

The archive is read once, and every digest in it is checked, those of the uncompressed layers too (but for zstd, which the
engine checks). Layers stay as they are: plain where Docker's own storage wrote them, compressed where containerd did.
"""

import tarfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import IO, Any

from pydantic import BaseModel, Field, RootModel

from tfprov.errors import DeliveryError, printable
from tfprov.images.archive_reader import ArchiveMember, ArchiveMembers
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import (
    DOCKER_CONFIG,
    INDEXES,
    MANIFESTS,
    OCI_INDEX,
    Descriptor,
    Index,
    IndexEntry,
    OciImage,
    OciManifest,
    compression,
    encode,
    layer_type,
    write_manifest,
)

_NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
_ATTESTATION = "unknown/unknown"


def load(  # noqa: PLR0913
    layout: Layout,
    stream: IO[bytes],
    name: str,
    *,
    wanted: str | None = None,
    platform: str = "linux/amd64",
    where: str = "the archive",
) -> OciImage:
    """Bring the image in `stream` into `layout` under `name`, and return it.

    `wanted` is the name or the id of one of several images in the archive; `platform` chooses among the variants of one
    image, and an image for another platform is taken when it is the only one. `where` names the archive in messages.
    DeliveryError when the archive is incomplete or the choice is ambiguous; `name` keeps its previous image then.
    """
    members = ArchiveMembers()
    with layout.in_use():
        try:
            members.take(layout.blobs, stream)
            image = _store(layout, _choose(list(_read_images(members, platform)), wanted))
        except DeliveryError as error:
            raise DeliveryError(f"{where}: {error}") from None
        finally:
            members.drop()
        layout.name(name, image)
    return image


@dataclass(frozen=True)
class _ArchivedImage:
    """An image in the archive: its manifest, from the archive or written by us, and its files."""

    names: tuple[str, ...]
    manifest: Descriptor
    document: bytes
    config: ArchiveMember
    layers: tuple[ArchiveMember, ...]

    @property
    def id(self) -> str:
        return self.config.blob.digest

    def __str__(self) -> str:
        return ", ".join(map(printable, self.names)) or self.id


class _SavedImage(BaseModel):
    """An entry of the `manifest.json` of `docker save`; its paths are relative to the archive."""

    config: str = Field(alias="Config")
    layers: tuple[str, ...] = Field(alias="Layers")
    tags: tuple[str, ...] | None = Field(None, alias="RepoTags")


class _SavedImages(RootModel[tuple[_SavedImage, ...]]):
    pass


def _read_images(members: ArchiveMembers, platform: str) -> Iterator[_ArchivedImage]:
    # Newer engines write both. The OCI layout has more: the manifest, and with it the image's digest.
    if "index.json" in members:
        return _oci_images(members, platform)
    if "manifest.json" in members:
        return _docker_images(members)
    fix = "make it with `docker save` (a file system from `docker export` has no command, no environment and no user)"
    raise DeliveryError("not an image archive: it has neither index.json nor manifest.json", fix)


def _docker_images(members: ArchiveMembers) -> Iterator[_ArchivedImage]:
    for entry in members.parse(_SavedImages, "manifest.json").root:
        config = members[entry.config]
        layers = tuple(members[name] for name in entry.layers)
        typed = tuple(layer.blob.describe(layer_type(layer.compression)) for layer in layers)
        manifest, document = write_manifest(config.blob.describe(DOCKER_CONFIG), typed)
        yield _ArchivedImage(tuple(map(_short_name, entry.tags or ())), manifest, document, config, layers)


def _oci_images(members: ArchiveMembers, platform: str) -> Iterator[_ArchivedImage]:
    names: dict[str, list[str]] = {}
    manifests: dict[str, Descriptor] = {}
    for entry in filter(is_image, members.parse(Index, "index.json").manifests):
        manifest = _for_platform(members, entry, platform) if entry.media_type in INDEXES else entry
        manifests[manifest.digest] = manifest.blob
        annotations = entry.annotations or {}
        names.setdefault(manifest.digest, []).extend(
            _short_name(annotations[key]) for key in _NAMES if key in annotations
        )
    for digest, blob in manifests.items():
        yield _oci_image(members, blob, tuple(dict.fromkeys(names[digest])))


def _for_platform(members: ArchiveMembers, index: IndexEntry, platform: str) -> IndexEntry:
    """Choose among the variants of an image; an index may list variants that the archive does not contain."""
    variants = [it for it in members.parse(Index, _path(index)).manifests if _path(it) in members and is_image(it)]
    matches = [it for it in variants if str(it.platform) == platform] or variants
    if len(matches) == 1:
        return matches[0]
    available = ", ".join(sorted(printable(it.platform) for it in variants)) or "none"
    raise DeliveryError(f"no image for {platform}; it has: {available}")


def is_image(entry: IndexEntry) -> bool:
    """Whether an entry of an index is an image, or an index of images, and no attestation."""
    return entry.media_type in MANIFESTS | INDEXES and str(entry.platform) != _ATTESTATION


def _oci_image(members: ArchiveMembers, manifest: Descriptor, names: tuple[str, ...]) -> _ArchivedImage:
    parts = members.parse(OciManifest, _path(manifest))
    layers = tuple(members[_path(layer)] for layer in parts.layers)
    return _ArchivedImage(names, manifest, members[_path(manifest)].blob.read(), members[_path(parts.config)], layers)


def _path(blob: Descriptor) -> str:
    return f"blobs/{blob.digest.replace(':', '/')}"


def _short_name(name: str) -> str:
    """Return a name as `docker images` shows it, with its tag."""
    short = name.removeprefix("docker.io/").removeprefix("library/")
    return short if ":" in short.rpartition("/")[2] else f"{short}:latest"


def _choose(candidates: list[_ArchivedImage], wanted: str | None) -> _ArchivedImage:
    matches = [it for it in candidates if wanted is None or wanted == it.id or _short_name(wanted) in it.names]
    if len({it.id for it in matches}) == 1:
        return matches[0]
    available = "; ".join(map(str, candidates)) or "none"
    if wanted is None and candidates:
        raise DeliveryError(f"it holds {len(candidates)} images: {available}", "name one of them")
    raise DeliveryError(f"no image {printable(wanted)}; it has: {available}" if wanted else "it holds no image")


def _store(layout: Layout, archived: _ArchivedImage) -> OciImage:
    """Verify the sizes and digests of all parts, then keep them, the manifest last."""
    image = OciImage.read(archived.manifest, archived.document, archived.config.blob.read())
    if (archived.config.blob.size, len(archived.document)) != (image.config.size, image.manifest.size):
        raise DeliveryError(f"image {image.id} is damaged: its manifest has wrong sizes")
    for layer, blob, diff_id in zip(archived.layers, image.layers, image.diff_ids, strict=True):
        verify_layer(layer, blob, diff_id)
    for layer, blob in zip(archived.layers, image.layers, strict=True):
        layer.blob.keep(blob.media_type)
    archived.config.blob.keep(image.config.media_type)
    layout.blobs.write(archived.document, image.manifest.media_type)
    return image


def verify_layer(layer: ArchiveMember, blob: Descriptor, diff_id: str) -> None:
    """Raise DeliveryError unless `layer` is what its descriptor `blob` and its `diff_id` say."""
    # The engine verifies zstd layers; Python reads zstd only from 3.14 on.
    is_intact = compression(blob) == layer.compression and (layer.compression == "zstd" or layer.diff_id == diff_id)
    if not is_intact or layer.blob.size != blob.size:
        raise DeliveryError(f"layer {diff_id} is damaged: its content has another digest")


CHUNK = 128 * 1024
"""Size of a yielded chunk."""


def stream_archive(
    layout: Layout, image: OciImage, reference: str | None, layers: Collection[Descriptor]
) -> Iterator[bytes]:
    """Yield the archive of `image` with `layers` only, the lowest first, and with the name `reference`, if there is one.

    The caller holds the layout `in_use`. DeliveryError when a blob on the disk is incomplete.
    """
    paths = [_path(layer) for layer in image.layers]
    names = [reference] if reference else None
    manifest = encode([{"Config": _path(image.config), "RepoTags": names, "Layers": paths}])
    yield from _document("oci-layout", encode({"imageLayoutVersion": "1.0.0"}))
    yield from _document("index.json", _index(image, reference))
    yield from _document("manifest.json", manifest)
    for blob in {it.digest: it for it in (image.config, image.manifest, *layers)}.values():
        yield _header(_path(blob), blob.size)
        yield from _blob_chunks(layout, blob)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _index(image: OciImage, reference: str | None) -> bytes:
    manifest = image.manifest
    entry: dict[str, Any] = {"mediaType": manifest.media_type, "digest": manifest.digest, "size": manifest.size}
    if reference:  # containerd needs the fully qualified name
        library = "" if "/" in reference else "library/"
        full, tag = f"docker.io/{library}{reference}", reference.rpartition(":")[2]
        entry["annotations"] = {"io.containerd.image.name": full, "org.opencontainers.image.ref.name": tag}
    return encode({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [entry]})


def _document(name: str, data: bytes) -> Iterator[bytes]:
    yield _header(name, len(data))
    yield data + _padding(len(data))


def _blob_chunks(layout: Layout, blob: Descriptor) -> Iterator[bytes]:
    remaining = blob.size
    with layout.blobs.open(blob) as file:
        while remaining:
            data = file.read(min(CHUNK, remaining))
            if not data:
                raise DeliveryError(f"{file.name} is damaged", "remove it: images are made again when they are needed")
            remaining -= len(data)
            yield data
    if padding := _padding(blob.size):
        yield padding


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf(tarfile.PAX_FORMAT)


def _padding(size: int) -> bytes:
    return bytes(-size % tarfile.BLOCKSIZE)

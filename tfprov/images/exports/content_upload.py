"""Lets an engine that stores images in containerd upload the parts of an image that the layout lacks.

Such an engine knows each part by its digest, asks for it first, and uploads it as it is stored. Layers that the layout has
in another form, plain or compressed in another way, are other parts.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tfprov.errors import DeliveryError, HostError, Unreachable
from tfprov.hosts.base import OnProgress
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.machine import Machine
from tfprov.images.archive import is_image, verify_layer
from tfprov.images.archive_reader import ArchiveMember
from tfprov.images.blobs import Blobs
from tfprov.images.engine_images import tag, untag
from tfprov.images.exports.layer_upload import DamagedUpload
from tfprov.images.exports.missing_layers import upload_limit, upper_size
from tfprov.images.exports.upload import EMPTY, WholeImageNeeded, push, step_sizes
from tfprov.images.exports.upload_registry import MAX_UPLOADS, Refused, UploadRegistry
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import INDEXES, Descriptor, Index, OciImage, OciManifest, digest_of, parse

_MAGIC = 4
"""The first bytes of a part, from which its compression is known."""


class PartUpload:
    """A part on its way into `blobs`, as the engine stores it; `limit` is the number of bytes after which it is refused."""

    def __init__(self, blobs: Blobs, limit: int) -> None:
        self.member = ArchiveMember(blobs.begin())
        self.received = 0
        self._limit, self._first = limit, b""

    def write(self, data: bytes) -> None:
        """Take the next bytes. Raises DamagedUpload."""
        self.received += len(data)
        if self.received > self._limit:
            raise DamagedUpload(f"more than {self._limit} bytes")
        data = self._first + data
        self._first = b"" if len(data) >= _MAGIC else data
        if not self._first:
            self.member.write(data)

    def finish(self) -> None:
        """Mark the end of the part."""
        self.member.write(self._first)

    @property
    def digest(self) -> str:
        """The digest of the bytes so far."""
        return self.member.blob.digest

    def drop(self) -> None:
        """Remove it, unless it was kept."""
        self.member.blob.drop()


class ContentRegistry(UploadRegistry[PartUpload]):
    """Receives the image with the digest `wanted`: its manifests and parts, without those of `known`, bytes by digest.

    `limit` is the number of bytes of a part, as it is stored.
    """

    def __init__(
        self, blobs: Blobs, wanted: str, known: Mapping[str, int], limit: int, on_received: Callable[[int], None]
    ) -> None:
        super().__init__(on_received)
        self.parts: dict[str, ArchiveMember] = {}
        self.manifests: dict[str, tuple[str, bytes]] = {}
        self._blobs, self._wanted, self._known, self._limit = blobs, wanted, known, limit

    @property
    def is_complete(self) -> bool:
        """The image's own manifest comes last."""
        return self._wanted in self.manifests

    def _new_upload(self) -> PartUpload:
        return PartUpload(self._blobs, self._limit)

    def _take(self, upload: PartUpload) -> None:
        self.parts.setdefault(upload.digest, upload.member)

    def size(self, digest: str) -> int | None:
        """Return how many bytes a part has that is there; None for one that is not."""
        size = self._known.get(digest)
        return super().size(digest) if size is None else size

    def put_manifest(self, name: str, media_type: str, document: bytes) -> str:
        """Take the manifest of the image, or of one of several that it has."""
        digest = digest_of(document)
        if ":" in name and name != digest:
            raise Refused(400, "DIGEST_INVALID", "the manifest has another digest")
        with self._lock:
            if self._closed or len(self.manifests) >= MAX_UPLOADS:
                raise Refused(403, "DENIED", "no more manifests")
            self.manifests[digest] = media_type, document
        return digest


def upload_content(
    machine: Machine, facts: Mapping[str, Any], layout: Layout, name: str, on_progress: OnProgress
) -> OciImage:
    """Store the image with the engine's `facts` in `layout` as `name`. Raises WholeImageNeeded."""
    diff_ids = (facts.get("RootFS") or {}).get("Layers") or ()
    received = 0

    def count(more: int) -> None:
        nonlocal received
        received += more
        on_progress(received, max(received, size))

    with layout.in_use():
        stored = layout.images().values()
        known_layers = {
            (layer.digest, diff_id): layer.size
            for image in stored
            for layer, diff_id in zip(image.layers, image.diff_ids, strict=True)
        }
        present = {diff_id for _, diff_id in known_layers}
        if present.isdisjoint(diff_ids):  # `docker save` sends as much
            raise WholeImageNeeded
        lowest = next((number for number, it in enumerate(diff_ids) if it not in present), len(diff_ids))
        size = upper_size(step_sizes(machine.engine, facts["Id"]), len(diff_ids) - lowest)
        known = {digest: length for (digest, _), length in known_layers.items()}
        known |= {image.config.digest: image.config.size for image in stored}
        limit = upload_limit(facts.get("Size") or 0)
        registry = ContentRegistry(layout.blobs, facts["Id"], known, limit, count)
        try:
            push(machine, facts["Id"], registry, _remove_name)
            image = _store(layout, registry, facts["Id"], known_layers)
        except DeliveryError as error:
            raise WholeImageNeeded(str(error)) from None
        finally:
            registry.close()
        layout.name(name, image)
    return image


def _remove_name(engine: Engine, name: str) -> None:
    """Remove a name of an image that stays: without its last name it would be removed, too.

    An image whose name goes to another one stays without a name, as a built image is.
    """
    repository = name.rpartition(":")[0]
    empty = f"{repository}:{EMPTY}"
    try:
        with engine.errors():
            engine.api.import_image_from_data(b"", repository=repository, tag=EMPTY)
        tag(engine, empty, name)
    except Unreachable:
        raise
    except HostError:  # the next export removes it
        return
    untag(engine, name)
    untag(engine, empty)


def _store(
    layout: Layout, registry: ContentRegistry, image_id: str, known_layers: Mapping[tuple[str, str], int]
) -> OciImage:
    """Verify the parts, then keep them, the manifest last."""
    manifest, document = _manifest(registry, image_id)
    config = parse(OciManifest, document).config
    received = registry.parts.get(config.digest)
    image = OciImage.read(manifest, document, received.blob.read() if received else layout.blobs.read(config))
    for layer, diff_id in zip(image.layers, image.diff_ids, strict=True):
        if member := registry.parts.get(layer.digest):
            verify_layer(member, layer, diff_id)
        elif known_layers.get((layer.digest, diff_id)) != layer.size:
            raise DeliveryError(f"layer {diff_id} is missing")
    for layer in image.layers:
        if member := registry.parts.get(layer.digest):
            member.blob.keep(layer.media_type)
    if received:
        received.blob.keep(config.media_type)
    layout.blobs.write(document, manifest.media_type)
    return image


def _manifest(registry: ContentRegistry, image_id: str) -> tuple[Descriptor, bytes]:
    """Return the manifest of the image for the engine's platform: BuildKit may put it into an index, with attestations."""
    media_type, document = registry.manifests[image_id]
    if media_type in INDEXES:
        images = [it for it in parse(Index, document).manifests if it.digest in registry.manifests and is_image(it)]
        try:
            (image,) = images
        except ValueError:
            raise DeliveryError(f"the engine uploaded {len(images)} images") from None
        media_type, document = registry.manifests[image.digest]
    return Descriptor(media_type=media_type, digest=digest_of(document), size=len(document)), document

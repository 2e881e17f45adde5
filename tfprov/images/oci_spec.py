"""The documents of an image: the OCI image specification 1.1 and Docker's manifest schema 2. No effects.

Fields that are used are validated strictly; documents are passed on unchanged, so that an image keeps its digest.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tfprov.errors import DeliveryError, one_line, printable

MAX_DOCUMENT = 4 * 1024 * 1024
"""Bytes of a manifest or a configuration; registries have the same limit."""

DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"
DOCKER_LAYER = "application/vnd.docker.image.rootfs.diff.tar"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
OCI_LAYER = "application/vnd.oci.image.layer.v1.tar"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"

MANIFESTS = frozenset({DOCKER_MANIFEST, OCI_MANIFEST})
INDEXES = frozenset({OCI_INDEX, "application/vnd.docker.distribution.manifest.list.v2+json"})
_LAYERS = {
    DOCKER_LAYER: "",
    OCI_LAYER: "",
    f"{DOCKER_LAYER}.gzip": "gzip",
    f"{OCI_LAYER}+gzip": "gzip",
    f"{DOCKER_LAYER}.zstd": "zstd",
    f"{OCI_LAYER}+zstd": "zstd",
}


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class Platform(_Document):
    """The platform of an image, with Go's names: `linux` and `amd64`."""

    os: str = ""
    architecture: str = ""

    def __str__(self) -> str:
        return f"{self.os}/{self.architecture}"


class Descriptor(_Document):
    """A reference to a blob: `digest` is `sha256:` and 64 hex digits, `size` is in bytes."""

    media_type: Annotated[str, Field(alias="mediaType")]
    digest: Annotated[str, Field(pattern="^sha256:[0-9a-f]{64}$")]
    size: Annotated[int, Field(ge=0)]


class IndexEntry(Descriptor):
    """A descriptor in an index, with a name in its annotations, or a platform."""

    annotations: dict[str, str] | None = None
    platform: Platform | None = None

    @property
    def blob(self) -> Descriptor:
        """The descriptor without annotations and platform."""
        return Descriptor(media_type=self.media_type, digest=self.digest, size=self.size)


class Index(_Document):
    """A list of manifests: of a layout's named images, or of one image for several platforms."""

    manifests: tuple[IndexEntry, ...]


class OciManifest(_Document):
    """A configuration and its layers, the lowest first."""

    config: Descriptor
    layers: tuple[Descriptor, ...]


class _RootFs(_Document):
    diff_ids: tuple[str, ...]


class _Settings(_Document):
    labels: Annotated[dict[str, str] | None, Field(alias="Labels")] = None


class _Step(_Document):
    created_by: str | None = None


class Config(Platform):
    """An image's configuration; its digest is the image's id."""

    rootfs: _RootFs
    config: _Settings | None = None
    history: tuple[_Step, ...] | None = None


@dataclass(frozen=True)
class OciImage:
    """An image for one platform. `config.digest` is its id in engines.

    `diff_ids` are the digests of the uncompressed layers, in the order of `layers`; `labels` are from its configuration.
    """

    manifest: Descriptor
    config: Descriptor
    layers: tuple[Descriptor, ...]
    diff_ids: tuple[str, ...]
    platform: str
    labels: dict[str, str]

    @classmethod
    def read(cls, manifest: Descriptor, document: bytes, config: bytes) -> Self:
        """Parse an image from its manifest and configuration; DeliveryError when it is no container image."""
        parts = parse(OciManifest, document)
        settings = parse(Config, config)
        if manifest.media_type not in MANIFESTS or any(layer.media_type not in _LAYERS for layer in parts.layers):
            kind = next((it.media_type for it in parts.layers if it.media_type not in _LAYERS), manifest.media_type)
            raise DeliveryError(f"not an image a container can run: it has a part of type {printable(kind)}")
        diff_ids = settings.rootfs.diff_ids
        if len(diff_ids) != len(parts.layers):
            raise DeliveryError(f"the image has {len(parts.layers)} layers, and {len(diff_ids)} in its configuration")
        labels = (settings.config.labels if settings.config else None) or {}
        platform = f"{settings.os}/{settings.architecture}"
        return cls(manifest, parts.config, parts.layers, diff_ids, platform, labels)

    @property
    def id(self) -> str:
        """The digest of the configuration."""
        return self.config.digest

    @property
    def blobs(self) -> tuple[Descriptor, ...]:
        """All blobs, the layers first."""
        return (*self.layers, self.config, self.manifest)

    @property
    def size(self) -> int:
        """Bytes of all blobs, each counted once: the delivery to a host that has none of them."""
        return sum(blob.size for blob in {blob.digest: blob for blob in self.blobs}.values())


def compression(layer: Descriptor) -> str:
    """Return `gzip`, `zstd`, or an empty text for an uncompressed layer."""
    return _LAYERS[layer.media_type]


def write_manifest(config: Descriptor, layers: tuple[Descriptor, ...]) -> tuple[Descriptor, bytes]:
    """Return a manifest: Docker's schema 2, which every engine pulls, or OCI's where a layer is compressed with zstd."""
    oci = any(compression(layer) == "zstd" for layer in layers)
    kind, settings = (OCI_MANIFEST, OCI_CONFIG) if oci else (DOCKER_MANIFEST, DOCKER_CONFIG)
    document = {
        "schemaVersion": 2,
        "mediaType": kind,
        "config": _entry(settings, config),
        "layers": [_entry(layer_type(compression(layer), oci=oci), layer) for layer in layers],
    }
    data = encode(document)
    return describe(kind, data), data


def layer_type(compressed: str, *, oci: bool = False) -> str:
    """Return the media type of a layer, Docker's or OCI's."""
    base, joint = (OCI_LAYER, "+") if oci else (DOCKER_LAYER, ".")
    return f"{base}{joint}{compressed}" if compressed else base


def _entry(media_type: str, blob: Descriptor) -> dict[str, str | int]:
    return {"mediaType": media_type, "size": blob.size, "digest": blob.digest}


def describe(media_type: str, data: bytes) -> Descriptor:
    """Return the descriptor of `data`."""
    return Descriptor(media_type=media_type, digest=digest_of(data), size=len(data))


def digest_of(data: bytes) -> str:
    """Return the sha256 digest of `data`, with its `sha256:` prefix."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def encode(document: Any) -> bytes:
    """Return canonical JSON, so that equal documents have equal digests."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


Parsed = TypeVar("Parsed", bound=BaseModel)


def parse(kind: type[Parsed], data: bytes, document: str = "an image's JSON") -> Parsed:
    """Validate JSON as `kind`; DeliveryError with the name `document` and the first fault."""
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        first, *_ = error.errors()
        path = ".".join(map(str, first["loc"]))
        at = f" at {printable(path)}" if path else ""
        raise DeliveryError(f"{document} is not valid{at}: {one_line(first['msg'])}") from None

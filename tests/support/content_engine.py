"""A Docker engine in memory that stores images in containerd, and pushes one over real HTTP with containerd's requests."""

import gzip
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import docker.errors

from tests.support.delivery_images import OciArchive, blob_path, entry
from tests.support.pushing_engine import Client
from tests.support.waiting import LONG
from tfprov.hosts.docker.engine_errors import engine_errors
from tfprov.hosts.machine import LocalMachine
from tfprov.images.oci_spec import INDEXES, OCI_INDEX, Descriptor, OciManifest, digest_of, encode, parse

EMPTY = "sha256:of an image without content"
AMD64 = {"os": "linux", "architecture": "amd64"}
NO_PLATFORM = {"os": "unknown", "architecture": "unknown"}
"""That of an attestation."""
_CLIENT_HELLO = b"\x16\x03\x01\x00\x05hello"


def push_content(client: Client, engine: "ContentEngine", name: str) -> Iterator[str]:
    """Push the parts that the registry lacks, then the manifests, the image's own one last."""
    assert client.ask("HEAD", f"/v2/{client.name}/manifests/{name}")[0] == 404
    for manifest in engine.manifests:
        document = engine.content(manifest)
        if manifest.media_type not in INDEXES:
            parts = parse(OciManifest, document)
            for part in (*parts.layers, parts.config):
                yield from upload_part(client, engine, part)
        reference = name if manifest.digest == engine.id else manifest.digest
        yield from put_manifest(client, reference, manifest, document)


def upload_part(client: Client, engine: "ContentEngine", part: Descriptor) -> Iterator[str]:
    """Upload a part, unless it is there."""
    status, headers = client.ask("HEAD", f"/v2/{client.name}/blobs/{part.digest}")
    if status == 200:
        assert headers["Content-Length"] == str(part.size)
        return
    engine.uploaded.append(part.digest)
    location = f"{client.begin()}?digest={part.digest.replace(':', '%3A')}"
    status, headers = client.ask("PUT", location, engine.content(part))
    if status == 201:
        assert headers["Docker-Content-Digest"] == part.digest, "containerd refuses an answer without it"
    else:
        client.connection.close()
        yield str(headers)


def put_manifest(client: Client, reference: str, manifest: Descriptor, document: bytes) -> Iterator[str]:
    path = f"/v2/{client.name}/manifests/{reference}"
    status, headers = client.ask("PUT", path, document, **{"Content-Type": manifest.media_type})
    if status == 201:
        assert headers["Docker-Content-Digest"] == manifest.digest
    else:
        yield str(headers)


Push = Callable[[Client, "ContentEngine", str], Iterator[str]]


class ContentEngine:
    """An engine on h1 with one image of `layers`, stored compressed; `archive` is what `docker save` writes of it.

    An image without a name stays until its last name is removed: a name that goes to another image leaves it there.
    """

    host = "h1"

    def __init__(self, layers: Sequence[bytes], push: Push = push_content, *, level: int = 6) -> None:
        self.archive = OciArchive()
        image = self.archive.image(layers, "+gzip", [gzip.compress(layer, level, mtime=0) for layer in layers])
        self.diff_ids = [digest_of(layer) for layer in layers]
        self.sizes = list(map(len, layers))
        self.manifests = [image]
        self.uploaded: list[str] = []
        self.pushed = self.saved = 0
        self.names: dict[str, str] = {}
        self.can_import = True
        self._push = push
        self.api: Any = SimpleNamespace(
            timeout=60, info=self._info, inspect_image=self._facts, images=self._list, tag=self._tag,
            remove_image=self._remove, import_image_from_data=self._import, push=self._push_image, get_image=self._save,
        )  # fmt: skip
        self.present = {self.id}

    @property
    def id(self) -> str:
        """The digest of the image's manifest, or of its index."""
        return self.manifests[-1].digest

    @property
    def machine(self) -> Any:
        """The machine with this engine, which shares the loopback with it."""
        made: Any = LocalMachine(self.host)
        made.engine = self
        return made

    def add_index(self, *others: Descriptor, platform: Mapping[str, str] = NO_PLATFORM) -> None:
        """Put the image into an index, with `others` of the archive, which are for `platform`."""
        image = self.manifests[0]
        entries = [
            entry(it) | {"platform": dict(of)} for it, of in [(image, AMD64), *((it, platform) for it in others)]
        ]
        index = encode({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": entries})
        self.manifests = [image, *others, self.archive.blob(OCI_INDEX, index)]
        self.present = {self.id}

    def content(self, blob: Descriptor) -> bytes:
        data = self.archive.files[blob_path(blob.digest)]
        assert isinstance(data, bytes)
        return data

    def errors(self) -> AbstractContextManager[None]:
        return engine_errors(self.host)

    def ask(self, path: str, newest: str = "") -> list[Any]:
        assert (path, newest) == (f"/images/{self.id.replace(':', '%3A')}/history", "")
        return [[{"Id": self.id, "CreatedBy": "RUN", "Size": size} for size in reversed(self.sizes)]]

    def _info(self) -> dict[str, Any]:
        return {"DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]]}

    def _facts(self, name: str) -> dict[str, Any]:
        assert name == self.id
        return {"Id": self.id, "RootFS": {"Type": "layers", "Layers": self.diff_ids}, "Size": sum(self.sizes)}

    def _list(self) -> list[Any]:
        return [{"Id": image, "RepoTags": [name]} for name, image in self.names.items()]

    def _tag(self, image: str, repository: str, name: str) -> None:
        self.names[f"{repository}:{name}"] = self.names.get(image, image)

    def _import(self, data: bytes, repository: str, tag: str) -> str:
        assert data == b""
        assert re.fullmatch(r"127\.0\.0\.1:\d+/tfprov/[0-9a-f]{32}", repository), "it is a name of ours"
        if not self.can_import:
            raise ConnectionResetError("reset by peer")
        self.names[f"{repository}:{tag}"] = EMPTY
        return ""

    def _remove(self, name: str, *, noprune: bool) -> None:
        assert noprune
        if name not in self.names:
            raise docker.errors.ImageNotFound(f"no such image: {name}")
        image = self.names.pop(name)
        if image not in self.names.values():
            self.present.discard(image)

    def _push_image(self, repository: str, name: str, *, auth_config: Mapping[str, str], **how: Any) -> Iterator[Any]:
        assert self.names[f"{repository}:{name}"] == self.id
        assert how == {"stream": True, "decode": True}
        self.pushed += 1
        address, _, path = repository.partition("/")
        port = int(address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), LONG) as connection:
            connection.sendall(_CLIENT_HELLO)
            assert connection.recv(5) == b"HTTP/", "it begins with TLS, and turns to HTTP after an answer in it"
        client = Client(port, path, auth_config)
        yield {"status": "Preparing"}
        for error in self._push(client, self, name):
            yield {"error": error}
        client.connection.close()

    def _save(self, image_id: str, chunk_size: int) -> Iterator[bytes]:
        assert image_id == self.id
        self.saved += 1
        self.archive.index = []
        self.archive.name(self.manifests[-1])
        data = self.archive.tar()
        return (data[start : start + chunk_size] for start in range(0, len(data), chunk_size))

"""An engine in memory that pulls over HTTP and knows layers as Docker does: by the digest of what it received."""

import gzip
import http.client
import io
import json
import tarfile
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any
from urllib.parse import unquote

from tfprov.errors import HostError
from tfprov.hosts.docker.engine_errors import engine_errors
from tfprov.hosts.machine import LocalMachine
from tfprov.images.oci_spec import digest_of


class MemoryEngine:
    """`images` are configurations by id, `known` the content's digest by the digest of each layer that was pulled.

    `asked` has the digests of all layers that were asked for, in order.
    """

    def __init__(self, engine_id: str = "engine") -> None:
        self.host, self.api = "h1", self
        self.engine_id = engine_id
        self.images_by_id: dict[str, dict[str, Any]] = {}
        self.tags: dict[str, str] = {}
        self.known: dict[str, str] = {}
        self.asked: list[str] = []

    def errors(self) -> AbstractContextManager[None]:
        return engine_errors(self.host)

    def info(self) -> dict[str, str]:
        return {"ID": self.engine_id, "OSType": "linux", "Architecture": "x86_64"}

    def images(self, *_: object, **__: object) -> list[dict[str, str]]:
        return [{"Id": image_id} for image_id in self.images_by_id]

    def inspect_image(self, name: str) -> dict[str, Any]:
        image_id = self.tags.get(name, name)
        if image_id not in self.images_by_id:
            raise HostError(self.host, f"no such image: {name}")
        return {"Id": image_id, "RootFS": {"Layers": self.images_by_id[image_id]["rootfs"]["diff_ids"]}}

    def ask_each(self, *paths: str) -> list[dict[str, Any]]:
        return [self.inspect_image(unquote(path.split("/")[2])) for path in paths]

    def tag(self, image_id: str, repository: str, tag: str) -> None:
        self.tags[f"{repository}:{tag}"] = image_id

    def remove_image(self, name: str, *, noprune: bool) -> None:
        self.tags.pop(name, None)

    def pull(self, repository: str, digest: str, auth_config: Mapping[str, str], **_: object) -> Iterator[Any]:
        """Pull as Docker does: each layer above the first that it does not know is asked for, also those that it has."""
        registry = _Client(repository, auth_config)
        manifest = json.loads(registry.get("manifests", digest))
        config_digest = manifest["config"]["digest"]
        config = json.loads(registry.get("blobs", config_digest))
        chains = {tuple(it["rootfs"]["diff_ids"][:n]) for it in self.images_by_id.values() for n in range(1, 128)}
        diff_ids = config["rootfs"]["diff_ids"]
        known = [self.known.get(layer["digest"]) for layer in manifest["layers"]]
        have = next(
            (n for n in range(len(known)) if known[n] is None or tuple(diff_ids[: n + 1]) not in chains), len(known)
        )
        received = {}
        for layer, diff_id in list(zip(manifest["layers"], diff_ids, strict=True))[have:]:
            self.asked.append(layer["digest"])
            data = registry.get("blobs", layer["digest"])
            content = _content(data)
            if (digest_of(data), digest_of(content)) != (layer["digest"], diff_id):
                return iter([{"error": f"filesystem layer verification failed for digest {layer['digest']}"}])
            received[layer["digest"]] = diff_id
        self.known |= received
        self.images_by_id[config_digest] = config
        return iter(())

    def load_image(self, archive: Iterable[bytes]) -> Iterator[Any]:
        """Read what `docker load` reads; layers that come as an archive are known by no digest."""
        files = io.BytesIO(b"".join(archive))
        with tarfile.open(fileobj=files, mode="r:") as entries:
            blobs = {name: file.read() for name in entries.getnames() if (file := entries.extractfile(name))}
        [image] = json.loads(blobs["manifest.json"])
        config = json.loads(blobs[image["Config"]])
        layers = {diff_id for it in self.images_by_id.values() for diff_id in it["rootfs"]["diff_ids"]}
        for path, diff_id in zip(image["Layers"], config["rootfs"]["diff_ids"], strict=True):
            if diff_id not in layers and digest_of(_content(blobs[path])) != diff_id:
                return iter([{"error": f"invalid diffID for layer {path}"}])
        self.images_by_id[digest_of(blobs[image["Config"]])] = config
        return iter(())


def _content(layer: bytes) -> bytes:
    """Return the content of a layer, compressed or not; nothing of a damaged one."""
    try:
        return gzip.decompress(layer) if layer.startswith(b"\x1f\x8b") else layer
    except (EOFError, OSError, zlib.error):
        return b""


class _Client:
    def __init__(self, repository: str, login: Mapping[str, str]) -> None:
        self._address, _, self._name = repository.partition("/")
        self._login = f"{login['username']}:{login['password']}"

    def get(self, kind: str, digest: str) -> bytes:
        connection = http.client.HTTPConnection(self._address, timeout=60)
        try:
            headers = {"Authorization": f"Basic {_encoded(self._login)}"}
            connection.request("GET", f"/v2/{self._name}/{kind}/{digest}", headers=headers)
            response = connection.getresponse()
            data = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise HostError("h1", data.decode())
        return data


def _encoded(login: str) -> str:
    return b64encode(login.encode()).decode()


class MemoryMachine(LocalMachine):
    """A machine with an engine in memory, behind a link of `rate` bytes a second, which `measured` counts."""

    def __init__(self, engine: MemoryEngine, rate: float | None = None) -> None:
        super().__init__("h1")
        self.engine = engine  # type: ignore[assignment]  # all of an engine that a push needs
        self.rate, self.measured = rate, 0

    def link_rate(self) -> float | None:  # type: ignore[override]
        self.measured += 1
        return self.rate

"""A Docker engine in memory that pushes an image over real HTTP, in the order and with the requests of engine 20.10."""

import gzip
import hashlib
import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from http.client import HTTPConnection
from types import SimpleNamespace
from typing import Any

from tests.support.delivery_images import tar
from tests.support.waiting import LONG
from tfprov.hosts.docker.engine_errors import engine_errors
from tfprov.hosts.machine import LocalMachine
from tfprov.images.oci_spec import digest_of

TIMES = [f"2026-11-25T13:47:5{number}.60128933Z" for number in range(10)]
Send = Callable[["Client", Sequence[bytes]], Iterator[str]]


class Client:
    """What an engine's push asks a registry, over one connection."""

    def __init__(self, port: int, name: str, login: Mapping[str, str]) -> None:
        self.connection = HTTPConnection("127.0.0.1", port, timeout=LONG)
        self.name = name
        words = f"{login['username']}:{login['password']}".encode()
        self.headers = {"Authorization": f"Basic {b64encode(words).decode()}"}

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Return the status and the code of the error, or else the headers."""
        self.connection.request(method, path, body, self.headers | headers, encode_chunked=not isinstance(body, bytes))
        response = self.connection.getresponse()
        data = response.read()
        has_failed = response.status >= 400 and data
        return response.status, json.loads(data)["errors"][0]["code"] if has_failed else dict(response.headers)

    def begin(self) -> str:
        """Begin an upload; return where it goes."""
        status, headers = self.ask("POST", f"/v2/{self.name}/blobs/uploads/")
        assert status == 202, headers
        return str(headers["Location"])

    def upload(self, layer: bytes) -> str:
        """Upload a layer; return the code of the error, or an empty text."""
        data = gzip.compress(layer, 1)
        location = self.begin()
        chunked = {"Transfer-Encoding": "chunked"}
        status, result = self.ask("PATCH", location, iter([data[:1000], data[1000:]]), **chunked)
        if status != 202:
            self.connection.close()
            return str(result)
        assert result["Range"] == f"0-{len(data) - 1}"
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        status, result = self.ask("PUT", f"{location}?digest={digest}")
        if status != 201:
            return str(result)
        status, result = self.ask("HEAD", f"/v2/{self.name}/blobs/{digest}")
        assert (status, result["Content-Length"]) == (200, str(len(data)))
        return ""


def push_layers(client: Client, layers: Sequence[bytes]) -> Iterator[str]:
    """Push the uppermost layer first, and end with the first error."""
    for layer in reversed(layers):
        if error := client.upload(layer):
            yield error
            return
    yield "the manifest was refused"


class PushingEngine:
    """An engine on h1 with one image of `layers`: each is a step, and a last step adds a label.

    A `later` one answers as Docker 28 does: what is left out of an image's facts is in those of an earlier API.
    """

    host = "h1"

    def __init__(
        self, layers: Sequence[bytes], label: str = "1", send: Send = push_layers, *, later: bool = False
    ) -> None:
        self.layers, self._send, self._later = list(layers), send, later
        self.pushed = self.saved = 0
        self.names: dict[str, str] = {}
        self.document = self._document(label)
        self.id = digest_of(self.document)
        self.api: Any = SimpleNamespace(
            timeout=60, inspect_image=self._facts, images=self._images, tag=self._tag, remove_image=self._remove,
            push=self._push, get_image=self._save, info=dict,
        )  # fmt: skip

    @property
    def machine(self) -> Any:
        """The machine with this engine, which shares the loopback with it."""
        made: Any = LocalMachine(self.host)
        made.engine = self
        return made

    def errors(self) -> AbstractContextManager[None]:
        return engine_errors(self.host)

    def ask(self, path: str, newest: str = "") -> list[Any]:
        image = f"/images/{self.id.replace(':', '%3A')}"
        if newest and path == f"{image}/json":
            last = json.loads(self.document)["config"]
            return [{**self._facts(self.id), "ContainerConfig": last}]
        assert path == f"{image}/history"
        steps = [
            {"Id": f"step{number}", "CreatedBy": f"RUN <{number}>", "Size": len(layer)}
            for number, layer in enumerate(self.layers)
        ]
        return [[{"Id": self.id, "CreatedBy": "LABEL", "Size": 0}, *reversed(steps)]]

    def ask_each(self, *paths: str) -> list[Any]:
        names = [path.split("/")[2] for path in paths]
        return [self._step(int(name.removeprefix("step"))) for name in names]

    def _step(self, number: int) -> dict[str, Any]:
        layers = [digest_of(layer) for layer in self.layers[: number + 1]]
        return {
            "Id": f"step{number}",
            "Created": TIMES[number],
            "RootFS": {"Layers": layers},
            "Comment": "",
            "Author": "",
        }

    def _facts(self, name: str) -> dict[str, Any]:
        assert name == self.id
        config = json.loads(self.document)
        return {
            "Id": self.id, "Parent": f"step{len(self.layers) - 1}", "Created": TIMES[9],
            "Architecture": "amd64", "Os": "linux", "DockerVersion": "20.10.24", **self._settings(config["config"]),
            "Size": sum(map(len, self.layers)),
            "RootFS": {"Type": "layers", "Layers": [digest_of(layer) for layer in self.layers]},
        }  # fmt: skip

    def _settings(self, config: dict[str, Any]) -> dict[str, Any]:
        if self._later:
            return {"Config": dict(sorted(config.items()))}
        return {"Config": config, "ContainerConfig": config}

    def _document(self, label: str) -> bytes:
        history: list[dict[str, Any]] = [
            {"created": TIMES[number], "created_by": f"RUN <{number}>"} for number in range(len(self.layers))
        ]
        history.append({"created": TIMES[9], "created_by": "LABEL", "empty_layer": True})
        document = {
            "architecture": "amd64",
            "config": {"Env": ["A=b&<c>"], "Cmd": None, "Labels": {"tfprov.image": label}},
            "container_config": {"Env": ["A=b&<c>"], "Cmd": None, "Labels": {"tfprov.image": label}},
            "created": TIMES[9],
            "docker_version": "20.10.24",
            "history": history,
            "os": "linux",
            "rootfs": {"type": "layers", "diff_ids": [digest_of(layer) for layer in self.layers]},
        }
        text = json.dumps(document, separators=(",", ":"))
        return text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e").encode()

    def _images(self) -> list[Any]:
        return [{"Id": image, "RepoTags": [name]} for name, image in self.names.items()]

    def _tag(self, image_id: str, repository: str, name: str) -> None:
        self.names[f"{repository}:{name}"] = image_id

    def _remove(self, name: str, *, noprune: bool) -> None:
        assert noprune
        del self.names[name]

    def _push(self, repository: str, name: str, *, auth_config: Mapping[str, str], **how: Any) -> Iterator[Any]:
        assert self.names[f"{repository}:{name}"] == f"step{len(self.layers) - 1}", "removing its name removes no image"
        assert how == {"stream": True, "decode": True}
        self.pushed += 1
        address, _, path = repository.partition("/")
        assert auth_config["serveraddress"] == address, "else it is a login of another registry"
        client = Client(int(address.rpartition(":")[2]), path, auth_config)
        yield {"status": "Preparing"}
        for error in self._send(client, self.layers):
            yield {"error": error}
        client.connection.close()

    def _save(self, image_id: str, chunk_size: int) -> Iterator[bytes]:
        assert (image_id, self.api.timeout) == (self.id, 60)  # that of the other requests stays
        self.saved += 1
        names = [f"{number:064x}/layer.tar" for number, _ in enumerate(self.layers)]
        config = f"{self.id.removeprefix('sha256:')}.json"
        manifest = json.dumps([{"Config": config, "RepoTags": None, "Layers": names}]).encode()
        layers = dict(zip(names, self.layers, strict=True))
        data = tar({**layers, config: self.document, "manifest.json": manifest})
        return (data[start : start + chunk_size] for start in range(0, len(data), chunk_size))

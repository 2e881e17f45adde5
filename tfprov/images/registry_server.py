"""HTTP/1.1 over one connection, whatever carries it: a TCP socket, or a channel of an SSH connection.

Enough of RFC 9112 for an engine that pulls: requests without a body, one after the other, each answered with a length.
Memory is one chunk a connection, however large the blob.
"""

import hmac
import re
import secrets
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Collection, Sequence
from http import HTTPStatus
from typing import BinaryIO, Protocol

from tfprov.errors import DeliveryError
from tfprov.hosts.docker.engine import Engine
from tfprov.images.engine_images import held, untag
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import DOCKER_CONFIG, Descriptor, Image, encode, write_manifest
from tfprov.images.registry_routes import Registry, Request, Response, error

STAGE = 32 * 1024 * 1024
"""Bytes of layers from which on they are a stage: smaller ones would cost more in questions than they save."""
LOOPBACK = "127.0.0.1"
_ON_THE_WAY = re.compile(rf"{re.escape(LOOPBACK)}:[0-9]+/tfprov/(image|[0-9a-f]{{32}})@")
"""What an image is called while it is pulled: by the name that `repository` made up, or that earlier versions used."""


def repository() -> str:
    """Return a name for an image on its way that nobody can guess: any user of the host reaches the port it comes by."""
    return f"tfprov/{secrets.token_hex(16)}"


def stages(layout: Layout, image: Image, size: int = STAGE) -> tuple[Image, ...]:
    """Return the stages of `image`, itself the last; they are kept in `layout` without a name.

    They depend on the image alone: whoever goes on with what another run began finds the same ones.
    """
    built = []
    waiting = 0
    for number, layer in enumerate(image.layers[:-1], 1):
        waiting += layer.size
        if waiting >= size:
            built.append(_beginning(layout, image, number))
            waiting = 0
    return (*built, image)


def _beginning(layout: Layout, image: Image, number: int) -> Image:
    os, _, architecture = image.platform.partition("/")
    root = {"type": "layers", "diff_ids": image.diff_ids[:number]}
    config = encode({"architecture": architecture, "os": os, "config": {}, "history": [], "rootfs": root})
    manifest, document = write_manifest(layout.blobs.write(config, DOCKER_CONFIG), image.layers[:number])
    layout.blobs.write(document, manifest.media_type)
    return layout.image(manifest)


def tidy(engine: Engine, image: Image) -> None:
    """Take away the names under which `engine` pulled `image`, in this run or in one that was killed.

    With its last name a stage goes as well; its layers stay with the image that was built upon it.
    """
    facts = held(engine, image) or {}
    for name in facts.get("RepoDigests") or ():
        if _ON_THE_WAY.match(name):
            untag(engine, name)


def remove(engine: Engine, stage: Image) -> None:
    """Remove a stage that has served its purpose."""
    tidy(engine, stage)
    facts = held(engine, stage)
    if facts is not None and not facts.get("RepoTags"):  # it came as an archive, without a name
        untag(engine, facts["Id"])


CHUNK = 128 * 1024
"""Bytes sent at a time: four of paramiko's packets, and small enough that a slow link is not taken for a dead one."""
MAX_HEAD = 16 * 1024
"""Bytes of a request's line and headers; engines send some 500."""
PATIENCE = 60.0
"""Seconds for a request to come whole, and for each chunk to be taken."""

_LINE = re.compile(rb"(?P<method>[A-Z]{1,16}) (?P<target>/[\x21-\x7e]*) HTTP/1\.(?P<minor>[01])\Z")
_HEADER = re.compile(rb"(?P<name>[!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(?P<value>[\t\x20-\x7e\x80-\xff]*?)[ \t]*\Z")


class Connection(Protocol):
    """What sockets and paramiko's channels have in common."""

    def recv(self, size: int, /) -> bytes: ...  # noqa: D102
    def sendall(self, data: bytes, /) -> None: ...  # noqa: D102
    def settimeout(self, seconds: float | None, /) -> None: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


class _Malformed(Exception):
    """A request that is no HTTP, or uses more of it than the server supports."""


def serve(
    registry: Registry,
    connection: Connection,
    progress: Callable[[int], None] = lambda sent: None,
    patience: float = PATIENCE,
) -> int:
    """Answer until the other side ends, is silent for `patience` seconds or sends nonsense; then close the connection.

    `progress` is told the number of bytes sent since it was last told; the sum of them is returned. Nothing is raised
    when the connection breaks: a client that still wants something comes back.
    """
    speaker = _Speaker(registry, connection, progress, patience)
    try:
        speaker.converse()
    except (OSError, EOFError):  # broken, closed or too slow: TimeoutError is an OSError
        pass
    finally:
        connection.close()
    return speaker.sent


class _Speaker:
    def __init__(
        self, registry: Registry, connection: Connection, progress: Callable[[int], None], patience: float
    ) -> None:
        self.registry, self.connection, self.progress, self.patience = registry, connection, progress, patience
        self.pending = b""
        self.sent = 0

    def converse(self) -> None:
        going_on = True
        while going_on:
            try:
                head = self.head()
                if head is None:
                    return
                request, going_on = _parse(head)
            except _Malformed as reason:
                refusal = error(400, "UNSUPPORTED", str(reason))
                self.respond(refusal, refusal.body, going_on=False)
                return
            going_on = going_on and request.method in ("GET", "HEAD")  # others have a body, which is not read
            self.answer(request, going_on=going_on)

    def answer(self, request: Request, *, going_on: bool) -> None:
        response = self.registry.answer(request)
        if request.method == "HEAD" or response.blob is None:
            self.respond(response, response.body if request.method != "HEAD" else b"", going_on=going_on)
            return
        try:
            file = self.registry.blobs.open(response.blob)
        except DeliveryError:  # somebody tidied the cache by hand
            missing = error(404, "BLOB_UNKNOWN", "the blob is gone")
            self.respond(missing, missing.body, going_on=going_on)
            return
        with file:
            self.respond(response, b"", going_on=going_on)
            self.send_file(file, response)

    def head(self) -> bytes | None:
        """Return the next request up to its empty line; None when the other side is done."""
        deadline = time.monotonic() + self.patience
        while b"\r\n\r\n" not in self.pending:
            if len(self.pending) > MAX_HEAD:
                raise _Malformed(f"a request of more than {MAX_HEAD} bytes")
            # A deadline and not a timeout: one byte a second must not hold a connection for ever.
            self.connection.settimeout(max(0.001, deadline - time.monotonic()))
            data = self.connection.recv(MAX_HEAD)
            if not data:
                return None
            self.pending += data
            if not self.pending[:1].isupper():
                # An engine tries TLS first, even on the loopback, and waits 10 s for an answer to its greeting.
                raise _Malformed("not HTTP")
        head, _, self.pending = self.pending.partition(b"\r\n\r\n")
        return head

    def respond(self, response: Response, body: bytes, *, going_on: bool) -> None:
        headers = {**response.headers, "Content-Length": str(response.length)}
        headers["Docker-Distribution-API-Version"] = "registry/2.0"
        headers["Connection"] = "keep-alive" if going_on else "close"
        lines = [f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.connection.settimeout(self.patience)
        self.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    def send_file(self, file: BinaryIO, response: Response) -> None:
        file.seek(response.first)
        rest = response.length
        while rest:
            data = file.read(min(CHUNK, rest))
            if not data:
                raise EOFError  # damaged on the disk; the client sees that it has less than it was promised
            self.send(data)
            rest -= len(data)

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)
        self.sent += len(data)
        self.progress(len(data))


def _parse(head: bytes) -> tuple[Request, bool]:
    """Return the request, and whether another one may follow on the connection."""
    first, *lines = head.split(b"\r\n")
    line = _LINE.match(first)
    if not line:
        raise _Malformed("not a request")
    headers: dict[str, str] = {}
    for text in lines:
        header = _HEADER.match(text)
        if not header:
            raise _Malformed("not a header")
        headers[header["name"].decode().lower()] = header["value"].decode("latin-1")
    wishes = headers.get("connection", "").lower()
    lasting = "close" not in wishes and (line["minor"] == b"1" or "keep-alive" in wishes)
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    return Request(line["method"].decode(), line["target"].decode(), headers), lasting and not has_body


_USER = "tfprov"


class PushRegistry(Registry):
    """Hands out the stages of an image to whoever knows the token, but none of the layers the host has.

    Every user of the host can connect to the port that leads here: without the token, all that is asked for is answered
    alike. `name` is the repository; token and name are made up for this one delivery. `login` is what the engine is given.

    An engine that got a layer from elsewhere (an archive, another registry) does not know it by our digest and would
    fetch it again: it is refused, which ends the pull at once, and `refused` says so. `asked` tells whether anybody
    found the way to us at all, and `known` whether somebody had the token. Bytes sent are told to `count`, from one
    thread at a time.
    """

    def __init__(
        self, layout: Layout, stages: Sequence[Image], held: Collection[Descriptor], count: Callable[[int], None]
    ) -> None:
        self.name = repository()
        super().__init__(layout, {self.name: stages})
        self.asked = self.known = self.refused = False
        self.login = {"username": _USER, "password": secrets.token_urlsafe(32)}
        self._credentials = b64encode(f"{_USER}:{self.login['password']}".encode())
        self._count = count
        self._lock = threading.Lock()
        wanted = {layer.digest for layer in stages[-1].layers[len(held) :]}
        self._held = {layer.digest for layer in held} - wanted

    def answer(self, request: Request) -> Response:
        """See Registry."""
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        right = hmac.compare_digest(credentials.strip().encode("latin-1", "replace"), self._credentials)
        if scheme.lower() != "basic" or not right:
            return error(401, "UNAUTHORIZED", "a token is needed", {"WWW-Authenticate": 'Basic realm="tfprov"'})
        self.known = True
        response = super().answer(request)
        if response.blob is not None and response.blob.digest in self._held:
            self.refused = True
            return error(403, "DENIED", "the host has this layer")
        return response

    def serve(self, connection: Connection) -> None:
        """Answer on one connection to its end."""
        self.asked = True
        serve(self, connection, self._sent)

    def _sent(self, size: int) -> None:
        with self._lock:
            self._count(size)

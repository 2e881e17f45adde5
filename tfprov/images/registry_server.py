"""Serves the registry with HTTP/1.1 over one connection: a TCP socket, or a channel of an SSH connection.

The subset of RFC 9112 that a pull needs: requests without a body, one after the other, responses with Content-Length.
Memory is one chunk per connection, however large the blob.
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
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import Descriptor, OciImage
from tfprov.images.registry_routes import Registry, Request, Response, error_response

LOOPBACK = "127.0.0.1"


def random_repository() -> str:
    """Return an unguessable repository name: any user of the host can connect to the forwarded port."""
    return f"tfprov/{secrets.token_hex(16)}"


CHUNK = 128 * 1024
"""Bytes sent at a time: four of paramiko's packets, and few enough to pass a slow link within TIMEOUT."""
MAX_HEAD = 16 * 1024
"""Bytes of a request line and its headers; engines send some 500."""
TIMEOUT = 60.0
"""Seconds for a whole request to arrive, and for each chunk to be sent."""

_LINE = re.compile(rb"(?P<method>[A-Z]{1,16}) (?P<target>/[\x21-\x7e]*) HTTP/1\.(?P<minor>[01])\Z")
_HEADER = re.compile(rb"(?P<name>[!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(?P<value>[\t\x20-\x7e\x80-\xff]*?)[ \t]*\Z")


class ByteStream(Protocol):
    """The methods that sockets and paramiko's channels share."""

    def recv(self, size: int, /) -> bytes: ...  # noqa: D102
    def sendall(self, data: bytes, /) -> None: ...  # noqa: D102
    def settimeout(self, seconds: float | None, /) -> None: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


class _Malformed(Exception):
    """A request that is not HTTP, or uses a part of it that the server does not support."""


def serve(
    registry: Registry,
    connection: ByteStream,
    progress: Callable[[int], None] = lambda sent: None,
    timeout: float = TIMEOUT,
) -> int:
    """Answer requests until the client closes, is silent for `timeout` seconds or sends no HTTP; close the connection.

    `progress` is called with the bytes sent since its last call; their sum is returned. Nothing is raised when the
    connection breaks: a client that still needs a blob connects again.
    """
    http = _HttpConnection(registry, connection, progress, timeout)
    try:
        http.serve_requests()
    except (OSError, EOFError):  # broken, closed or too slow: TimeoutError is an OSError
        pass
    finally:
        connection.close()
    return http.sent


class _HttpConnection:
    def __init__(
        self, registry: Registry, connection: ByteStream, progress: Callable[[int], None], timeout: float
    ) -> None:
        self.registry, self.connection, self.progress, self.timeout = registry, connection, progress, timeout
        self.buffer = b""
        self.sent = 0

    def serve_requests(self) -> None:
        keep_alive = True
        while keep_alive:
            try:
                head = self.read_head()
                if head is None:
                    return
                request, keep_alive = _parse_head(head)
            except _Malformed as reason:
                refusal = error_response(400, "UNSUPPORTED", str(reason))
                self.respond(refusal, refusal.body, keep_alive=False)
                return
            keep_alive = keep_alive and request.method in ("GET", "HEAD")  # others have a body, which is not read
            self.answer(request, keep_alive=keep_alive)

    def answer(self, request: Request, *, keep_alive: bool) -> None:
        response = self.registry.answer(request)
        if request.method == "HEAD" or response.blob is None:
            self.respond(response, response.body if request.method != "HEAD" else b"", keep_alive=keep_alive)
            return
        try:
            file = self.registry.blobs.open(response.blob)
        except DeliveryError:  # a user removed files of the layout
            not_found = error_response(404, "BLOB_UNKNOWN", "the blob is gone")
            self.respond(not_found, not_found.body, keep_alive=keep_alive)
            return
        with file:
            self.respond(response, b"", keep_alive=keep_alive)
            self.send_file(file, response)

    def read_head(self) -> bytes | None:
        """Return the next request up to its empty line; None when the client closed the connection."""
        deadline = time.monotonic() + self.timeout
        while b"\r\n\r\n" not in self.buffer:
            if len(self.buffer) > MAX_HEAD:
                raise _Malformed(f"a request of more than {MAX_HEAD} bytes")
            # A deadline and not a timeout: one byte a second must not hold a connection for ever.
            self.connection.settimeout(max(0.001, deadline - time.monotonic()))
            data = self.connection.recv(MAX_HEAD)
            if not data:
                return None
            self.buffer += data
            if not self.buffer[:1].isupper():
                # An engine tries TLS first, even on the loopback, and waits 10 s for an answer to its ClientHello.
                raise _Malformed("not HTTP")
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        return head

    def respond(self, response: Response, body: bytes, *, keep_alive: bool) -> None:
        headers = {**response.headers, "Content-Length": str(response.length)}
        headers["Docker-Distribution-API-Version"] = "registry/2.0"
        headers["Connection"] = "keep-alive" if keep_alive else "close"
        lines = [f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.connection.settimeout(self.timeout)
        self.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    def send_file(self, file: BinaryIO, response: Response) -> None:
        file.seek(response.first)
        remaining = response.length
        while remaining:
            data = file.read(min(CHUNK, remaining))
            if not data:
                raise EOFError  # damaged on the disk; the client sees fewer bytes than Content-Length
            self.send(data)
            remaining -= len(data)

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)
        self.sent += len(data)
        self.progress(len(data))


def _parse_head(head: bytes) -> tuple[Request, bool]:
    """Return the request, and whether the connection stays open after it."""
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
    connection = headers.get("connection", "").lower()
    keep_alive = "close" not in connection and (line["minor"] == b"1" or "keep-alive" in connection)
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    return Request(line["method"].decode(), line["target"].decode(), headers), keep_alive and not has_body


_USER = "tfprov"


class PushRegistry(Registry):
    """Serves the stages of an image to clients with the token, without the layers that the host has.

    Every user of the host can connect to the forwarded port: without the token, every request gets the same response.
    `name` is the repository; token and name are random and valid for one delivery. `login` is the engine's login,
    and `credentials` is the same as HTTP basic authentication sends it.

    An engine that got a layer from elsewhere (an archive, another registry) does not know it by our digest and would
    fetch it again: such a request is refused, which ends the pull at once; `refused` has the digests. `was_contacted` is
    set by the first connection, `is_authenticated` by the first request with the token. `on_sent` is called with the bytes
    sent, from one thread at a time.
    """

    def __init__(
        self,
        layout: Layout,
        stages: Sequence[OciImage],
        layers_on_host: Collection[Descriptor],
        on_sent: Callable[[int], None],
    ) -> None:
        self.name = random_repository()
        super().__init__(layout, {self.name: ()})
        self.was_contacted = self.is_authenticated = False
        self.refused: set[str] = set()
        self.login = {"username": _USER, "password": secrets.token_urlsafe(32)}
        self._credentials = b64encode(f"{_USER}:{self.login['password']}".encode())
        self.credentials = self._credentials.decode()
        self._count = on_sent
        self._lock = threading.Lock()
        self._held: set[str] = set()
        for stage in stages:
            self.offer(stage, layers_on_host)

    def offer(self, stage: OciImage, layers_on_host: Collection[Descriptor]) -> None:
        """Serve `stage`, of which the host has the lowest layers."""
        missing = {layer.digest for layer in stage.layers[len(layers_on_host) :]}
        self._held = {layer.digest for layer in layers_on_host} - missing
        self.add(self.name, stage)

    def answer(self, request: Request) -> Response:
        """See Registry."""
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        is_authorized = hmac.compare_digest(credentials.strip().encode("latin-1", "replace"), self._credentials)
        if scheme.lower() != "basic" or not is_authorized:
            return error_response(
                401, "UNAUTHORIZED", "a token is needed", {"WWW-Authenticate": 'Basic realm="tfprov"'}
            )
        self.is_authenticated = True
        response = super().answer(request)
        if response.blob is not None and response.blob.digest in self._held:
            self.refused.add(response.blob.digest)
            return error_response(403, "DENIED", "the host has this layer")
        return response

    def serve(self, connection: ByteStream) -> None:
        """Answer on one connection to its end."""
        self.was_contacted = True
        serve(self, connection, self._sent)

    def _sent(self, size: int) -> None:
        with self._lock:
            self._count(size)

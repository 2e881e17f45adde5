"""HTTP/1.1 over one connection, whatever carries it: a TCP socket, or a channel of an SSH connection.

Enough of RFC 9112 for an engine that pulls: requests without a body, one after the other, each answered with a length.
Memory is one chunk a connection, however large the blob.
"""

import re
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import BinaryIO, Protocol

from tfprov.delivery.registry import Registry, Request, Response, error
from tfprov.errors import DeliveryError

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
    """Not HTTP, or more of it than is answered here."""


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

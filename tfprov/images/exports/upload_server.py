"""Serves the registry for uploads with HTTP/1.1: the routes of the OCI distribution specification 1.1 that a push needs."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from io import BufferedReader, BufferedWriter, RawIOBase
from typing import Any

from tfprov.errors import DeliveryError, HostError
from tfprov.images.exports.upload_registry import Refused, UploadRegistry
from tfprov.images.oci_spec import MAX_DOCUMENT, encode
from tfprov.images.registry_server import ByteStream

TIMEOUT = 60.0
"""Seconds for the head of a request, and for each piece of a layer."""
_LINGER, _LINGER_SIZE = 2.0, 16 * 1024 * 1024
"""Seconds, and bytes, in which a client that still sends can read that it was refused."""
_PIECE = 64 * 1024
_MAX_LINE = 1024
"""Bytes of the line before a chunk."""
_CHUNK_SIZE = re.compile(rb"(?P<size>[0-9a-fA-F]{1,8})(?:;[^\r\n]*)?\r\n\Z")
_NO_TLS = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_MANIFEST = re.compile(r"/v2/(?P<name>[a-z0-9/]+)/manifests/(?P<reference>[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127})\Z")
_UPLOAD = re.compile(r"/v2/(?P<name>[a-z0-9/]+)/blobs/uploads/(?P<id>[0-9a-f]{32}|)(?P<query>\?[!-~]*|)\Z")
_BLOB = re.compile(r"/v2/(?P<name>[a-z0-9/]+)/blobs/(?P<digest>sha256:[0-9a-f]{64})\Z")
_DIGEST = re.compile(r"\?digest=sha256(?::|%3A)(?P<hex>[0-9a-f]{64})\Z")


def serve(registry: UploadRegistry[Any], connection: ByteStream, timeout: float = TIMEOUT) -> None:
    """Answer on one connection to its end; a client whose connection breaks tries again."""
    stream = _ReadStream(connection, timeout)
    reader: BufferedReader[Any] = BufferedReader(stream, _PIECE)
    try:
        first = reader.peek()[:1]
        if first.isupper():
            _Handler(registry, connection, stream, reader)
        elif first:
            # An engine tries TLS first, and waits 10 s for an answer. Docker takes the end of the connection for one,
            # containerd nothing but an answer in HTTP.
            connection.sendall(_NO_TLS)
    except (OSError, EOFError, ValueError, HostError):  # broken, closed, too slow, or the export has ended
        pass
    finally:
        connection.close()


class _ReadStream(RawIOBase):
    """What a connection sends: until `deadline`, if there is one, and never silent for `timeout` seconds."""

    def __init__(self, connection: ByteStream, timeout: float) -> None:
        self._connection, self.timeout = connection, timeout
        self.deadline: float | None = time.monotonic() + timeout

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        remaining = self.timeout if self.deadline is None else self.deadline - time.monotonic()
        self._connection.settimeout(max(0.001, remaining))
        data = self._connection.recv(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _WriteStream(RawIOBase):
    def __init__(self, connection: ByteStream) -> None:
        self._connection = connection

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._connection.settimeout(TIMEOUT)
        self._connection.sendall(bytes(data))
        return len(data)


class _Handler(BaseHTTPRequestHandler):
    """All requests of one connection; it serves them while it is made."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "tfprov", ""

    def __init__(
        self, registry: UploadRegistry[Any], connection: ByteStream, stream: _ReadStream, reader: BufferedReader
    ) -> None:
        self._registry, self._stream = registry, stream
        self._reader, self._writer = reader, BufferedWriter(_WriteStream(connection))
        super().__init__(connection, ("", 0), None)  # type: ignore[arg-type]  # there is no server object

    def setup(self) -> None:
        self.rfile, self.wfile = self._reader, self._writer

    def finish(self) -> None:
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  http.server names it
        """Log nothing: the engine reports what fails."""

    def handle_one_request(self) -> None:
        # A deadline and not a timeout: one byte a second must not hold a connection for ever.
        self._stream.deadline = time.monotonic() + self._stream.timeout
        super().handle_one_request()

    def do_GET(self) -> None:
        self._answer(self._show)

    def do_HEAD(self) -> None:
        self._answer(self._show)

    def do_POST(self) -> None:
        self._answer(self._begin)

    def do_PATCH(self) -> None:
        self._answer(self._receive)

    def do_PUT(self) -> None:
        self._answer(self._commit if "/blobs/" in self.path else self._put_manifest)

    def _answer(self, act: Callable[[], None]) -> None:
        self._stream.deadline = None
        try:
            self._registry.check_token(self.headers.get("Authorization", ""))
            act()
        except Refused as error:
            self._refuse(error)
        except DeliveryError:  # reported where the whole image is exported
            self._refuse(Refused(403, "DENIED", "it cannot be stored"))

    def _show(self) -> None:
        """Tell whether an uploaded layer is there; nothing can be read."""
        if self.path in ("/v2/", "/v2"):
            self._respond(200, {}, b"{}")
            return
        blob = self._match(_BLOB)
        size = self._registry.size(blob["digest"]) if self.command == "HEAD" else None
        if size is None:
            raise Refused(404, "BLOB_UNKNOWN", "no such layer")
        self._respond(200, {"Docker-Content-Digest": blob["digest"], "Content-Length": str(size)})

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        match = pattern.match(self.path)
        if match is None or match["name"] != self._registry.name:
            raise Refused(404, "NAME_UNKNOWN", "no such repository")
        return match

    def _begin(self) -> None:
        if self._match(_UPLOAD)["id"]:
            raise Refused(404, "BLOB_UPLOAD_UNKNOWN", "an upload begins without an id")
        self._respond_upload(self._registry.begin(), 0)

    def _receive(self) -> None:
        identifier = self._match(_UPLOAD)["id"]
        self._respond_upload(identifier, self._registry.receive(identifier, self._body()))

    def _commit(self) -> None:
        route = self._match(_UPLOAD)
        digest = _DIGEST.match(route["query"])
        if digest is None:
            raise Refused(400, "DIGEST_INVALID", "an upload ends with a sha256 digest")
        name = f"sha256:{digest['hex']}"
        if self._has_body:  # containerd sends a blob with this request, Docker before it
            self._registry.receive(route["id"], self._body())
        self._registry.commit(route["id"], name)
        self._respond(201, {"Docker-Content-Digest": name, "Location": f"/v2/{route['name']}/blobs/{name}"})

    def _put_manifest(self) -> None:
        route = self._match(_MANIFEST)
        document = b""
        for piece in self._body():
            document += piece
            if len(document) > MAX_DOCUMENT:
                raise Refused(413, "SIZE_INVALID", f"a manifest of more than {MAX_DOCUMENT} bytes")
        digest = self._registry.put_manifest(route["reference"], self.headers.get("Content-Type", ""), document)
        self._respond(201, {"Docker-Content-Digest": digest, "Location": f"/v2/{route['name']}/manifests/{digest}"})

    def _respond_upload(self, identifier: str, received: int) -> None:
        location = f"/v2/{self._registry.name}/blobs/uploads/{identifier}"
        headers = {"Location": location, "Docker-Upload-UUID": identifier, "Range": f"0-{max(0, received - 1)}"}
        self._respond(202, headers)

    def _refuse(self, error: Refused) -> None:
        headers = {"WWW-Authenticate": 'Basic realm="tfprov"'} if error.status == 401 else {}
        body = encode({"errors": [{"code": error.code, "message": str(error)}]})
        if self._has_body:
            headers["Connection"] = "close"
        self._respond(error.status, headers, body)
        if self._has_body:
            self._linger()

    def _respond(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.send_header("Docker-Distribution-API-Version", "registry/2.0")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def _linger(self) -> None:
        """Read on for a moment: closing at once could destroy the response before the client has read it."""
        self._stream.deadline = time.monotonic() + _LINGER
        remaining = _LINGER_SIZE
        while remaining > 0 and (data := self.rfile.read1(_PIECE)):  # ends with OSError at the deadline
            remaining -= len(data)

    @property
    def _has_body(self) -> bool:
        return "Transfer-Encoding" in self.headers or self.headers.get("Content-Length", "0") != "0"

    def _body(self) -> Iterator[bytes]:
        """Yield the content of a request in pieces."""
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := self._chunk_size():
                yield from self._pieces(size)
                self._expect(b"\r\n")
            self._expect(b"\r\n")
        else:
            length = self.headers.get("Content-Length", "")
            if not re.fullmatch(r"[0-9]{1,15}", length):
                raise Refused(411, "SIZE_INVALID", "the length of the layer is unknown")
            yield from self._pieces(int(length))

    def _chunk_size(self) -> int:
        match = _CHUNK_SIZE.match(self.rfile.readline(_MAX_LINE))
        if match is None:
            raise EOFError
        return int(match["size"], 16)

    def _pieces(self, size: int) -> Iterator[bytes]:
        while size:
            data = self.rfile.read1(min(size, _PIECE))
            if not data:
                raise EOFError
            size -= len(data)
            yield data

    def _expect(self, text: bytes) -> None:
        if self.rfile.read(len(text)) != text:
            raise EOFError

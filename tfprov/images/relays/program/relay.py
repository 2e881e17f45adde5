"""What a relay does with requests: of its engine, and of other relays."""

from __future__ import annotations  # for every Python that an image may have

import hmac
import re
import socket
import ssl
import threading
from typing import Any

from tfprov.images.relays.program.connections import MAX_HEAD, PIECE, Broken, Leading, Secure, fill, read_until
from tfprov.images.relays.program.controller import CONNECT, Controller
from tfprov.images.relays.program.layers import Layer

SILENCE = 20.0
"""Seconds without a byte of another relay after which another source is asked for."""
PATIENCE = 60.0
"""Seconds without a byte of the controller, and to send a piece."""
MAX_UPLOADS = 8
"""Layers sent to other relays at the same time: an engine pulls three at once, for each of two relays, and two spare."""
REPORT = 4 * 1024 * 1024
"""Bytes received between two reports."""

MAX_REST = 16
"""Pieces of a request in TLS that are read before its connection is closed."""

_GET = re.compile(rb"GET /v2/[^ ]*/blobs/(sha256:[0-9a-f]{64}) HTTP/1\.1\Z")
_AUTHORIZATION = re.compile(rb"(?im)^authorization: *basic +([A-Za-z0-9+/=]+) *\r?$")
_RANGE = re.compile(rb"(?im)^range: *bytes=([0-9]{1,18})-")
_BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_STATUS = re.compile(rb"HTTP/1\.[01] (200|206) ")


class Relay:
    """The layers, where they come from and whom they are sent to.

    `config` has `layers` (sizes by digest), the `directory` for them, and what its engine pulls with: `registry_port`,
    `name` of the repository, and `credentials`.
    """

    def __init__(
        self, config: dict[str, Any], controller: Controller, server: ssl.SSLContext, client: ssl.SSLContext
    ) -> None:
        self._config, self._controller, self._server, self._client = config, controller, server, client
        self._layers: dict[str, Layer] = {}
        self._lock = threading.Lock()
        self._uploads = threading.BoundedSemaphore(MAX_UPLOADS)

    def _layer(self, digest: str) -> Layer:
        """Return the layer for our engine, and begin to receive it if nobody has asked for it or it was broken."""
        with self._lock:
            layer = self._layers.get(digest)
            if layer is None or layer.error:
                layer = Layer(digest, self._config["layers"][digest], self._config["directory"])
                self._layers[digest] = layer
                try:
                    threading.Thread(target=self._receive, args=(layer,), daemon=True).start()
                except RuntimeError as error:  # the container has as many threads as it may
                    layer.end(str(error))
        return layer

    def _receive(self, layer: Layer) -> None:
        """Receive a layer from one source after the other. Its digest is checked by the engine, which pulls it."""
        failed: list[Any] = []
        try:
            while layer.have < layer.size:
                peer = self._controller.ask_source(layer.digest, failed)["peer"]
                self._receive_from(peer, layer, failed)
        except (Broken, OSError) as error:
            layer.end(str(error) or "broken")

    def _receive_from(self, peer: Any, layer: Layer, failed: list[Any]) -> None:
        """Receive as much of a layer as a source sends. Raises Broken when the controller sends none of it."""
        before = layer.have
        try:
            with self._connect_to_peer(peer, layer) if peer else self._connect_to_controller(layer) as connection:
                self._copy(connection, layer, peer["number"] if peer else None)
        except (Broken, OSError) as error:
            if peer:
                failed.append([peer["number"], str(error)])
            elif layer.have == before:
                raise Broken(f"the controller sends nothing: {error}") from error

    def _connect_to_peer(self, peer: Any, layer: Layer) -> Secure:
        plain = socket.create_connection((peer["address"], peer["port"]), CONNECT)
        try:
            plain.settimeout(SILENCE)
            connection = Secure(plain, self._client, server=False)
            connection.sendall(b"%s %d\n" % (layer.digest.encode(), layer.have))
        except BaseException:
            plain.close()
            raise
        return connection

    def _connect_to_controller(self, layer: Layer) -> Leading:
        connection = socket.create_connection(("127.0.0.1", self._config["registry_port"]), CONNECT)
        try:
            connection.settimeout(PATIENCE)
            lines = [
                f"GET /v2/{self._config['name']}/blobs/{layer.digest} HTTP/1.1",
                "Host: tfprov",
                "Connection: close",
            ]
            lines += [f"Authorization: Basic {self._config['credentials']}", f"Range: bytes={layer.have}-", "", ""]
            connection.sendall("\r\n".join(lines).encode())
            answer, rest = read_until(connection, b"\r\n\r\n")
            if not _STATUS.match(answer):
                raise Broken(answer[:40].decode("latin-1"))  # noqa: TRY301
        except BaseException:
            connection.close()
            raise
        return Leading(connection, rest)

    def _copy(self, connection: Any, layer: Layer, number: int | None) -> None:
        """Copy to the file what arrives."""
        buffer = bytearray(PIECE)
        view, reported = memoryview(buffer), 0
        while layer.have < layer.size:
            size = fill(connection, view[: layer.size - layer.have])
            if not size:
                raise Broken("it ended early")
            layer.write(view[:size])
            reported += size
            if reported >= REPORT or layer.have == layer.size:
                if number is not None:  # the controller knows what it sends itself
                    self._controller.send({"received": reported, "from": number})
                reported = 0

    def serve_peer(self, plain: socket.socket) -> None:
        """Send one layer to another relay that has the certificate of this run."""
        plain.settimeout(SILENCE)
        connection = Secure(plain, self._server, server=True)
        request, _ = read_until(connection, b"\n", 200)
        digest, _, offset = request.decode("latin-1").partition(" ")
        with self._lock:
            layer = self._layers.get(digest)
        if layer is None or not offset.isdigit() or not self._uploads.acquire(blocking=False):
            return
        try:
            connection.settimeout(PATIENCE)
            layer.send(connection, int(offset))
        finally:
            self._uploads.release()

    def serve_engine(self, connection: socket.socket) -> None:
        """Answer one request of our engine: layers from here, anything else by the controller's registry."""
        connection.settimeout(PATIENCE)
        # An engine tries TLS first, even on the loopback, and waits 10 s for an answer. Docker takes the end of the
        # connection for one, containerd nothing but an answer in HTTP.
        if not connection.recv(1, socket.MSG_PEEK).isupper():
            connection.sendall(_BAD_REQUEST)
            connection.shutdown(socket.SHUT_WR)
            for _ in range(MAX_REST):  # what is closed with unread bytes is reset, and the answer is lost
                if not connection.recv(MAX_HEAD):
                    break
            return
        head, _ = read_until(connection, b"\r\n\r\n")
        request = _GET.match(head.partition(b"\r\n")[0])
        login = _AUTHORIZATION.search(head)
        digest = request.group(1).decode() if request else ""
        credentials = self._config["credentials"].encode()
        if digest in self._config["layers"] and login and hmac.compare_digest(login.group(1), credentials):
            self._answer_layer(connection, self._layer(digest), _RANGE.search(head))
        else:
            self._pass_on(connection, head)

    def _answer_layer(self, connection: socket.socket, layer: Layer, wanted: Any) -> None:
        offset = int(wanted.group(1)) if wanted else 0
        if offset >= layer.size:
            connection.sendall(b"HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        try:
            layer.wait_beyond(offset)
        except Broken:
            connection.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        lines = ["HTTP/1.1 206 Partial Content" if offset else "HTTP/1.1 200 OK"]
        lines += ["Content-Type: application/octet-stream", "Docker-Content-Digest: " + layer.digest]
        lines += ["Accept-Ranges: bytes", f"Content-Length: {layer.size - offset}", "Connection: close"]
        if offset:
            lines.append(f"Content-Range: bytes {offset}-{layer.size - 1}/{layer.size}")
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        layer.send(connection, offset)

    def _pass_on(self, connection: socket.socket, head: bytes) -> None:
        """Let the controller answer: it checks the token, and has the small documents."""
        with socket.create_connection(("127.0.0.1", self._config["registry_port"]), CONNECT) as registry:
            registry.settimeout(PATIENCE)
            lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
            registry.sendall(b"\r\n".join([*lines, b"Connection: close", b"", b""]))
            while True:
                data = registry.recv(PIECE)
                if not data:
                    return
                connection.sendall(data)

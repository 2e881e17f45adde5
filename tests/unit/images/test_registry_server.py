"""HTTP over one connection: well-behaved, slow and hostile clients."""

import hashlib
import io
import socket
import threading
import time
import tracemalloc
from base64 import b64decode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.delivery_images import LAYERS, code, load_image, save_entries, tar
from tests.support.waiting import LONG
from tests.support.wire import Wire
from tfprov.images.archive import load
from tfprov.images.code_layer import append
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import OciImage
from tfprov.images.registry_routes import Registry
from tfprov.images.registry_server import CHUNK, MAX_HEAD, PushRegistry, serve

LARGE = tar({"data": bytes(range(256)) * 40_000})


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return Layout(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def image(layout: Layout) -> OciImage:
    return load_image(layout, layers=[*LAYERS, LARGE])


@pytest.fixture(scope="module")
def registry(layout: Layout, image: OciImage) -> Registry:
    return Registry(layout, {"app": [image]})


class Client:
    """The client's end of a served connection."""

    def __init__(
        self, registry: Registry, timeout: float = LONG, progress: Callable[[int], None] | None = None
    ) -> None:
        self.socket, served = socket.socketpair()
        self.socket.settimeout(60)
        self._pool = ThreadPoolExecutor(1)
        on_progress = progress or (lambda sent: None)
        self._served = self._pool.submit(serve, registry, served, on_progress, timeout)

    def send(self, *lines: str) -> None:
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))

    def response(self, method: str = "GET") -> tuple[HTTPResponse, bytes]:
        """Read one response with the standard library's client."""
        response = HTTPResponse(self.socket, method=method)
        response.begin()
        return response, response.read()

    def read_to_end(self) -> bytes:
        """Return all bytes until the connection is closed."""
        received = b""
        with suppress(ConnectionError):  # the server closed with unread bytes of ours
            while data := self.socket.recv(CHUNK):
                received += data
        return received

    def result(self) -> int:
        """Return the result of `serve`: the bytes sent."""
        return self._served.result(60)

    def close(self) -> None:
        self.socket.close()
        self._pool.shutdown()


@pytest.fixture
def client(registry: Registry) -> Iterator[Client]:
    made = Client(registry)
    yield made
    made.close()


def test_a_saved_image_arrives_unchanged(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    files = save_entries(("app:1", LAYERS))
    base = load(layout, io.BytesIO(tar(files)), "base")
    top = append(layout, base, code(main=b"1"), "top")
    client = Client(Registry(layout, {"app": [top, base]}))
    arrived = []
    for kind, blob in [("manifests", base.manifest), ("blobs", base.config), *(("blobs", it) for it in top.layers)]:
        client.send(f"GET /v2/app/{kind}/{blob.digest} HTTP/1.1", "Host: h")
        response, data = client.response()
        assert (response.status, response.will_close) == (200, False)
        assert f"sha256:{hashlib.sha256(data).hexdigest()}" == blob.digest
        arrived.append(data)
    assert arrived[1] in files.values()
    assert tuple(arrived[2:5]) == LAYERS
    client.close()


def test_requests_may_be_pipelined_and_fragmented(client: Client, image: OciImage) -> None:
    request = f"GET /v2/app/blobs/{image.layers[0].digest} HTTP/1.1\r\nHost: h\r\nRange: bytes=5-9\r\n\r\n".encode()
    for byte in request * 3:
        client.socket.sendall(bytes([byte]))
    client.socket.shutdown(socket.SHUT_WR)
    assert client.read_to_end().count(LAYERS[0][5:10]) == 3


def test_a_head_has_the_headers_of_a_get_and_no_body(client: Client, image: OciImage) -> None:
    responses = []
    for method in ("HEAD", "GET"):
        client.send(f"{method} /v2/app/blobs/{image.layers[0].digest} HTTP/1.1")
        response, data = client.response(method)
        responses.append((response.status, response.getheaders()))
        assert data == (b"" if method == "HEAD" else LAYERS[0])
    assert responses[0] == responses[1]


def test_errors_leave_the_connection_open(client: Client) -> None:
    for _ in range(2):
        client.send("GET /v2/other/manifests/latest HTTP/1.1")
        response, data = client.response()
        assert (response.status, response.getheader("Content-Type")) == (404, "application/json")
        assert b'"NAME_UNKNOWN"' in data


@pytest.mark.parametrize("last", [("HTTP/1.1", "Connection: close"), ("HTTP/1.0", "Host: h")])
def test_the_connection_closes_at_the_clients_request(client: Client, last: tuple[str, str]) -> None:
    client.send(f"GET /v2/ {last[0]}", last[1])
    assert client.read_to_end().endswith(b"\r\nConnection: close\r\n\r\n{}")
    client.result()


def test_a_write_is_refused_and_its_body_is_not_parsed_as_a_request(client: Client) -> None:
    # In one piece: the server may have closed before a second one is sent.
    client.send("POST /v2/app/blobs/uploads/ HTTP/1.1", "Content-Length: 22", "", "GET /v2/ HTTP/1.1")
    answer = client.read_to_end()
    assert answer.startswith(b"HTTP/1.1 405 Method Not Allowed\r\n")
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("header", ["Content-Length: 22", "Transfer-Encoding: chunked"])
def test_a_get_with_a_body_closes_the_connection(client: Client, header: str) -> None:
    client.send("GET /v2/ HTTP/1.1", header, "", "GET /v2/ HTTP/1.1")
    assert client.read_to_end().count(b"HTTP/1.1 200") == 1


NO_REQUEST, NO_HEADER = "not a request", "not a header"


def refusal(message: str) -> list[str]:
    """Return the lines of the answer to what is no request."""
    body = f'{{"errors":[{{"code":"UNSUPPORTED","message":"{message}"}}]}}'
    return [
        "HTTP/1.1 400 Bad Request", "Content-Type: application/json", f"Content-Length: {len(body)}",
        "Docker-Distribution-API-Version: registry/2.0", "Connection: close", "", body,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("nonsense", "not HTTP"),
        ("GET nonsense", NO_REQUEST),
        ("GET /v2/", NO_REQUEST),
        ("GET  /v2/ HTTP/1.1", NO_REQUEST),
        ("GET /v2/ HTTP/2.0", NO_REQUEST),
        ("GET v2 HTTP/1.1", NO_REQUEST),
        ("GET http://h/v2/ HTTP/1.1", NO_REQUEST),
        ("GET /v2/\u00e9 HTTP/1.1", NO_REQUEST),
        ("GET /v2/\x00 HTTP/1.1", NO_REQUEST),
        ("GET /v2/ HTTP/1.1\r\nno header", NO_HEADER),
        ("GET /v2/ HTTP/1.1\r\nName : value", NO_HEADER),
        ("GET /v2/ HTTP/1.1\r\n folded: value", NO_HEADER),
        ("GET /v2/ HTTP/1.1\r\nA: b\nC: d", NO_HEADER),
    ],
)
def test_a_malformed_request_gets_400_and_the_connection_closes(registry: Registry, head: str, message: str) -> None:
    wire = Wire(f"{head}\r\n\r\n".encode("latin-1"))
    assert serve(registry, wire) == len(wire.sent)
    assert wire.answer == refusal(message)
    assert wire.is_closed
    assert wire.seconds[-1] == 60, "the limit for an answer"
    assert 59 < (wire.seconds[0] or 0) <= 60


def test_a_tls_client_hello_gets_400_at_once(client: Client) -> None:
    client.socket.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    assert client.read_to_end().decode().split("\r\n") == refusal("not HTTP")


def test_a_request_without_end_is_refused_early(client: Client) -> None:
    client.socket.sendall(b"GET /v2/ HTTP/1.1\r\n" + b"A: " + b"a" * (2 * MAX_HEAD))
    assert client.read_to_end().decode().split("\r\n") == refusal("a request of more than 16384 bytes")


def test_a_request_may_have_16384_bytes_before_its_end(registry: Registry) -> None:
    start = b"GET /v2/ HTTP/1.1\r\nA: "
    for more, status in ((0, "200 OK"), (1, "400 Bad Request")):
        wire = Wire(start + b"a" * (16_384 - len(start) + more), b"\r\n\r\n")
        serve(registry, wire)
        assert wire.answer[0] == f"HTTP/1.1 {status}"


def test_what_has_come_is_read_when_the_time_is_over(registry: Registry) -> None:
    wire = Wire(b"GET /v2/ HTTP/1.1\r\n\r\n")
    serve(registry, wire, timeout=0.0)
    assert wire.seconds[0] == 0.001, "0 would wait for nothing, and fail with another error"


class Deliveries:
    """A registry for one delivery, and the answers to requests with its token; `sent` are the bytes that were counted."""

    def __init__(self, layout: Layout, image: OciImage, held: int) -> None:
        self.sent: list[int] = []
        self.registry = PushRegistry(layout, [image], image.layers[:held], self.sent.append)

    def ask(self, target: str, credentials: str) -> list[str]:
        wire = Wire(f"GET {target} HTTP/1.1\r\nAuthorization: {credentials}\r\n\r\n".encode())
        self.registry.serve(wire)
        return wire.answer


def test_a_delivery_answers_who_has_the_token_and_refuses_layers_that_the_host_has(
    layout: Layout, image: OciImage
) -> None:
    delivery = Deliveries(layout, image, 1)
    registry = delivery.registry
    assert registry.login == {"username": "tfprov", "password": registry.login["password"]}
    assert b64decode(registry.credentials) == f"tfprov:{registry.login['password']}".encode()
    assert (len(registry.login["password"]), len(registry.name)) == (43, len("tfprov/") + 32)
    assert (registry.was_contacted, registry.is_authenticated) == (False, False)
    for credentials in ("", "Basic", "Basic x", f"Bearer {registry.credentials}"):
        body = '{"errors":[{"code":"UNAUTHORIZED","message":"a token is needed"}]}'
        assert delivery.ask("/v2/", credentials) == [
            "HTTP/1.1 401 Unauthorized", "Content-Type: application/json", 'WWW-Authenticate: Basic realm="tfprov"',
            f"Content-Length: {len(body)}", "Docker-Distribution-API-Version: registry/2.0", "Connection: keep-alive", "",
            body,
        ]  # fmt: skip
        assert (registry.was_contacted, registry.is_authenticated) == (True, False)
    token = f"basic {registry.credentials}"
    assert delivery.ask("/v2/", token)[-1] == "{}"
    assert registry.is_authenticated
    held, other = image.layers[:2]
    body = '{"errors":[{"code":"DENIED","message":"the host has this layer"}]}'
    refused = delivery.ask(f"/v2/{registry.name}/blobs/{held.digest}", token)
    assert (refused[0], refused[-1]) == ("HTTP/1.1 403 Forbidden", body)
    assert registry.refused == {held.digest}
    assert delivery.ask(f"/v2/{registry.name}/blobs/{other.digest}", token)[:7] == [
        "HTTP/1.1 200 OK", "Content-Type: application/octet-stream", "Accept-Ranges: bytes",
        f"Docker-Content-Digest: {other.digest}", f'ETag: "{other.digest}"', f"Content-Length: {other.size}",
        "Docker-Distribution-API-Version: registry/2.0",
    ]  # fmt: skip
    assert sum(delivery.sent) > other.size


@given(st.binary(max_size=300), st.booleans())
def test_arbitrary_bytes_end_in_a_closed_connection(registry: Registry, data: bytes, like_http: bool) -> None:
    client = Client(registry)
    client.socket.sendall((b"GET /v2/" if like_http else b"") + data)
    client.socket.shutdown(socket.SHUT_WR)
    client.read_to_end()
    client.result()
    client.close()


def test_a_silent_client_is_disconnected(registry: Registry) -> None:
    client = Client(registry, timeout=0.1)
    assert (client.read_to_end(), client.result()) == (b"", 0)
    client.close()


def test_a_slow_sender_is_disconnected(registry: Registry) -> None:
    client = Client(registry, timeout=0.3)

    def dribble() -> None:
        for _ in range(15_000):
            client.socket.sendall(b"A")  # as the name of a method begins
            time.sleep(0.02)

    with pytest.raises(ConnectionError):
        dribble()
    client.close()


def test_a_client_that_does_not_read_is_disconnected(registry: Registry, image: OciImage) -> None:
    client = Client(registry, timeout=2)
    client.send(f"GET /v2/app/blobs/{image.layers[-1].digest} HTTP/1.1")
    assert client.result() < len(LARGE)
    client.close()


def test_an_interrupted_transfer_is_resumed_with_a_range(registry: Registry, image: OciImage) -> None:
    layer = image.layers[-1]
    first = Client(registry)
    first.send(f"GET /v2/app/blobs/{layer.digest} HTTP/1.1")
    first.socket.recv(1000)
    first.socket.close()
    assert first.result() < len(LARGE)
    second = Client(registry)
    second.send(f"GET /v2/app/blobs/{layer.digest} HTTP/1.1", "Range: bytes=5000000-")
    response, data = second.response()
    assert (response.status, data) == (206, LARGE[5_000_000:])
    first.close()
    second.close()


def test_progress_counts_every_byte_sent(registry: Registry, image: OciImage) -> None:
    progress: list[int] = []
    client = Client(registry, progress=progress.append)
    client.send(f"GET /v2/app/blobs/{image.layers[-1].digest} HTTP/1.1", "Connection: close")
    received = len(client.read_to_end())
    assert sum(progress) == client.result() == received > len(LARGE)
    assert max(progress) == 128 * 1024
    client.close()


def test_an_exception_in_the_progress_callback_stops_serving(registry: Registry) -> None:
    def stop(sent: int) -> None:
        raise KeyboardInterrupt

    client = Client(registry, progress=stop)
    client.send("GET /v2/ HTTP/1.1")
    client.read_to_end()
    with pytest.raises(KeyboardInterrupt):
        client.result()
    client.close()


def test_a_missing_blob_is_404_and_a_truncated_one_closes_the_connection(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    image = load_image(layout)
    client = Client(Registry(layout, {"app": [image]}))
    target = f"/v2/app/blobs/{image.layers[0].digest}"
    layout.blobs.path(image.layers[0].digest).write_bytes(LAYERS[0][:100])
    client.send(f"GET {target} HTTP/1.1")
    assert client.read_to_end().endswith(LAYERS[0][:100]), "cut, so the client sees that bytes are missing"
    client.close()
    client = Client(Registry(layout, {"app": [image]}))
    layout.blobs.path(image.layers[0].digest).unlink()
    client.send(f"GET {target} HTTP/1.1")
    response, body = client.response()
    assert (response.status, response.getheader("Connection")) == (404, "keep-alive")
    assert body == b'{"errors":[{"code":"BLOB_UNKNOWN","message":"the blob is gone"}]}'
    client.close()


def test_many_connections_at_once_in_little_memory(registry: Registry, image: OciImage) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with ThreadPoolExecutor(16) as pool:
            for _ in range(16):
                pool.submit(serve, registry, listener.accept()[0])

    def fetch(number: int) -> int:
        connection = HTTPConnection("127.0.0.1", listener.getsockname()[1], timeout=300)
        connection.request("GET", f"/v2/app/blobs/{image.layers[-1].digest}")
        with connection.getresponse() as response:
            size = sum(len(data) for data in iter(lambda: response.read(CHUNK), b""))
        connection.close()
        return size

    accepting = threading.Thread(target=accept)
    tracemalloc.start()
    accepting.start()
    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(fetch, range(16))) == {len(LARGE)}
    accepting.join()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    listener.close()
    assert peak < 16 * 4 * CHUNK + 2_000_000

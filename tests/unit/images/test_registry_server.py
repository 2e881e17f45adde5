"""HTTP over one connection: what clients may do, and what they may not do to us."""

import hashlib
import io
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.delivery_images import LAYERS, code, load_image, save_entries, tar
from tfprov.images.archive import load
from tfprov.images.code_layer import append
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import Image
from tfprov.images.registry_routes import Registry
from tfprov.images.registry_server import CHUNK, MAX_HEAD, serve

LARGE = tar({"data": bytes(range(256)) * 40_000})


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return Layout(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def image(layout: Layout) -> Image:
    return load_image(layout, layers=[*LAYERS, LARGE])


@pytest.fixture(scope="module")
def registry(layout: Layout, image: Image) -> Registry:
    return Registry(layout, {"app": [image]})


class Client:
    """The other end of a connection that is being served."""

    def __init__(
        self, registry: Registry, patience: float = 5.0, progress: Callable[[int], None] | None = None
    ) -> None:
        self.socket, served = socket.socketpair()
        self.socket.settimeout(10)
        self._pool = ThreadPoolExecutor(1)
        tell = progress or (lambda sent: None)
        self._served = self._pool.submit(serve, registry, served, tell, patience)

    def sends(self, *lines: str) -> None:
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))

    def response(self, method: str = "GET") -> tuple[HTTPResponse, bytes]:
        """Read one response with a reader that is not ours."""
        response = HTTPResponse(self.socket, method=method)
        response.begin()
        return response, response.read()

    def rest(self) -> bytes:
        """Return all that comes until the connection is closed."""
        received = b""
        with suppress(ConnectionError):  # closed while some of what we sent was not read
            while data := self.socket.recv(CHUNK):
                received += data
        return received

    def sent(self) -> int:
        """Return what serving ended with."""
        return self._served.result(10)

    def close(self) -> None:
        self.socket.close()
        self._pool.shutdown()


@pytest.fixture
def client(registry: Registry) -> Iterator[Client]:
    made = Client(registry)
    yield made
    made.close()


def test_what_docker_saved_arrives_byte_for_byte(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    files = save_entries(("app:1", LAYERS))
    base = load(layout, io.BytesIO(tar(files)), "base")
    top = append(layout, base, code(main=b"1"), "top")
    client = Client(Registry(layout, {"app": [top, base]}))
    arrived = []
    for kind, blob in [("manifests", base.manifest), ("blobs", base.config), *(("blobs", it) for it in top.layers)]:
        client.sends(f"GET /v2/app/{kind}/{blob.digest} HTTP/1.1", "Host: h")
        response, data = client.response()
        assert (response.status, response.will_close) == (200, False)
        assert f"sha256:{hashlib.sha256(data).hexdigest()}" == blob.digest
        arrived.append(data)
    assert arrived[1] in files.values()
    assert tuple(arrived[2:5]) == LAYERS
    client.close()


def test_requests_may_come_all_at_once_and_in_pieces(client: Client, image: Image) -> None:
    request = f"GET /v2/app/blobs/{image.layers[0].digest} HTTP/1.1\r\nHost: h\r\nRange: bytes=5-9\r\n\r\n".encode()
    for byte in request * 3:
        client.socket.sendall(bytes([byte]))
    client.socket.shutdown(socket.SHUT_WR)
    assert client.rest().count(LAYERS[0][5:10]) == 3


def test_a_head_has_the_headers_of_a_get_and_no_body(client: Client, image: Image) -> None:
    seen = []
    for method in ("HEAD", "GET"):
        client.sends(f"{method} /v2/app/blobs/{image.layers[0].digest} HTTP/1.1")
        response, data = client.response(method)
        seen.append((response.status, response.getheaders()))
        assert data == (b"" if method == "HEAD" else LAYERS[0])
    assert seen[0] == seen[1]


def test_errors_leave_the_connection_open(client: Client) -> None:
    for _ in range(2):
        client.sends("GET /v2/other/manifests/latest HTTP/1.1")
        response, data = client.response()
        assert (response.status, response.getheader("Content-Type")) == (404, "application/json")
        assert b'"NAME_UNKNOWN"' in data


@pytest.mark.parametrize("last", [("HTTP/1.1", "Connection: close"), ("HTTP/1.0", "Host: h")])
def test_the_connection_ends_when_the_client_wants_it(client: Client, last: tuple[str, str]) -> None:
    client.sends(f"GET /v2/ {last[0]}", last[1])
    assert client.rest().endswith(b"\r\nConnection: close\r\n\r\n{}")
    client.sent()


def test_a_client_that_writes_is_refused_and_its_body_is_not_taken_for_a_request(client: Client) -> None:
    # In one piece: the server may have closed before a second one is sent.
    client.sends("POST /v2/app/blobs/uploads/ HTTP/1.1", "Content-Length: 22", "", "GET /v2/ HTTP/1.1")
    answer = client.rest()
    assert answer.startswith(b"HTTP/1.1 405 Method Not Allowed\r\n")
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("header", ["Content-Length: 22", "Transfer-Encoding: chunked"])
def test_a_body_where_none_belongs_ends_the_connection(client: Client, header: str) -> None:
    client.sends("GET /v2/ HTTP/1.1", header, "", "GET /v2/ HTTP/1.1")
    assert client.rest().count(b"HTTP/1.1 200") == 1


@pytest.mark.parametrize(
    "head",
    [
        "nonsense",
        "GET /v2/",
        "GET  /v2/ HTTP/1.1",
        "GET /v2/ HTTP/2.0",
        "GET v2 HTTP/1.1",
        "GET http://h/v2/ HTTP/1.1",
        "GET /v2/\u00e9 HTTP/1.1",
        "GET /v2/\x00 HTTP/1.1",
        "GET /v2/ HTTP/1.1\r\nno header",
        "GET /v2/ HTTP/1.1\r\nName : value",
        "GET /v2/ HTTP/1.1\r\n folded: value",
        "GET /v2/ HTTP/1.1\r\nA: b\nC: d",
    ],
)
def test_what_is_not_http_is_answered_once_and_closed(client: Client, head: str) -> None:
    client.sends(head)
    assert client.rest().startswith(b"HTTP/1.1 400 Bad Request\r\n")
    client.sent()


def test_the_greeting_of_tls_is_answered_at_once_so_that_the_engine_goes_on_without(client: Client) -> None:
    client.socket.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    assert client.rest().startswith(b"HTTP/1.1 400 Bad Request\r\n")


def test_a_head_without_end_is_refused_early(client: Client) -> None:
    client.socket.sendall(b"GET /v2/ HTTP/1.1\r\n" + b"A: " + b"a" * (2 * MAX_HEAD))
    assert client.rest().startswith(b"HTTP/1.1 400 ")


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_at_all_end_in_a_closed_connection(registry: Registry, data: bytes, like_http: bool) -> None:
    client = Client(registry)
    client.socket.sendall((b"GET /v2/" if like_http else b"") + data)
    client.socket.shutdown(socket.SHUT_WR)
    client.rest()
    client.sent()
    client.close()


def test_a_client_that_says_nothing_is_let_go(registry: Registry) -> None:
    client = Client(registry, patience=0.1)
    assert (client.rest(), client.sent()) == (b"", 0)
    client.close()


def test_a_client_that_dribbles_is_let_go(registry: Registry) -> None:
    client = Client(registry, patience=0.3)

    def dribble() -> None:
        for _ in range(15_000):
            client.socket.sendall(b"a")
            time.sleep(0.02)

    with pytest.raises(ConnectionError):
        dribble()
    client.close()


def test_a_client_that_does_not_read_is_let_go(registry: Registry, image: Image) -> None:
    client = Client(registry, patience=2)
    client.sends(f"GET /v2/app/blobs/{image.layers[-1].digest} HTTP/1.1")
    assert client.sent() < len(LARGE)
    client.close()


def test_a_client_that_goes_away_in_the_middle_comes_back_for_the_rest(registry: Registry, image: Image) -> None:
    layer = image.layers[-1]
    first = Client(registry)
    first.sends(f"GET /v2/app/blobs/{layer.digest} HTTP/1.1")
    first.socket.recv(1000)
    first.socket.close()
    assert first.sent() < len(LARGE)
    second = Client(registry)
    second.sends(f"GET /v2/app/blobs/{layer.digest} HTTP/1.1", "Range: bytes=5000000-")
    response, data = second.response()
    assert (response.status, data) == (206, LARGE[5_000_000:])
    first.close()
    second.close()


def test_progress_counts_every_byte_sent(registry: Registry, image: Image) -> None:
    told: list[int] = []
    client = Client(registry, progress=told.append)
    client.sends(f"GET /v2/app/blobs/{image.layers[-1].digest} HTTP/1.1", "Connection: close")
    received = len(client.rest())
    assert sum(told) == client.sent() == received > len(LARGE)
    assert max(told) <= CHUNK
    client.close()


def test_whoever_watches_progress_can_stop_it(registry: Registry) -> None:
    def stop(sent: int) -> None:
        raise KeyboardInterrupt

    client = Client(registry, progress=stop)
    client.sends("GET /v2/ HTTP/1.1")
    client.rest()
    with pytest.raises(KeyboardInterrupt):
        client.sent()
    client.close()


def test_a_blob_that_vanished_from_the_disk_is_an_error_and_not_half_an_answer(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    image = load_image(layout)
    client = Client(Registry(layout, {"app": [image]}))
    target = f"/v2/app/blobs/{image.layers[0].digest}"
    layout.blobs.path(image.layers[0].digest).write_bytes(LAYERS[0][:100])
    client.sends(f"GET {target} HTTP/1.1")
    assert client.rest().endswith(LAYERS[0][:100]), "cut, so the client sees that bytes are missing"
    client.close()
    client = Client(Registry(layout, {"app": [image]}))
    layout.blobs.path(image.layers[0].digest).unlink()
    client.sends(f"GET {target} HTTP/1.1")
    assert client.response()[0].status == 404
    client.close()


def test_many_connections_at_once_in_little_memory(registry: Registry, image: Image) -> None:
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

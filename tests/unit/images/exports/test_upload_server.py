"""The registry for uploads, asked by clients that an engine is not: nothing of theirs is kept."""

import gzip
import hashlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.delivery_images import contents, tar
from tests.support.pushing_engine import Client
from tests.support.waiting import LONG
from tfprov.hosts.machine import LocalMachine
from tfprov.images.exports.layer_upload import OPENING, Openings
from tfprov.images.exports.upload_registry import MAX_UPLOADS, UploadRegistry
from tfprov.images.exports.upload_server import serve
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import DOCKER_LAYER, digest_of

STORED, WANTED = tar({"old": os.urandom(200_000)}), tar({"new": os.urandom(200_000)})
LIMIT = 10_000_000


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "images")
    layout.blobs.write(STORED, DOCKER_LAYER)
    return layout


@contextmanager
def serving(layout: Layout, timeout: float = LONG) -> Iterator[tuple[UploadRegistry, Client]]:
    """Yield a registry that wants one layer, and a client with its token; who is silent for `timeout` s is disconnected."""
    stored = layout.blobs.write(STORED, DOCKER_LAYER)
    registry = UploadRegistry(
        layout.blobs, [digest_of(WANTED)], Openings(layout.blobs, [stored]), LIMIT, lambda size: None
    )
    with LocalMachine("h1").remote_forward(lambda connection: serve(registry, connection, timeout)) as port:
        client = Client(port, registry.name, registry.login)
        try:
            yield registry, client
        finally:
            client.connection.close()
            registry.close()
    assert contents(layout) == {digest_of(STORED).removeprefix("sha256:"): STORED}, "nothing was stored"


def patch(client: Client, body: Any, **headers: str) -> tuple[int, Any]:
    """Send `body` as a layer, with Content-Length."""
    answer = client.ask("PATCH", client.begin(), body, **headers)
    client.connection.close()
    return answer


def test_a_wanted_layer_is_there_uncompressed_and_a_stored_one_is_refused(layout: Layout) -> None:
    with serving(layout) as (registry, client):
        assert client.upload(STORED) == "DENIED"
        assert registry.layers is None
        assert client.upload(WANTED) == ""
        assert list(registry.layers or ()) == [digest_of(WANTED)]
        assert client.upload(WANTED) == "", "an engine may try again"


def test_a_layer_that_is_neither_wanted_nor_stored_is_not_kept(layout: Layout) -> None:
    with serving(layout) as (registry, client):
        assert client.upload(tar({"else": b"1"})) == ""
        assert registry.layers is None


def test_without_the_token_every_request_gets_the_same_answer(layout: Layout) -> None:
    with serving(layout) as (registry, client):
        stranger = Client(client.connection.port, registry.name, {"username": "tfprov", "password": "x" * 43})
        for path in ("/v2/", f"/v2/{registry.name}/blobs/uploads/", f"/v2/{registry.name}/blobs/{digest_of(STORED)}"):
            for method in ("GET", "POST", "PATCH", "PUT"):
                assert stranger.ask(method, path) == (401, "UNAUTHORIZED")
        assert stranger.ask("PATCH", f"/v2/{registry.name}/blobs/uploads/", b"1" * 1_000_000)[0] == 401
        assert not registry.was_contacted
        stranger.connection.close()


def test_other_paths_lead_nowhere(layout: Layout) -> None:
    with serving(layout) as (registry, client):
        paths = [
            f"/v2/{registry.name}/blobs/uploads/../../../../etc/passwd",
            f"/v2/{registry.name}/blobs/uploads/%2e%2e%2f{0:032}",
            f"/v2/{registry.name}/../other/blobs/uploads/",
            "/v2/other/blobs/uploads/",
            f"/v2/{registry.name}/blobs/sha256:{0:064}",
            f"/v2/{registry.name}/blobs/uploads/{0:032}",
            f"/v2/{registry.name}/manifests/export",
            "/etc/passwd",
        ]
        for path in paths:
            for method in ("GET", "POST", "PATCH", "PUT"):
                status, code = client.ask(method, path)
                assert status in (400, 404)
                assert code in ("NAME_UNKNOWN", "BLOB_UNKNOWN", "BLOB_UPLOAD_UNKNOWN", "DIGEST_INVALID")


def test_stored_layers_cannot_be_read(layout: Layout) -> None:
    with serving(layout) as (registry, client):
        assert client.upload(WANTED) == ""
        for digest in (
            digest_of(STORED),
            digest_of(WANTED),
            f"sha256:{hashlib.sha256(gzip.compress(WANTED, 1)).hexdigest()}",
        ):
            assert client.ask("GET", f"/v2/{registry.name}/blobs/{digest}") == (404, "BLOB_UNKNOWN")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"no gzip", "damaged"),
        (gzip.compress(WANTED)[:-1000], "cut off"),
        (gzip.compress(WANTED) + b"more", "bytes after the end"),
        (gzip.compress(bytes(LIMIT + 1)), f"more than {LIMIT} bytes"),
        (b"", "cut off"),
    ],
    ids=["no gzip", "cut off", "too long", "larger than the image", "empty"],
)
def test_a_damaged_layer_is_refused(layout: Layout, body: bytes, reason: str) -> None:
    with serving(layout) as (registry, client):
        connection = client.connection
        connection.request("PATCH", client.begin(), body, client.headers)
        response = connection.getresponse()
        assert response.status == 403
        assert reason in response.read().decode()
        assert registry.layers is None


def test_an_endless_layer_ends_at_the_limit(layout: Layout) -> None:
    def endless() -> Iterator[bytes]:
        yield gzip.compress(b"")[:10]  # the header alone
        block = b"\x00\xff\xff\x00\x00" + os.urandom(65_535)  # of deflate, stored
        while True:
            yield block

    with serving(layout) as (registry, client):
        location = client.begin()
        connection = client.connection
        connection.putrequest("PATCH", location)
        for name, value in {**client.headers, "Transfer-Encoding": "chunked"}.items():
            connection.putheader(name, value)
        connection.endheaders()
        with suppress(OSError):  # reset, or a broken pipe
            for piece in endless():
                connection.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        assert registry.layers is None


def test_a_digest_of_something_else_is_refused(layout: Layout) -> None:
    with serving(layout) as (registry, client):
        data, location = gzip.compress(WANTED), client.begin()
        assert client.ask("PATCH", location, data)[0] == 202
        for digest in (f"sha256:{0:064x}", digest_of(WANTED), "md5:1", f"sha256:{'../' * 21}x"):
            assert client.ask("PUT", f"{location}?digest={digest}") == (400, "DIGEST_INVALID")
        assert client.ask("PATCH", location, data)[0] == 416, "a layer comes in one piece"
        client.connection.close()
        assert registry.layers is None


def test_a_client_that_begins_forever_is_refused(layout: Layout) -> None:
    with serving(layout) as (registry, client):
        for _ in range(MAX_UPLOADS - 1):
            registry.begin()
        answers = [client.ask("POST", f"/v2/{registry.name}/blobs/uploads/")[0] for _ in range(2)]
        assert answers == [202, 403]


@pytest.mark.parametrize(
    "start",
    [
        b"\x16\x03\x01\x00\x05hello",
        b"GET /v2/ HTTP/1.1\r\nHost: x",
        b"GET " + b"/" * 70_000,
        b"PATCH /v2/ HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n",
        b"nonsense",
    ],
    ids=["TLS", "half a head", "a long line", "many headers", "no HTTP"],
)
def test_a_connection_that_is_no_request_ends(layout: Layout, start: bytes) -> None:
    with (
        serving(layout, 1.0) as (_, client),
        socket.create_connection(("127.0.0.1", client.connection.port), 20) as stranger,
    ):
        stranger.sendall(start)
        answer = b""
        with suppress(ConnectionResetError):
            while data := stranger.recv(65_536):
                answer += data
        assert answer == b"" or answer.split()[1] in (b"400", b"414", b"431")


def test_what_comes_after_the_export_is_refused(layout: Layout) -> None:
    with serving(layout) as (registry, client):
        location = client.begin()
        registry.close()
        assert client.ask("POST", f"/v2/{registry.name}/blobs/uploads/") == (403, "DENIED")
        with suppress(OSError):  # or the connection ends
            assert client.ask("PATCH", location, gzip.compress(WANTED))[0] == 403


def test_compressed_layers_of_the_layout_are_recognized_and_damaged_ones_are_not(layout: Layout) -> None:
    compressed, damaged = (
        layout.blobs.write(data, f"{DOCKER_LAYER}.gzip") for data in (gzip.compress(STORED), b"\x1f\x8b\x08damaged")
    )
    openings = Openings(layout.blobs, [damaged, compressed])
    assert openings.match(STORED[:OPENING])
    assert not openings.match(STORED[1:OPENING])
    assert not openings.match(b"damaged")

"""The registry for uploads, asked by clients that an engine is not: nothing of theirs is kept."""

import gzip
import hashlib
import json
import os
import shutil
import socket
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from tests.support.delivery_images import contents, tar
from tests.support.pushing_engine import Client
from tests.support.waiting import LONG
from tests.support.wire import Wire
from tfprov.hosts.machine import LocalMachine
from tfprov.images.exports.layer_upload import OPENING, Openings
from tfprov.images.exports.upload_registry import MAX_UPLOADS, LayerRegistry, Refused
from tfprov.images.exports.upload_server import serve
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import DOCKER_LAYER, MAX_DOCUMENT, digest_of

STORED, WANTED = tar({"old": os.urandom(200_000)}), tar({"new": os.urandom(200_000)})
LIMIT = 10_000_000


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "images")
    layout.blobs.write(STORED, DOCKER_LAYER)
    return layout


@contextmanager
def serving(layout: Layout, timeout: float = LONG) -> Iterator[tuple[LayerRegistry, Client]]:
    """Yield a registry that wants one layer, and a client with its token; who is silent for `timeout` s is disconnected."""
    stored = layout.blobs.write(STORED, DOCKER_LAYER)
    registry = LayerRegistry(
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
        (b"no gzip", "Error -3 while decompressing data: incorrect header check"),
        (gzip.compress(WANTED)[:-1000], "the layer is cut off"),
        (gzip.compress(WANTED) + b"more", "bytes after the end of the layer"),
        (gzip.compress(bytes(LIMIT + 1)), f"more than {LIMIT} bytes"),
        (b"", "the layer is cut off"),
    ],
    ids=["no gzip", "cut off", "too long", "larger than the image", "empty"],
)
def test_a_damaged_layer_is_refused(layout: Layout, body: bytes, reason: str) -> None:
    with serving(layout) as (registry, client):
        connection = client.connection
        connection.request("PATCH", client.begin(), body, client.headers)
        response = connection.getresponse()
        assert response.status == 403
        message = f"the layer is damaged: {reason}"
        assert json.loads(response.read()) == {"errors": [{"code": "DENIED", "message": message}]}
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
        socket.create_connection(("127.0.0.1", client.connection.port), 60) as stranger,
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


def unserved(layout: Layout, on_received: Callable[[int], None] = lambda size: None) -> LayerRegistry:
    """Return a registry that wants one layer, of which some bytes more than its own are accepted."""
    stored = layout.blobs.write(STORED, DOCKER_LAYER)
    return LayerRegistry(layout.blobs, [digest_of(WANTED)], Openings(layout.blobs, [stored]), len(WANTED), on_received)


def asked(registry: LayerRegistry, line: str, *headers: str, body: bytes = b"") -> list[str]:
    """Return the lines of the answer to one request with the token, with NAME for the name of the repository."""
    token = b64encode(f"tfprov:{registry.login['password']}".encode()).decode()
    head = [f"{line.replace('NAME', registry.name)} HTTP/1.1", f"Authorization: Basic {token}", *headers, "", ""]
    wire = Wire("\r\n".join(head).encode() + body)
    serve(registry, wire, 7.0)
    assert wire.is_closed
    return [answered.replace(registry.name, "NAME") for answered in wire.answer]


GZIP = gzip.compress(WANTED, 1, mtime=0)
SENT = digest_of(GZIP)
VERSION = "Docker-Distribution-API-Version: registry/2.0"


def answer(status: str, length: int, *headers: str, body: str = "") -> list[str]:
    """Return the lines of an answer: `headers` are those that not every answer has."""
    return [
        f"HTTP/1.1 {status}", "Server: tfprov ", "Content-Type: application/json", f"Content-Length: {length}", *headers,
        VERSION, "", body,
    ]  # fmt: skip


def test_an_upload_is_answered_as_the_specification_has_it(layout: Layout) -> None:
    received: list[int] = []
    registry = unserved(layout, received.append)
    assert asked(registry, "GET /v2/") == answer("200 OK", 2, body="{}")
    begun = asked(registry, "POST /v2/NAME/blobs/uploads/")
    location = begun[4].removeprefix("Location: ")
    identifier = location.rpartition("/")[2]
    upload = (f"Location: /v2/NAME/blobs/uploads/{identifier}", f"Docker-Upload-UUID: {identifier}")
    assert begun == answer("202 Accepted", 0, *upload, "Range: 0-0")
    sent = asked(registry, f"PATCH {location}", f"Content-Length: {len(GZIP)}", body=GZIP)
    assert sent == answer("202 Accepted", 0, *upload, f"Range: 0-{len(GZIP) - 1}")
    assert sum(received) == len(GZIP)
    blob = f"/v2/NAME/blobs/{SENT}"
    headers = (f"Docker-Content-Digest: {SENT}", f"Location: {blob}")
    assert asked(registry, f"PUT {location}?digest={SENT}") == answer("201 Created", 0, *headers)
    assert asked(registry, f"HEAD {blob}") == answer("200 OK", len(GZIP), headers[0])
    registry.close()


def test_an_upload_may_come_in_chunks_and_its_digest_escaped(layout: Layout) -> None:
    registry = unserved(layout)
    upload = f"/v2/NAME/blobs/uploads/{registry.begin()}"
    chunks = b"%x;a=b\r\n%s\r\n%X\r\n%s\r\n0\r\n\r\n" % (10, GZIP[:10], len(GZIP) - 10, GZIP[10:])
    assert asked(registry, f"PATCH {upload}", "Transfer-Encoding: chunked", body=chunks)[0] == "HTTP/1.1 202 Accepted"
    assert asked(registry, f"PUT {upload}?digest={SENT.replace(':', '%3A')}")[0] == "HTTP/1.1 201 Created"
    assert list(registry.layers or ()) == [digest_of(WANTED)]
    registry.close()


def test_an_upload_may_end_with_its_only_piece(layout: Layout) -> None:
    registry = unserved(layout)
    line = f"PUT /v2/NAME/blobs/uploads/{registry.begin()}?digest={SENT}"
    assert asked(registry, line, f"Content-Length: {len(GZIP)}", body=GZIP)[0] == "HTTP/1.1 201 Created"
    assert list(registry.layers or ()) == [digest_of(WANTED)]
    registry.close()


def test_a_client_that_begins_in_tls_is_answered_in_http(layout: Layout) -> None:
    """Docker takes the end of the connection for an answer, and containerd nothing but this."""
    wire = Wire(b"\x16\x03\x01\x00\x05hello")
    serve(unserved(layout), wire)
    assert wire.answer == ["HTTP/1.1 400 Bad Request", "Content-Length: 0", "Connection: close", "", ""]
    assert wire.is_closed


CHUNKED = "Transfer-Encoding: chunked"


@pytest.mark.parametrize(
    ("header", "body"),
    [
        (CHUNKED, b"x\r\n"),
        (CHUNKED, b"3\r\n" + GZIP[:3] + b"--"),
        (CHUNKED, b"3\r\n" + GZIP[:2]),
        (CHUNKED, b"3\r\n" + GZIP[:3] + b"\r\n0\r\n--"),
        ("Content-Length: 4", GZIP[:3]),
    ],
    ids=["no size", "no end of a chunk", "a chunk that is cut off", "no end", "a layer that is cut off"],
)
def test_a_layer_that_is_framed_wrong_gets_no_answer(layout: Layout, header: str, body: bytes) -> None:
    registry = unserved(layout)
    assert asked(registry, f"PATCH /v2/NAME/blobs/uploads/{registry.begin()}", header, body=body) == [""]
    registry.close()
    assert list(contents(layout)) == [digest_of(STORED).removeprefix("sha256:")]


LENGTH = f"Content-Length: {len(GZIP)}"
REFUSED = [
    ("GET /v2/NAME/manifests/1", (), b"", "404 Not Found", "NAME_UNKNOWN", "no such repository"),
    ("POST /v2/other/blobs/uploads/", (), b"", "404 Not Found", "NAME_UNKNOWN", "no such repository"),
    (f"GET /v2/NAME/blobs/{SENT}", (), b"", "404 Not Found", "BLOB_UNKNOWN", "no such layer"),
    (f"HEAD /v2/NAME/blobs/{SENT}", (), b"", "404 Not Found", "", ""),
    (
        "POST /v2/NAME/blobs/uploads/UPLOAD", (), b"", "404 Not Found", "BLOB_UPLOAD_UNKNOWN",
        "an upload begins without an id",
    ),
    (f"PATCH /v2/NAME/blobs/uploads/{0:032}", (), b"", "404 Not Found", "BLOB_UPLOAD_UNKNOWN", "no such upload"),
    ("PATCH /v2/NAME/blobs/uploads/", (), b"", "404 Not Found", "BLOB_UPLOAD_UNKNOWN", "no such upload"),
    (
        "PATCH /v2/NAME/blobs/uploads/UPLOAD", (), b"", "411 Length Required", "SIZE_INVALID",
        "the length of the layer is unknown",
    ),
    (
        "PUT /v2/NAME/blobs/uploads/UPLOAD?digest=md5:1", (), b"", "400 Bad Request", "DIGEST_INVALID",
        "an upload ends with a sha256 digest",
    ),
    (
        "PUT /v2/NAME/manifests/1", (LENGTH,), GZIP, "404 Not Found", "NAME_UNKNOWN", "no such repository",
    ),
    (
        f"PUT /v2/NAME/blobs/uploads/UPLOAD?digest={SENT}", (), b"", "400 Bad Request", "DIGEST_INVALID",
        "the upload has another digest",
    ),
    ("PATCH /v2/NAME/blobs/uploads/SENT", (LENGTH,), GZIP, "416 Requested Range Not Satisfiable", "RANGE_INVALID",
     "a layer comes in one piece"),
    (
        "PATCH /v2/NAME/blobs/uploads/UPLOAD", (f"Content-Length: {len(gzip.compress(STORED))}",), gzip.compress(STORED),
        "403 Forbidden", "DENIED", "this layer is there",
    ),
    ("POST /v2/NAME/blobs/uploads/", (), b"", "403 Forbidden", "DENIED", "it cannot be stored"),
    (
        "PUT /v2/NAME/manifests/1", (f"Content-Length: {MAX_DOCUMENT}",), bytes(MAX_DOCUMENT), "404 Not Found",
        "NAME_UNKNOWN", "no such repository",
    ),
    (
        "PUT /v2/NAME/manifests/1", (f"Content-Length: {MAX_DOCUMENT + 1}",), bytes(MAX_DOCUMENT + 1),
        f"413 {HTTPStatus(413).phrase}", "SIZE_INVALID", "a manifest of more than 4194304 bytes",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "headers", "body", "status", "code", "message"),
    REFUSED,
    ids=[str(number) for number in range(len(REFUSED))],
)
def test_a_request_that_is_refused_has_the_code_and_the_reason(  # noqa: PLR0917
    layout: Layout, line: str, headers: tuple[str, ...], body: bytes, status: str, code: str, message: str
) -> None:
    registry = unserved(layout)
    sent, begun = registry.begin(), registry.begin()
    registry.receive(sent, [GZIP])
    if "it cannot be stored" in message:
        shutil.rmtree(layout.blobs.incoming)
    line = line.replace("UPLOAD", begun).replace("SENT", sent)
    text = json.dumps({"errors": [{"code": code, "message": message}]}, separators=(",", ":"))
    if line.startswith("HEAD"):
        first, *_, last = asked(registry, line)
        assert (first, last) == (f"HTTP/1.1 {status}", "")
    else:
        closes = ("Connection: close",) if body else ()
        assert asked(registry, line, *headers, body=body) == answer(status, len(text), *closes, body=text)
    registry.close()


def test_of_what_a_refused_client_still_sends_16_mib_are_read(layout: Layout) -> None:
    registry = unserved(layout)
    token = b64encode(f"tfprov:{registry.login['password']}".encode()).decode()
    head = f"PATCH /v2/other HTTP/1.1\r\nAuthorization: Basic {token}\r\nContent-Length: 99999999\r\n\r\n"
    wire = Wire(head.encode(), *[bytes(16_384)] * 1100)
    serve(registry, wire, 7.0)
    assert wire.left == 1100 - 1024
    assert wire.answer[0] == "HTTP/1.1 404 Not Found"
    lingering = [seconds or 0 for seconds in wire.seconds[-1024:]]
    assert 1 < lingering[0] <= 2, "and no longer than this"
    assert lingering == sorted(lingering, reverse=True)


def test_after_the_export_nothing_begins_and_nothing_more_is_taken(layout: Layout) -> None:
    registry = unserved(layout)
    identifier = registry.begin()
    registry.close()
    start = gzip.compress(STORED)[:1000]  # of a layer that nothing is kept of until it differs
    for attempt in (registry.begin, lambda: registry.receive(identifier, [start])):
        with pytest.raises(Refused) as raised:
            attempt()
        assert (raised.value.status, raised.value.code, str(raised.value)) == (403, "DENIED", "no more uploads")


def test_who_has_no_token_is_asked_for_one(layout: Layout) -> None:
    registry = unserved(layout)
    assert (registry.login["username"], len(registry.login["password"])) == ("tfprov", 43)
    wire = Wire(b"GET /v2/ HTTP/1.1\r\n\r\n")
    serve(registry, wire)
    text = '{"errors":[{"code":"UNAUTHORIZED","message":"a token is needed"}]}'
    assert wire.answer == answer("401 Unauthorized", len(text), 'WWW-Authenticate: Basic realm="tfprov"', body=text)
    assert wire.seconds[-1] is not None
    assert 59 < max(seconds or 0 for seconds in wire.seconds) <= 60
    for credentials in ("Bearer x", "Basic", "Basic x"):
        with pytest.raises(Refused):
            registry.check_token(credentials)
    assert not registry.was_contacted
    registry.close()


def test_the_head_of_every_request_of_a_connection_has_a_deadline(layout: Layout) -> None:
    registry = unserved(layout)
    head = b"GET /v2/ HTTP/1.1\r\n\r\n"
    wire = Wire(head, head[:10], head[10:])
    serve(registry, wire, 7.0)
    assert wire.sent.count(b"HTTP/1.1 401 Unauthorized") == 2
    assert [seconds for seconds in wire.seconds if seconds is None or 7 <= seconds < 60] == []
    late = Wire(head)
    serve(registry, late, 0.0)
    assert late.seconds[0] == 0.001, "0 would wait for nothing, and fail with another error"
    registry.close()


def test_a_layer_may_take_longer_than_the_head_if_each_piece_comes_in_time(layout: Layout) -> None:
    registry = unserved(layout)
    token = b64encode(f"tfprov:{registry.login['password']}".encode()).decode()
    path = f"/v2/{registry.name}/blobs/uploads/{registry.begin()}"
    head = f"PATCH {path} HTTP/1.1\r\nAuthorization: Basic {token}\r\nContent-Length: {len(GZIP)}\r\n\r\n"
    wire = Wire(head.encode(), *(GZIP[at : at + 50_000] for at in range(0, len(GZIP), 50_000)))
    serve(registry, wire, 7.0)
    assert wire.sent.startswith(b"HTTP/1.1 202 Accepted")
    pieces = -(-len(GZIP) // 50_000)
    assert [seconds for seconds in wire.seconds if seconds == 7] == [7.0] * pieces, "in full for each piece"
    registry.close()


def test_two_hundred_uploads_can_begin(layout: Layout) -> None:
    registry = unserved(layout)
    identifiers = {registry.begin() for _ in range(200)}
    assert {len(identifier) for identifier in identifiers} == {32}
    with pytest.raises(Refused):
        registry.begin()
    registry.close()


def test_a_stored_layer_is_refused_at_its_first_64_kib(layout: Layout) -> None:
    registry = unserved(layout)
    with pytest.raises(Refused, match=r"^this layer is there$"):
        registry.receive(registry.begin(), [gzip.compress(STORED)[:100_000]])
    with pytest.raises(Refused, match=r"^the layer is damaged: the layer is cut off$"):
        registry.receive(registry.begin(), [gzip.compress(STORED)[:50_000]])
    registry.close()


def test_a_layer_may_have_as_many_bytes_as_the_limit_and_no_more(layout: Layout) -> None:
    registry = unserved(layout)
    assert registry.receive(registry.begin(), [GZIP]) == len(GZIP)
    with pytest.raises(Refused, match=f"^the layer is damaged: more than {len(WANTED)} bytes$"):
        registry.receive(registry.begin(), [gzip.compress(WANTED + b"1", 1)])
    registry.close()

"""The relay's program, as processes of this machine: what it sends to whom, and what it does when a source fails."""

import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.delivery import random_image
from tests.support.relays import LocalRelays
from tests.support.waiting import LONG, until
from tfprov.images.oci_layout import Layout
from tfprov.images.relays.program.connections import fill
from tfprov.images.relays.relays import make_certificate

SIZES = (3_000_000, 500_000)


@pytest.fixture
def relays(tmp_path: Path) -> Iterator[LocalRelays]:
    layout = Layout(tmp_path / "images")
    made = LocalRelays(tmp_path, layout, random_image(layout, *SIZES))
    yield made
    made.close()


def layers(relays: LocalRelays) -> list[bytes]:
    return [relays.layout.blobs.path(layer.digest).read_bytes() for layer in relays.image.layers]


def test_layers_leave_the_controller_once_and_go_on_from_relay_to_relay(relays: LocalRelays) -> None:
    numbers = (1, 2, 3, 4)
    with ThreadPoolExecutor() as pool:
        list(pool.map(relays.start, numbers))
        assert list(pool.map(relays.pull, numbers)) == [layers(relays)] * 4
    size = sum(layer.size for layer in relays.image.layers)
    # What has been sent and received is counted, and reported, when others have it already.
    until(lambda: relays.sent > size and sum(it[2] for it in relays.received) >= 3 * size, "all of it is counted")
    assert sum(it[2] for it in relays.received) == 3 * size
    assert size < relays.sent < size + 2000, "and the heads of two answers"
    digest = relays.image.layers[0].digest
    half = relays.get(2, f"blobs/{digest}", Range="bytes=1000000-")
    assert half == (206, layers(relays)[0][1_000_000:]), "an engine resumes"
    status, manifest = relays.get(3, f"manifests/{relays.image.manifest.digest}")
    assert (status, manifest) == (200, relays.layout.blobs.path(relays.image.manifest.digest).read_bytes())
    assert relays.get(3, f"blobs/{digest}", Authorization="Basic bm86bm8=")[0] == 401


def test_a_relay_that_is_killed_in_the_middle_costs_only_what_was_not_sent(relays: LocalRelays) -> None:
    relays.start(1)
    relays.start(2)
    begun = threading.Event()

    def on_sent() -> None:
        begun.set()
        if relays.sent > 1_000_000:
            assert relays.asked_of[1].wait(LONG)
        if relays.sent > 2_000_000 and relays.processes[1].poll() is None:
            relays.end(1)

    relays.on_sent = on_sent
    with ThreadPoolExecutor() as pool:
        first = pool.submit(relays.pull, 1)
        assert begun.wait(LONG)
        second = relays.pull(2)
        assert first.exception() is not None
    assert second == layers(relays)
    assert [number for number, _ in relays.failed] == [1] * len(relays.failed)
    assert relays.failed


def test_strangers_get_nothing(relays: LocalRelays) -> None:
    relays.start(1)
    relays.pull(1)
    peer, digest = relays.peers[1], relays.image.layers[0].digest
    request = f"{digest} 0\n".encode()

    def ask(context: ssl.SSLContext | None, text: bytes = request) -> bytes:
        with socket.create_connection((peer.address, peer.port), 60) as plain:
            try:
                with context.wrap_socket(plain) if context else plain as connection:
                    connection.sendall(text)
                    return connection.recv(100)
            except OSError:
                return b""

    def client(certificate: bytes | None) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if certificate:
            path = relays.directory / "stranger.pem"
            path.write_bytes(certificate)
            context.load_cert_chain(path)
        return context

    assert ask(client(relays.certificate)), "who has the certificate gets the layer"
    assert ask(client(relays.certificate), b"sha256:%s 0\n" % (b"0" * 64)) == b"", "only layers of this run"
    assert ask(client(relays.certificate), b"GET /v2/_catalog HTTP/1.1\r\n\r\n") == b"", "nothing is listed"
    assert ask(client(None)) == b"", "no certificate"
    assert ask(client(make_certificate())) == b"", "that of another run"
    assert ask(None) == b"", "no encryption"
    assert ask(None, f"GET /v2/x/blobs/{digest} HTTP/1.1\r\n\r\n".encode()) == b""


def test_an_engine_that_begins_with_tls_is_answered_in_http(relays: LocalRelays) -> None:
    """containerd turns to HTTP after an answer in HTTP, and after nothing else."""
    relays.start(1)
    context = ssl.create_default_context()
    with (
        socket.create_connection(("127.0.0.1", relays.lines[1].port), 60) as plain,
        pytest.raises(ssl.SSLError, match=r"(?i)wrong.version.number"),
    ):
        context.wrap_socket(plain, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", relays.lines[1].port), 60) as plain:
        plain.sendall(b"\x16\x03\x01\x02\x00" + bytes(50_000))
        plain.shutdown(socket.SHUT_WR)
        received = b"".join(iter(lambda: plain.recv(1000), b""))
    assert received.startswith(b"HTTP/1.1 400 ")


WITHOUT_DESCRIPTORS = """
import os, resource, select, socket
from tfprov.images.relays.program.connections import listen
port = listen("127.0.0.1", lambda connection: connection.sendall(b"served"))
clients, held = [socket.socket() for _ in range(3)], []
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
try:
    while True:
        held.append(os.dup(0))
except OSError:
    pass
for client in clients[:2]:
    client.settimeout(60)
    client.connect(("127.0.0.1", port))
for client in clients[:2]:
    # One is served where the listener waits for it already, with the descriptor that it had taken; then it has none.
    select.select([client], [], [], 0.3)
for descriptor in held:
    os.close(descriptor)
clients[2].connect(("127.0.0.1", port))
print(*(client.recv(6) for client in clients))
"""


def test_a_relay_without_descriptors_serves_again_once_it_has_some() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_DESCRIPTORS], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("b'served' b'served' b'served'\n", "")


WITHOUT_THREADS = """
import socket, threading
from tfprov.images.relays.program.connections import listen
port = listen("127.0.0.1", lambda connection: connection.sendall(b"served"))

def answer():
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        return client.recv(6)

threading.stack_size(1 << 46)  # more than there is
refused = {answer() for _ in range(2)}
threading.stack_size(0)
print(refused, answer())
"""


def test_a_relay_that_can_start_no_thread_serves_again_once_it_can() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_THREADS], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("{b''} b'served'\n", "")


def test_a_relay_with_another_certificate_is_not_believed(relays: LocalRelays) -> None:
    relays.start(1, certificate=make_certificate())
    relays.start(2)
    relays.pull(1)
    assert relays.pull(2) == layers(relays), "from the controller"
    assert {number for number, _ in relays.failed} == {1}
    assert "certificate" in relays.failed[0][1].lower()


def test_a_relay_ends_with_its_line(relays: LocalRelays) -> None:
    relays.start(1)
    process = relays.processes[1]
    relays.close()
    assert process.returncode == 0


def test_a_host_without_the_address_gets_layers_and_sends_none(relays: LocalRelays) -> None:
    relays.start(1, address="192.0.2.1")
    assert relays.peers == {}
    assert "assign" in relays.lines[1].reason
    assert relays.pull(1) == layers(relays)


class Pieces:
    """A connection that ends after so many pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)

    def recv_into(self, view: memoryview) -> int:
        piece = self.pieces.pop(0) if self.pieces else b""
        view[: len(piece)] = piece
        return len(piece)


@pytest.mark.parametrize(
    ("pieces", "filled"), [((b"abc", b"de", b"f"), b"abcdef"), ((b"abcdef",), b"abcdef"), ((b"abc",), b"abc")]
)
def test_what_comes_in_pieces_is_put_together(pieces: tuple[bytes, ...], filled: bytes) -> None:
    content = bytearray(6)
    size = fill(Pieces(*pieces), memoryview(content))
    assert bytes(content[:size]) == filled

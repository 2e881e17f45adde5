"""Relays as processes of this machine, each at an address of the loopback, with the controller's real ends."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path

from tests.support.waiting import LONG
from tfprov.hosts.machine import LocalMachine
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import OciImage
from tfprov.images.registry_server import PushRegistry
from tfprov.images.relays.line import Answers, Line
from tfprov.images.relays.program.main import CERTIFICATE, CONFIG
from tfprov.images.relays.relays import make_certificate
from tfprov.images.relays.sources import Peer, Sources
from tfprov.paths import PACKAGE

PROGRAM = f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); from tfprov.images.relays.program.main import main"


class LocalRelays:
    """Relays for the layers of one image: number 1 at 127.0.1.1, and so on. `sent` counts the controller's bytes."""

    def __init__(self, directory: Path, layout: Layout, image: OciImage) -> None:
        self.directory, self.layout, self.image = directory, layout, image
        self.certificate = make_certificate()
        self.sources = Sources()
        self.received: list[tuple[int, int, int]] = []
        self.failed: list[tuple[int, str]] = []
        self.sent = 0
        self.asked_of: dict[int, threading.Event] = {}
        self.on_sent: Callable[[], None] = lambda: None
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.peers: dict[int, Peer] = {}
        self.lines: dict[int, Line] = {}
        self.registries: dict[int, PushRegistry] = {}
        self._lock = threading.Lock()
        self._ending = ExitStack()

    def start(self, number: int, *, address: str = "", certificate: bytes = b"") -> None:
        """Start a relay and wait until it listens."""
        self.asked_of[number] = threading.Event()
        machine = LocalMachine(f"host{number}")
        registry = self.registries[number] = PushRegistry(self.layout, [self.image], (), self._sent)
        answers = Answers(self._ready, self._want, lambda *it: self.received.append(it), self.sources.remove)
        line = self.lines[number] = Line(number, answers)
        config = {
            "registry_port": self._ending.enter_context(machine.remote_forward(registry.serve)),
            "control_port": self._ending.enter_context(machine.remote_forward(line.serve)),
            "layers": {layer.digest: layer.size for layer in self.image.layers},
            "token": line.token,
            "address": address or f"127.0.1.{number}",
            "name": registry.name,
            "credentials": registry.credentials,
        }
        home = self.directory / str(number)
        home.mkdir()
        (home / CONFIG).write_text(json.dumps(config))
        (home / CERTIFICATE).write_bytes(certificate or self.certificate)
        command = [sys.executable, "-I", "-S", "-c", f"{PROGRAM}; main({str(home)!r})"]
        self.processes[number] = subprocess.Popen(command)
        assert line.is_ready.wait(LONG)
        assert not line.has_ended.is_set()
        assert list(home.iterdir()) == [], "nothing of it is left to read"

    def _ready(self, number: int, port: int) -> None:
        if port:
            self.peers[number] = Peer(number, f"host{number}", f"127.0.1.{number}", port)
            with self._lock:
                self.sources.add(self.peers[number])

    def _want(self, number: int, digest: str, failed: list[tuple[int, str]]) -> Peer | None:
        with self._lock:
            self.failed += failed
            for source, _ in failed:
                self.sources.failed(number, source)
            peer = self.sources.assign(number, digest)
        if peer is not None:
            self.asked_of[peer.number].set()
        return peer

    def _sent(self, size: int) -> None:
        self.sent += size
        self.on_sent()

    def get(self, number: int, path: str, **headers: str) -> tuple[int, bytes]:
        """Return the status and the body of an answer of a relay to its engine, which shows the login."""
        registry = self.registries[number]
        connection = HTTPConnection("127.0.0.1", self.lines[number].port, timeout=60)
        login = {"Authorization": f"Basic {registry.credentials}", **headers}
        connection.request("GET", f"/v2/{registry.name}/{path}", headers=login)
        response = connection.getresponse()
        try:
            return response.status, response.read()
        finally:
            connection.close()

    def pull(self, number: int) -> list[bytes]:
        """Return all layers, as an engine gets them from a relay."""
        answers = [self.get(number, f"blobs/{layer.digest}") for layer in self.image.layers]
        assert [status for status, _ in answers] == [200] * len(answers)
        return [data for _, data in answers]

    def end(self, number: int) -> None:
        """Kill a relay."""
        self.processes[number].kill()
        self.processes[number].wait()

    def close(self) -> None:
        """End the lines; the relays end with them."""
        for line in self.lines.values():
            line.end()
        self._ending.close()
        for process in self.processes.values():
            process.wait(LONG)

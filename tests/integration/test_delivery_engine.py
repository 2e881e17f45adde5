"""Delivery to a real engine: it pulls images assembled without an engine, each byte once."""

import gzip
import io
import os
import re
import shutil
import socket
import socketserver
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.delivery_images import OciArchive
from tests.support.engine import Engine
from tests.support.waiting import LONG
from tfprov.errors import Position
from tfprov.images.archive import load
from tfprov.images.code import Code, pack
from tfprov.images.code_layer import append
from tfprov.images.oci_layout import Layout
from tfprov.images.oci_spec import OciImage
from tfprov.images.registry_routes import Registry
from tfprov.images.registry_server import ByteStream, serve

PROGRAMS = ("sh", "cat", "id", "stat")


class Docker:
    """The command line of an engine; what a test names here is removed after it."""

    def __init__(self, engine: Engine, home: Path) -> None:
        self._argv = ["docker", "--config", str(home), "-H", engine.url]
        self.network = engine.network
        self.names: list[str] = []

    def __call__(self, *argv: str, data: bytes | None = None) -> str:
        done = subprocess.run([*self._argv, *argv], input=data, capture_output=True, timeout=LONG, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()

    def save(self, name: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*self._argv, "save", name], stdout=subprocess.PIPE)

    def start_pull(self, reference: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*self._argv, "pull", reference], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def pull(self, reference: str) -> None:
        self.names.append(reference)
        self("pull", reference)

    def clean(self) -> None:
        for name in self.names:
            subprocess.run([*self._argv, "rmi", name], capture_output=True, check=False)


@pytest.fixture
def docker(engine: Engine, tmp_path: Path) -> Iterator[Docker]:
    made = Docker(engine, tmp_path)
    yield made
    made.clean()


@dataclass
class Served:
    """A registry on a loopback port, as a host sees it through the reverse forward; it counts and can be cut."""

    registry: Registry
    sent: int = 0
    ranges: list[str] = field(default_factory=list)
    cut_after: int | None = None
    cut: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    def count(self, sent: int) -> None:
        self.sent += sent

    def reference(self, image: OciImage) -> str:
        return f"127.0.0.1:{self.port}/tfprov/x@{image.manifest.digest}"


class Watched:
    """A connection that notes what ranges are asked for, and breaks once, in the middle, after `cut_after` bytes."""

    def __init__(self, connection: socket.socket, served: Served) -> None:
        self._socket, self._served, self._sent = connection, served, 0
        self.settimeout, self.close = connection.settimeout, connection.close

    def recv(self, size: int, /) -> bytes:
        data = self._socket.recv(size)
        self._served.ranges += re.findall(r"(?i)range: bytes=(\S+)", data.decode("latin-1"))
        return data

    def sendall(self, data: bytes, /) -> None:
        self._sent += len(data)
        if self._served.cut_after is not None and self._sent > self._served.cut_after:
            self._served.cut_after = None
            self._served.cut.set()
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.sendall(data)


@contextmanager
def serving(docker: Docker, layout: Layout, *images: OciImage, cut_after: int | None = None) -> Iterator[Served]:
    served = Served(Registry(layout, {"tfprov/x": images}), cut_after=cut_after)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            connection: ByteStream = Watched(self.request, served)
            serve(served.registry, connection, served.count)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler, bind_and_activate=False) as server:
        server.socket.close()
        server.socket = docker.network.listener()  # where the engine looks: its loopback is not ours
        server.server_address = server.socket.getsockname()
        served.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield served
        server.shutdown()


def programs() -> bytes:
    """Return a root file system with a shell and three tools of this machine, and the libraries they need."""
    paths = {Path(result) for name in PROGRAMS if (result := shutil.which(name))}
    listed = subprocess.run(["ldd", *sorted(map(str, paths))], capture_output=True, text=True, check=True).stdout
    libraries = {Path(result) for result in re.findall(r"(/\S+) \(0x", listed)}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(paths):
            archive.add(path.resolve(), f"bin/{path.name}")
        for path in sorted(libraries):
            archive.add(path.resolve(), str(path).lstrip("/"))
    return buffer.getvalue()


def code(directory: Path, **files: bytes) -> Code:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    for name, data in files.items():
        (directory / name).write_bytes(data)
        (directory / name).chmod(0o700 if name == "start" else 0o600)
    return pack(directory, Position("test"))


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "images")


@pytest.fixture
def base(docker: Docker, layout: Layout) -> OciImage:
    """Bring an image of two layers, made and saved by the engine, into the layout; the engine forgets it."""
    name = f"tfprov-test-{os.getpid()}"
    docker("import", "-c", "ENV KEPT=yes", "-c", "USER 1000", "-", f"{name}:base", data=programs())
    container = docker("create", f"{name}:base", "sh")
    docker("cp", __file__, f"{container}:/data")
    docker("commit", "-c", "LABEL mine=kept", container, f"{name}:full")
    docker("rm", container)
    with docker.save(f"{name}:full") as save:
        assert save.stdout
        image = load(layout, save.stdout, "base")
    assert docker("inspect", "-f", "{{.Id}}", f"{name}:full") == image.id
    docker("rmi", f"{name}:full", f"{name}:base")
    assert len(image.layers) == 2
    return image


def test_code_put_on_a_saved_image_is_pulled_and_runs_and_an_edit_costs_its_layer(
    docker: Docker, layout: Layout, base: OciImage, tmp_path: Path
) -> None:
    data = os.urandom(300_000)
    top = append(layout, base, code(tmp_path / "code", main=b"1", start=b"#!/bin/sh\nid -u", data=data), "top")
    with serving(docker, layout, top) as served:
        reference = served.reference(top)
        docker.pull(reference)
        assert served.sent < top.size * 1.02
        assert docker("inspect", "-f", "{{.Id}}", reference) == top.id
        seen = docker(
            "run", "--rm", reference, "sh", "-c", "pwd; ./start; echo $KEPT; stat -c '%a %u %Y %n' . * ; cat main"
        )
        files = ["755 0 0 .", "644 0 0 data", "644 0 0 main", "755 0 0 start"]
        assert seen.splitlines() == ["/code", "1000", "yes", *files, "1"]

        edited = append(layout, top, code(tmp_path / "code", main=b"2", data=data), "top")
        served.sent, served.registry = 0, Registry(layout, {"tfprov/x": [edited]})
        docker.pull(served.reference(edited))
        assert edited.layers[-1].size < served.sent <= 1.1 * edited.layers[-1].size
        assert docker("run", "--rm", served.reference(edited), "sh", "-c", "echo *; cat main") == "data main\n2"

        served.sent = 0
        docker.pull(served.reference(edited))
        assert served.sent < 5_000, "what is there is only looked at"


@pytest.mark.parametrize("suffix", ["", "+gzip"])
def test_an_oci_image_is_pulled_as_it_is_and_with_code_on_it(
    docker: Docker, layout: Layout, tmp_path: Path, suffix: str
) -> None:

    layer = programs()
    archive = OciArchive()
    archive.name(archive.image([layer], suffix, [gzip.compress(layer, 1) if suffix else layer]))
    plain = load(layout, io.BytesIO(archive.tar()), "base")
    top = append(layout, plain, code(tmp_path / "code", main=b"1"), "top")
    with serving(docker, layout, plain, top) as served:
        for image, seen in ((plain, "/"), (top, "/code")):
            docker.pull(served.reference(image))
            assert docker("run", "--rm", served.reference(image), "sh", "-c", "pwd") == seen


def test_a_pull_resumes_after_its_connection_is_cut_within_a_layer(
    docker: Docker, layout: Layout, base: OciImage
) -> None:
    with serving(docker, layout, base, cut_after=base.layers[0].size // 2) as served:
        docker.pull(served.reference(base))  # the engine waits 5 s before it tries again
        assert served.cut.is_set()
        assert re.fullmatch(r"[1-9][0-9]+-", served.ranges[0])
        assert served.sent < 1.2 * base.size
        assert docker("run", "--rm", served.reference(base), "sh", "-c", "echo ran") == "ran"


def test_the_next_pull_completes_one_that_failed(docker: Docker, layout: Layout, base: OciImage) -> None:
    with serving(docker, layout, base, cut_after=base.layers[0].size // 2) as served:
        with docker.start_pull(served.reference(base)) as pulling:
            assert served.cut.wait(LONG)
            pulling.kill()
        docker.pull(served.reference(base))
        assert docker("run", "--rm", served.reference(base), "sh", "-c", "echo ran") == "ran"

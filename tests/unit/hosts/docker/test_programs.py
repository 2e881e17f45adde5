"""Programs in containers over connections of our own, from an engine that keeps connections open and upgrades them."""

import io
import json
import socket
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.support.hostile import framed
from tfprov.errors import HostError
from tfprov.hosts.docker import exec as docker_exec
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_api.dial import DeadlineSocket, EngineTimeouts
from tfprov.hosts.docker.engine_api.program import Poster, Program, read_frames
from tfprov.hosts.docker.engine_errors import Refused
from tfprov.hosts.terminal import ExecMode


class UpgradingEngine(socketserver.ThreadingUnixStreamServer):
    """Runs `cat`: what a program is sent comes back in a frame, or as it is from a terminal. `requests` has all POSTs."""

    daemon_threads = True
    status = 101

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), Handler)
        self.requests: list[tuple[int, str, Any]] = []


class Handler(BaseHTTPRequestHandler):
    """Answers on one connection, until a program has it."""

    protocol_version = "HTTP/1.1"
    server: UpgradingEngine

    def do_GET(self) -> None:
        self._answer(200, {"ApiVersion": "1.44"} if self.path.endswith("/version") else {"ExitCode": 7})

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or "null")
        self.server.requests.append((id(self), self.path.removeprefix("/v1.44"), body))
        if self.path.endswith("/c1/exec"):
            self._answer(201, {"Id": "e1"})
        elif self.path.endswith("/start"):
            self._run(body["Tty"])
        elif "/resize" in self.path:
            self._answer(200, {})
        else:
            self._answer(404, {"message": "No such container: gone"})

    def _answer(self, status: int, value: object) -> None:
        data = json.dumps(value).encode()
        self.wfile.write(f"HTTP/1.1 {status} -\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)

    def _run(self, is_terminal: bool) -> None:
        begin = b"" if is_terminal else framed(2, b"begins")
        self.wfile.write(f"HTTP/1.1 {self.server.status} -\r\nConnection: Upgrade\r\n\r\n".encode() + begin)
        while data := self.rfile.read1(100):
            self.wfile.write(data if is_terminal else framed(1, data))
        self.close_connection = True

    def address_string(self) -> str:
        return ""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[UpgradingEngine]:
    with UpgradingEngine(tmp_path / "engine.sock") as serving:
        thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


@pytest.fixture
def engine(server: UpgradingEngine) -> Iterator[Engine]:
    with closing(Engine.local("h1", Path(str(server.server_address)))) as connected:
        yield connected


@pytest.mark.parametrize("status", [101, 200])
def test_a_program_has_the_connection_that_started_it_in_both_directions(
    server: UpgradingEngine, engine: Engine, status: int
) -> None:
    server.status = status
    with closing(engine.start_program("c1", ["cat"], AttachStdin=True)) as program:
        output = program.output(None)
        assert next(output) == (2, b"begins"), "it came with the headers"
        program.send(b"a line\n")
        assert next(output) == (1, b"a line\n")
        program.end_input()
        assert list(output) == []
    assert docker_exec.exit_code(engine, program.id) == 7
    (first, create, asked), (second, start, begun) = server.requests
    assert first == second
    assert (create, start) == ("/containers/c1/exec", "/exec/e1/start")
    assert (asked["Cmd"], asked["AttachStdin"], begun) == (["cat"], True, {"Detach": False, "Tty": False})


def test_an_output_that_was_closed_is_no_error_of_the_engine(engine: Engine) -> None:
    def closed(_descriptor: int, _data: bytes) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        docker_exec.run_attached(engine, "c1", ["cat"], ExecMode(), closed)


def test_a_terminal_has_one_output_and_a_size(server: UpgradingEngine, engine: Engine) -> None:
    with closing(engine.start_program("c1", ["cat"], AttachStdin=True, Tty=True)) as program:
        program.send(b"\x00\x01 a key")
        assert next(program.output(None)) == (1, b"\x00\x01 a key")
        engine.resize_program(program.id, 24, 80)
    assert server.requests[-1][1] == "/exec/e1/resize?h=24&w=80"


def test_an_output_that_ends_within_a_frame_is_no_end_of_the_program() -> None:
    output = read_frames(io.BytesIO(framed(1, b"a line\n") + framed(1, b"another line\n")[:12]))
    assert [next(output), next(output)] == [(1, b"a line\n"), (1, b"anot")]
    with pytest.raises(EOFError):
        next(output)


def test_a_refusal_has_the_status_and_closes_the_connection(engine: Engine) -> None:
    with pytest.raises(Refused, match="No such container") as refused:
        engine.start_program("gone", ["ls"])
    assert refused.value.status == 404


def test_the_input_of_a_program_that_has_ended_can_be_ended(engine: Engine) -> None:
    program = engine.start_program("c1", ["cat"], AttachStdin=True)
    program.close()
    program.end_input()


def test_a_silent_program_is_given_up(engine: Engine) -> None:
    with engine.errors(), closing(engine.start_program("c1", ["cat"], AttachStdin=True)) as program:
        output = program.output(0.05)
        assert next(output) == (2, b"begins")
        with pytest.raises(TimeoutError):
            next(output)


def test_an_engine_that_is_gone_is_an_error_of_its_host(server: UpgradingEngine, engine: Engine) -> None:
    engine.ask()
    Path(str(server.server_address)).unlink()
    with pytest.raises(HostError, match="its Docker engine does not run"):
        engine.start_program("c1", ["ls"])


def test_the_limit_of_a_connection_does_not_change_once_a_thread_may_send(server: UpgradingEngine) -> None:
    sock = DeadlineSocket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(str(server.server_address))
    poster = Poster("h1", lambda: sock, EngineTimeouts())
    with closing(Program(poster, "/v1.44", "c1", {"AttachStdin": True}, lambda _answer: None)) as program:
        assert sock.gettimeout() is None
        output = program.output(None)
        assert next(output) == (2, b"begins")
        assert sock.gettimeout() is None


UNSENDABLE = """
import threading
from tfprov.hosts.terminal import ExecMode, attach

class Program:
    ended = threading.Event()
    def send(self, data):
        raise BlockingIOError
    def end_input(self):
        self.ended.set()
    def output(self):
        yield 1, b"ended" if self.ended.wait(600) else b"waits"

attach(Program(), ExecMode(stdin=True), lambda _descriptor, data: print(data.decode()))
"""


def test_a_program_whose_input_cannot_be_sent_does_not_wait_for_it() -> None:
    done = subprocess.run([sys.executable, "-c", UNSENDABLE], input="x", capture_output=True, text=True, check=True)
    assert done.stdout == "ended\n"

"""What an engine answers at an awkward moment: from one that is scripted, on a socket of its own."""

import json
import socketserver
import struct
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from tfprov.errors import HostError
from tfprov.hosts.docker import exec as docker_exec
from tfprov.hosts.docker import files as docker_files
from tfprov.hosts.docker import logs as docker_logs
from tfprov.hosts.docker.api_types import seconds
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.runtime import DockerRuntime

Answer = tuple[int, bytes]
Answers = Callable[[str], Answer]
"""What the engine says to a path, without the version in front."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Callable[[Answers], Engine]]:
    """Make an engine of answers, each of which leaves in one piece, headers and all."""
    servers: list[tuple[socketserver.BaseServer, threading.Thread]] = []

    def start(answers: Answers) -> Engine:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                path = self.path.removeprefix("/v1.44")
                code, body = (200, b'{"ApiVersion": "1.44"}') if path.endswith("/version") else answers(path)
                head = f"HTTP/1.1 {code} -\r\nConnection: close\r\nContent-Type: application/json\r\n\r\n"
                self.wfile.write(head.encode() + body)

            def do_POST(self) -> None:
                self.do_GET()

            def address_string(self) -> str:
                return ""

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        path = tmp_path / f"engine{len(servers)}.sock"
        server = socketserver.ThreadingUnixStreamServer(str(path), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        servers.append((server, thread))
        thread.start()
        return Engine.local("h1", path)

    yield start
    for server, thread in servers:
        server.shutdown()
        server.server_close()
        thread.join()


def framed(descriptor: int, data: bytes) -> bytes:
    return struct.pack(">BxxxL", descriptor, len(data)) + data


def inspected(status: str) -> dict[str, Any]:
    never = "0001-01-01T00:00:00Z"
    state = {"Status": status, "Running": status == "running", "ExitCode": 0, "StartedAt": never, "FinishedAt": never}
    whole = {"Id": "c1", "Name": "/c1", "Image": "sha256:1", "Created": never, "RestartCount": 0, "HostConfig": {}}
    return {**whole, "State": state, "Config": {"Tty": False}}


def gone(_path: str) -> Answer:
    return 404, b'{"message": "No such container"}'


def test_output_that_comes_with_the_headers_is_output(engine: Callable[[Answers], Engine]) -> None:
    def answers(path: str) -> Answer:
        if path.endswith("/start"):
            return 200, framed(1, b"all of it") + framed(2, b"a word") + framed(1, b"")
        asked.append(path)
        return 200, b'{"ExitCode": 3, "Id": "e1"}' if len(asked) == 4 else b'{"ExitCode": null, "Id": "e1"}'

    asked: list[str] = []
    printed: list[tuple[int, bytes]] = []
    with (there := engine(answers)).errors():
        assert docker_exec.run(there.api, "c1", ["ls"], lambda *piece: printed.append(piece)) == 3
    assert printed == [(1, b"all of it"), (2, b"a word")]


def test_a_container_between_two_lives_is_asked_again_and_one_without_programs_is_not(
    engine: Callable[[Answers], Engine],
) -> None:
    asked: list[str] = []
    refusal = (409, b'{"message": "Container c1 is restarting, wait until the container is running"}')

    def answers(path: str) -> Answer:
        asked.append(path)
        return refusal if path.endswith("/exec") else (404, b'{"message": "Could not find the file"}')

    there, mute = engine(answers), set[str]()
    facts = {"Id": "c1", "State": {"Running": True}}
    with pytest.raises(HostError):
        docker_files.listing(there, facts, "/checkpoints", mute)
    assert not mute
    refusal = (400, b'{"message": "exec: \\"sh\\": executable file not found in $PATH"}')
    with pytest.raises(HostError):
        docker_files.listing(there, facts, "/checkpoints", mute)
    assert mute == {"c1"}


def test_a_container_that_is_removed_after_it_was_listed_is_not_there(engine: Callable[[Answers], Engine]) -> None:
    def answers(path: str) -> Answer:
        lists = {
            "/containers/json": b'[{"Id": "c1"}, {"Id": "c2"}]',
            "/images/json": b"[]",
            "/volumes": b'{"Volumes": []}',
        }
        return next(((200, found) for name, found in lists.items() if path.startswith(f"{name}?")), gone(path))

    runtime = DockerRuntime(engine(answers), "lab", lambda *_: False, lambda _: (0, ""), lambda _: b"")
    assert runtime.observe().containers == ()
    assert list(runtime.logs("ps/0", follow=True)) == []


def test_the_log_of_a_container_that_was_removed_is_at_its_end(engine: Callable[[Answers], Engine]) -> None:
    assert list(docker_logs.lines(engine(gone).api, "c1", None, follow=True)) == []


LINES = [f"2026-01-02T03:04:0{n // 2}.{n % 2}00000000Z line {n}" for n in range(8)]


@pytest.mark.parametrize(
    ("tail", "looks", "shown"),
    [
        (None, [2, 2, 5, 8], range(8)),
        (None, [0, 0, 8], range(8)),
        (3, [5, 8, 8], range(2, 8)),
        (0, [4, 4, 5, 8], range(4, 8)),
        (0, [0, 0, 3], range(3)),
        (0, [3], range(0)),
    ],
)
def test_a_log_that_is_asked_for_again_and_again_has_every_line_once(
    engine: Callable[[Answers], Engine], tail: int | None, looks: list[int], shown: range
) -> None:
    turns = 0

    def answers(path: str) -> Answer:
        nonlocal turns
        if path.endswith("/json"):
            status = "running" if turns < len(looks) - 1 else "exited"
            return 200, json.dumps(inspected(status)).encode()
        asked, there = parse_qs(path.partition("?")[2]), LINES[: looks[turns]]
        turns += 1
        if "since" in asked:
            there = [line for line in there if (seconds(line.partition(" ")[0]) or 0) >= float(asked["since"][0])]
        elif asked["tail"] != ["all"]:
            there = there[-int(asked["tail"][0]) :]
        return 200, b"".join(framed(1, f"{line}\n".encode()) for line in there)

    with (there := engine(answers)).errors():
        found = list(docker_logs.polled(there.api, "c1", tail, threading.Lock(), every=0.001))
    assert found == [f"line {n}" for n in shown]

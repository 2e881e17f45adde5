"""Ctrl-C and SIGTERM while an engine is silent: a verb that only looks ends at once."""

import contextlib
import json
import signal
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support import hostile
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import LONG, until

INVENTORY = """
all:
  vars: {tfprov: {cluster: lab, image: {name: "example/train:1"}, command: [python, train.py]}}
ps: {hosts: {h1: {ansible_connection: local}}}
worker: {hosts: {h1: {ansible_connection: local}}}
"""
LOOKS = {"status": signal.SIGINT, "plan": signal.SIGTERM, "logs": signal.SIGINT, "check": signal.SIGTERM}
AT_ONCE = 30.0
"""Seconds on a busy machine; an engine that answers a ping is given up only after 60."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[tuple[Path, list[int]]]:
    """Yield the socket of an engine that says who it is, and the pids of those whose other questions it does not answer."""
    asked: list[int] = []
    over = threading.Event()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            path = self.rfile.readline().decode().split()[1]
            if path.endswith("/version"):
                self.wfile.write(hostile.answered(json.dumps(hostile.VERSION).encode()))
            elif path.endswith("/_ping"):
                self.wfile.write(hostile.answered(b"OK"))
            elif path.endswith("/networks/bridge"):
                self.wfile.write(hostile.answered(json.dumps(hostile.NETWORK).encode()))
            else:
                asked.append(_peer(self.connection))
                over.wait(LONG)

    path = tmp_path / "e.sock"
    with socketserver.ThreadingUnixStreamServer(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield path, asked
        over.set()
        server.shutdown()
        thread.join()


def _has_asked(pid: int, asked: list[int]) -> bool:
    return pid in asked


def _peer(connection: socket.socket) -> int:
    """Return the pid of the process at the other end of a unix socket."""
    pid, _user, _group = struct.unpack("iii", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(pid)


def test_a_verb_that_only_looks_ends_at_the_first_signal(tmp_path: Path, engine: tuple[Path, list[int]]) -> None:
    path, asked = engine
    wrong = []
    with contextlib.closing(LocalCluster(tmp_path)) as cluster:
        cluster.env["DOCKER_HOST"] = f"unix://{path}"
        cluster.write(INVENTORY)
        for verb, number in LOOKS.items():
            process = cluster.start(verb)
            # By itself: a question of the verb before may be noted after the end of that verb.
            until(partial(_has_asked, process.pid, asked), f"{verb} to ask", of=process)
            begun = time.monotonic()
            process.send_signal(number)
            code = process.wait(LONG)
            took, output = time.monotonic() - begun, process.communicate()[0]
            if code != 128 + number or took > AT_ONCE or "Traceback" in output:
                wrong.append(f"{verb}, {number.name}: exit code {code} after {took:.1f} s\n{output}")
    assert not wrong, "\n".join(wrong)

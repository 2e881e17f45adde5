"""The forward of a local port: many connections, and what a browser sees when the host is lost."""

import socket
import threading
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, cast

from tfprov.errors import HostError
from tfprov.hosts.ssh.connection import Connection
from tfprov.hosts.ssh.errors import connection_lost
from tfprov.hosts.ssh.http_gate import TokenGate
from tfprov.hosts.ssh.local_forward import LocalForward


class Channel:
    """A channel that answers nothing until the connection is lost, which looks like the end of its data."""

    def __init__(self) -> None:
        self.lost, self.asked = threading.Event(), threading.Event()
        self.closed = self.eof_received = False

    def recv(self, _size: int) -> bytes:
        self.lost.wait(60)
        return b""

    def send(self, data: bytes) -> int:
        self.asked.set()
        return len(data)

    def shutdown_write(self) -> None:
        pass

    def close(self) -> None:
        self.lost.set()


class Lost:
    """A connection to h1 over which `channel` is opened."""

    host, alive, target = "h1", False, SimpleNamespace(connect_timeout=1.0)

    def __init__(self, channel: Channel) -> None:
        self.transport = SimpleNamespace(open_channel=lambda *_, **__: channel)

    def channel_error(self, action: str) -> HostError:
        return connection_lost(self.host, action)


def test_a_request_ends_when_the_host_is_lost() -> None:
    trial, channel, gate = Channel(), Channel(), TokenGate()
    connections: list[Any] = [Lost(trial), Lost(channel)]
    forward = LocalForward(lambda: cast(Connection, connections.pop(0)), "127.0.0.1", 6006, gate=gate)
    with forward, socket.create_connection(("127.0.0.1", forward.port), 60) as browser:
        browser.sendall(f"GET / HTTP/1.1\r\nAuthorization: Bearer {gate.token}\r\n\r\n".encode())
        assert channel.asked.wait(60)
        channel.lost.set()
        assert browser.recv(1) == b""


def test_a_notebook_with_many_open_kernels_is_still_answered() -> None:
    channels, gate = [Channel() for _ in range(33)], TokenGate()
    connections: list[Any] = [Lost(channel) for channel in channels]
    forward = LocalForward(lambda: cast(Connection, connections.pop(0)), "127.0.0.1", 8888, gate=gate)
    with ExitStack() as stack:
        stack.enter_context(forward)
        for channel in channels[1:]:  # each of them stays open, as the websocket of a kernel does
            browser = stack.enter_context(socket.create_connection(("127.0.0.1", forward.port), 60))
            browser.sendall(f"GET / HTTP/1.1\r\nAuthorization: Bearer {gate.token}\r\n\r\n".encode())
            assert channel.asked.wait(60)

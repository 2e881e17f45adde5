"""Serves the page on this machine's loopback until it is interrupted."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn

from tfprov.dashboard.app import application
from tfprov.dashboard.guard import Guard
from tfprov.errors import Usage
from tfprov.history.reader import RunHistory
from tfprov.hosts.ssh.http_gate import TokenGate

_STOP = 1
"""Seconds that open streams get at the end."""


@dataclass(frozen=True)
class Dashboard:
    """A bound socket of the loopback, and the token without which nothing is answered."""

    listener: socket.socket
    gate: TokenGate

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return int(self.listener.getsockname()[1])

    @property
    def url(self) -> str:
        """The address to open in a browser."""
        return f"http://127.0.0.1:{self.port}/{self.gate.query()}"

    def serve(self, history: RunHistory) -> None:
        """Answer requests until SIGINT or SIGTERM."""
        app = Guard(application(history), self.gate, self.port)
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, server_header=False, lifespan="off",
            timeout_graceful_shutdown=_STOP, limit_concurrency=64,
        )  # fmt: skip
        uvicorn.Server(config).run(sockets=[self.listener])


@contextmanager
def bound(port: int | None) -> Iterator[Dashboard]:
    """Yield the page at a port of the loopback, a free one by default. Raises Usage for a port that is taken."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port or 0))
            listener.listen()  # a browser that is quicker than the server waits for it
        except OSError as error:
            raise Usage(f"port {port} of 127.0.0.1: {error.strerror}", "choose another --port, or none") from None
        yield Dashboard(listener, TokenGate())

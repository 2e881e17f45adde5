"""Serves the page on this machine's loopback until it is interrupted."""

import asyncio
import logging
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
"""Seconds that responses get at the end, such as one to a browser that takes nothing any more."""


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
        stopping = asyncio.Event()
        app = Guard(application(history, stopping), self.gate, self.port)
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, server_header=False, lifespan="off",
            timeout_graceful_shutdown=_STOP, limit_concurrency=64,
        )  # fmt: skip
        Server(config, stopping).run(sockets=[self.listener])


class Server(uvicorn.Server):
    """Sets `stopping` when it stops, so that streams end by themselves, and reports no response that it then cancels."""

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, and then as uvicorn does."""
        self._stopping.set()
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        await super().shutdown(sockets)


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

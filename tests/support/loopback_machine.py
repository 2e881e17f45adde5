"""The machine of the tests' engine: what listens on its loopback is in another network namespace than the tests."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.engine import Engine
from tfprov.hosts.machine import LocalMachine, Serve


class LoopbackMachine(LocalMachine):
    """A LocalMachine whose forwarded ports are where `private` looks for them: on the loopback of its own network."""

    def __init__(self, host: str, private: Engine) -> None:
        super().__init__(host, private.socket)
        self._network = private.network

    @contextmanager
    def remote_forward(self, serve: Serve) -> Iterator[int]:
        """See Machine."""

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True

        with Server(("", 0), Handler, bind_and_activate=False) as server:
            server.socket.close()
            server.socket = self._network.listener()
            thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
            thread.start()
            try:
                yield server.socket.getsockname()[1]
            finally:
                server.shutdown()

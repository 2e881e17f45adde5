"""A TCP proxy on the loopback whose connections break, and that counts what passes."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_CHUNK = 64 * 1024


class CuttingProxy:
    """Passes connections on to `port`; every `every` bytes from there, the connection that gets them is cut, `cuts` times.

    `received` counts the bytes that clients were sent. What they were sent before a cut arrives.
    """

    def __init__(self, port: int, every: int = 0, cuts: int = 0) -> None:
        self._to, self.every, self.cuts = port, every, cuts
        self.received = self._since = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
                self._sockets += (client, server)
                threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()
                threading.Thread(target=self._pass_back, args=(server, client), daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(_CHUNK):
                server.sendall(data)
        _end(server)

    def _pass_back(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(_CHUNK):
                client.sendall(data)
                if self._is_cut(len(data)):
                    break
        _end(client)
        _end(server)

    def _is_cut(self, size: int) -> bool:
        with self._lock:
            self.received += size
            self._since += size
            cut = self.cuts > 0 and self._since >= self.every
            if cut:
                self.cuts -= 1
                self._since = 0
        return cut

    def close(self) -> None:
        """Close everything."""
        for one in (self._listener, *self._sockets):
            _end(one)
            one.close()


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_WR)


@contextmanager
def cutting(port: int, every: int = 0, cuts: int = 0) -> Iterator[CuttingProxy]:
    """Run a proxy for the length of a `with`."""
    proxy = CuttingProxy(port, every, cuts)
    try:
        yield proxy
    finally:
        proxy.close()

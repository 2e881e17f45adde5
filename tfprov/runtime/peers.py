"""Whether the other tasks still serve: asked of their ports, because TensorFlow waits for a lost peer in silence.

A gRPC server greets whoever connects (HTTP/2 wants its SETTINGS frame first of all). A port that only accepts is a
proxy without its container, or a process that was frozen: that is no answer.
"""

import socket
import threading
from collections.abc import Callable, Mapping

INTERVAL = 1.0
"""Seconds between two looks: less than any task needs to come back, so no restart passes unseen."""
TIMEOUT = 10.0
"""Seconds a peer has to greet: its threads may wait for a core."""
REFUSALS = 2
"""How many looks in a row must fail before a peer is lost."""


def greets(address: str, timeout: float = TIMEOUT) -> bool:
    """Return whether a server answers at `address` (`host:port`) within `timeout` seconds."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout) as connection:
            return bool(connection.recv(1))
    except OSError:
        return False


def silent(peers: Mapping[str, str], timeout: float = 1.0) -> list[str]:
    """Return those of `peers` (name to address) that do not answer, as `ps/0 at h:2222`."""
    return [f"{name} at {address}" for name, address in peers.items() if not greets(address, timeout)]


class Watch:
    """Calls `lost` with each peer that answered once and has left, as `ps/0 at h:2222`, from a thread; `stop` ends it."""

    def __init__(self, peers: Mapping[str, str], lost: Callable[[str], None]) -> None:
        self.peers, self.lost = dict(peers), lost
        self._over = threading.Event()
        # A thread a peer: one that is slow to answer must not hide another that is gone.
        self._threads = [
            threading.Thread(target=self._look, args=peer, name=f"tfprov-{peer[0]}", daemon=True)
            for peer in self.peers.items()
        ]

    def start(self) -> None:
        """Begin to look."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Look no more; what is being asked now is not told."""
        self._over.set()

    def _look(self, name: str, address: str) -> None:
        seen, failed = False, 0
        while not self._over.wait(INTERVAL):
            answers = greets(address)
            seen, failed = seen or answers, 0 if answers else failed + 1
            if seen and failed >= REFUSALS and not self._over.is_set():
                self.lost(f"{name} at {address}")
                return

"""Whether the other tasks of a training answer, and which of them left."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

CHECK_INTERVAL = 1.0
"""Seconds between two checks: less than any task needs to restart, so that no restart is missed."""
GREETING_TIMEOUT = 10.0
"""Seconds a peer has to send its first byte: its threads may wait for a core."""
MAX_MISSED = 2
"""Failed checks in a row after which a peer is lost."""


def greets(address: str, timeout: float = GREETING_TIMEOUT) -> bool:
    """Return whether a server answers at `address` (`host:port`) within `timeout` seconds."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout) as connection:
            return bool(connection.recv(1))
    except (OSError, UnicodeError):  # the latter for a name that cannot be one of a host
        return False


def unreachable_peers(peers: Mapping[str, str], timeout: float = GREETING_TIMEOUT) -> list[str]:
    """Return the `peers` (name to address) that do not answer within `timeout` seconds, as `ps/0 at h:2222`.

    They are asked side by side: each that is silent takes all of the time.
    """

    def silent(peer: tuple[str, str]) -> str:
        return "" if greets(peer[1], timeout) else f"{peer[0]} at {peer[1]}"

    with ThreadPoolExecutor(max(1, len(peers))) as pool:
        return list(filter(None, pool.map(silent, peers.items())))


class PeerWatch:
    """Calls `lost` from a thread with each peer that answered once and then left, as `ps/0 at h:2222`.

    `interval` is the seconds between two checks of a peer, `patience` those without an answer in which it may come back,
    `was_up` whether the peers have answered already.
    """

    def __init__(
        self,
        peers: Mapping[str, str],
        lost: Callable[[str], None],
        interval: float = CHECK_INTERVAL,
        patience: float = 0.0,
        *,
        was_up: bool = False,
    ) -> None:
        self.peers, self.lost, self.interval, self.patience = dict(peers), lost, interval, patience
        self.was_up = was_up
        self._over = threading.Event()
        # A thread per peer: a slow one must not hide another that is gone.
        self._threads = [
            threading.Thread(target=self._check_peer, args=peer, name=f"tfprov-{peer[0]}", daemon=True)
            for peer in self.peers.items()
        ]

    def start(self) -> None:
        """Start the checks."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop the checks; one that is running reports nothing."""
        self._over.set()

    def _check_peer(self, name: str, address: str) -> None:
        was_up, missed, since = self.was_up, 0, 0.0
        while not self._over.wait(self.interval):
            since = since if missed else time.monotonic()
            answers = greets(address)
            was_up, missed = was_up or answers, 0 if answers else missed + 1
            is_lost = was_up and missed >= MAX_MISSED and time.monotonic() - since >= self.patience
            if is_lost and not self._over.is_set():
                self.lost(f"{name} at {address}")
                return

"""Ports on the loopback for what the tests start, and start again."""

import os
import socket
import time
from dataclasses import dataclass


@dataclass
class _Range:
    """`size` ports from `low` on, of which those from `position` on are given out next."""

    low: int
    size: int
    position: int

    def free(self, count: int) -> int:
        for _ in range(self.size):
            if self.position + count > self.size:
                self.position = 0
            first = self.low + self.position
            if all(_is_free(port) for port in range(first, first + count)):
                self.position += count
                return first
            self.position += 1
        raise RuntimeError(f"no {count} free ports in a row from {self.low} on")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


_SIZE = 5000
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_RANGE = _Range(10_000 + _SIZE * (_WORKER % 4), _SIZE, int(time.monotonic() * 100) % _SIZE)
"""Below the ephemeral ports (32768 and up, on Linux): while a task that was killed is away, the kernel would give its
port to a client, even to the one that tries to reach it, and then the task could not come back. Apart for each of pytest's
parallel workers, and begun at another place by each run."""


def free_ports(count: int) -> int:
    """Return the first of `count` consecutive ports that are free, and that nobody else here was given lately."""
    return _RANGE.free(count)


def free_port() -> int:
    """Return one of them."""
    return free_ports(1)

"""Allocate loopback ports for tasks that tests start and restart."""

import atexit
import os
import socket
import threading
from dataclasses import dataclass
from functools import cache

LOWEST, HIGHEST = 10_000, 32_000
"""Below the ephemeral ports (32768 and up, on Linux): while a task that was killed is away, the kernel would give its
port to a client, even to the one that tries to reach it, and then the task could not come back."""
SIZE = 500


@dataclass
class PortRange:
    """`size` ports from `low` on, which belong to this process as long as it lives.

    Its first port is the lock: bound and never listened at, so that the kernel keeps every other process out and lets
    go of it when this one ends, however it ends.
    """

    low: int
    size: int
    lock: socket.socket
    position: int = 1

    def free(self, count: int) -> int:
        """Return the first of `count` consecutive free ports, of those that were not returned lately."""
        for _ in range(self.size):
            if self.position + count > self.size:
                self.position = 1
            first = self.low + self.position
            if all(_is_free(port) for port in range(first, first + count)):
                self.position += count
                return first
            self.position += 1
        raise RuntimeError(f"no {count} free ports in a row from {self.low} on")


def lock_range(lowest: int = LOWEST, highest: int = HIGHEST, size: int = SIZE) -> PortRange:
    """Lock the first range that no other process has, be it another worker of this session or another session."""
    for low in range(lowest, highest - size + 1, size):
        lock = socket.socket()
        try:
            lock.bind(("127.0.0.1", low))
        except OSError:
            lock.close()
        else:
            return PortRange(low, size, lock)
    raise RuntimeError(f"other test sessions have all ports from {lowest} to {highest}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@cache
def _ours() -> PortRange:
    ours = lock_range()
    atexit.register(ours.lock.close)
    return ours


# A fork of this process gets a range of its own: two that hand out the same ports start tasks on each other's.
os.register_at_fork(after_in_child=_ours.cache_clear)
_ASKING = threading.Lock()
os.register_at_fork(before=_ASKING.acquire, after_in_parent=_ASKING.release, after_in_child=_ASKING.release)


def free_ports(count: int) -> int:
    """Return the first of `count` consecutive ports that are free, and that no thread got lately."""
    with _ASKING:
        return _ours().free(count)


def free_port() -> int:
    """Return one of them."""
    return free_ports(1)

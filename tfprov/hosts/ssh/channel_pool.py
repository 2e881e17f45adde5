"""Limit the sessions per host, and add connections if sshd allows fewer sessions per connection (MaxSessions)."""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from tfprov.errors import TfprovError
from tfprov.hosts.ssh.errors import ConnectionLost


class PooledConnection(Protocol):
    """A connection on which sessions are opened."""

    @property
    def alive(self) -> bool:
        """Whether the connection can be used."""
        ...

    def try_session(self) -> Any:
        """Return a new session channel, or None if sshd refuses one. Raises ConnectionLost."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


ConnectionT = TypeVar("ConnectionT", bound=PooledConnection)


class ExtraConnections(Generic[ConnectionT]):
    """Connections to a host besides its first; `connect` opens another. Thread-safe.

    SessionSlots of the first connection bounds their number. After the host refuses a connection, no more are attempted.
    """

    def __init__(self, connect: Callable[[], ConnectionT]) -> None:
        self._connect = connect
        self._opening = threading.Lock()  # held while the host is waited for; `close` needs the other one alone
        self._lock = threading.Lock()
        self._connections: list[ConnectionT] = []
        self._refused = False
        self._closed = False

    @property
    def are_open(self) -> bool:
        """Whether the first connection alone has not sufficed before."""
        return bool(self._connections)

    def open_session(self, *, may_connect: bool) -> tuple[ConnectionT, Any] | None:
        """Return a connection and a new session on it, or None if none is available.

        Opens another connection only if `may_connect`.
        """
        with self._opening:
            with self._lock:
                connections = self._connections = [one for one in self._connections if one.alive]
            for connection in connections:
                if (session := _try_session(connection)) is not None:
                    return session
            if not may_connect or self._refused or self._closed:
                return None
            return self._open_on_new_connection()

    def _open_on_new_connection(self) -> tuple[ConnectionT, Any] | None:
        try:
            connection = self._connect()
        except TfprovError:  # the caller reports that no session is available
            self._refused = True
            return None
        if (session := _try_session(connection)) is None:
            self._refused = True
            connection.close()
            return None
        with self._lock:
            if not self._closed:
                self._connections.append(connection)
                return session
        connection.close()
        return None

    def close(self) -> None:
        """Close all connections and refuse further ones."""
        with self._lock:
            self._closed = True
            connections, self._connections = self._connections, []
        for connection in connections:
            connection.close()


def _try_session(connection: ConnectionT) -> tuple[ConnectionT, Any] | None:
    try:
        channel = connection.try_session()
    except ConnectionLost:
        return None
    return None if channel is None else (connection, channel)


_RECLAIM_INTERVAL = 0.2
"""Seconds between requests to release idle slots: a slot that was busy may have become idle since."""


class SessionSlots:
    """`size` slots for sessions. Each of `release_idle` releases slots that its owner holds without using them.

    A SimpleQueue instead of a semaphore: the garbage collector may call put() while the same thread is inside get(), when
    it collects a channel that was not closed.
    """

    def __init__(self, size: int, release_idle: Sequence[Callable[[], None]] = ()) -> None:
        self._free: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._release_idle = release_idle
        for _ in range(size):
            self._free.put(None)

    def acquire(self, timeout: float) -> bool:
        """Take a slot, waiting up to `timeout` seconds; return whether one was free."""
        deadline = time.monotonic() + timeout
        while True:
            if self._free.empty():
                self.reclaim_idle()
            try:
                self._free.get(timeout=max(0.0, min(_RECLAIM_INTERVAL, deadline - time.monotonic())))
            except queue.Empty:
                if time.monotonic() < deadline:
                    continue
                return False
            return True

    def release(self) -> None:
        """Return a slot."""
        self._free.put(None)

    def reclaim_idle(self) -> None:
        """Ask the owners of idle slots to release them."""
        for release_idle in self._release_idle:
            release_idle()

"""Further connections to a host whose sshd allows fewer sessions on one connection than are needed (MaxSessions)."""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from tfprov.errors import TfprovError
from tfprov.hosts.ssh.errors import ConnectionLost


class Pooled(Protocol):
    """A connection on which sessions are opened."""

    @property
    def alive(self) -> bool:
        """Whether the connection can be used."""
        ...

    def try_session(self) -> Any:
        """Return a new session channel; None when sshd refuses one for now. Raises ConnectionLost."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


Link = TypeVar("Link", bound=Pooled)


class Spares(Generic[Link]):
    """The connections besides a host's first one; `connect` makes another. Safe to use from several threads.

    Their number needs no limit of its own: there are no more than sessions that the first connection has slots for. Once
    the host has refused one, no other is tried.
    """

    def __init__(self, connect: Callable[[], Link]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._links: list[Link] = []
        self._refused = False
        self._closed = False

    @property
    def are_needed(self) -> bool:
        """Whether the first connection has been too few before."""
        return bool(self._links)

    def session(self, *, more: bool) -> tuple[Link, Any] | None:
        """Return a session and its connection, on a new one where `more` allows it; None when there is none for now."""
        with self._lock:
            self._links = [link for link in self._links if link.alive]
            for link in self._links:
                if (found := _session(link)) is not None:
                    return found
            if not more or self._refused or self._closed:
                return None
            return self._on_another()

    def _on_another(self) -> tuple[Link, Any] | None:
        try:
            link = self._connect()
        except TfprovError:  # who waits for a session is told that there is none
            self._refused = True
            return None
        if (found := _session(link)) is None:
            self._refused = True
            link.close()
            return None
        self._links.append(link)
        return found

    def close(self) -> None:
        """Close all of them; there will be no other."""
        with self._lock:
            self._closed = True
            links, self._links = self._links, []
        for link in links:
            link.close()


def _session(link: Link) -> tuple[Link, Any] | None:
    try:
        channel = link.try_session()
    except ConnectionLost:
        return None
    return None if channel is None else (link, channel)


_AGAIN = 0.2
"""Seconds between two questions for places held idle: one that was busy at the first may have become idle since."""


class Slots:
    """`size` places. `let_go` are functions of those who hold places idle: each gives back what it can do without.

    A SimpleQueue and no semaphore: its put() may be called while the same thread is inside get(), as the garbage
    collector does with a channel that nobody closed.
    """

    def __init__(self, size: int, let_go: Sequence[Callable[[], None]] = ()) -> None:
        self._free: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._let_go = let_go
        for _ in range(size):
            self._free.put(None)

    def take(self, patience: float) -> bool:
        """Take a place, waiting up to `patience` seconds; return whether there was one."""
        deadline = time.monotonic() + patience
        while True:
            if self._free.empty():
                self.reclaim()
            try:
                self._free.get(timeout=max(0.0, min(_AGAIN, deadline - time.monotonic())))
            except queue.Empty:
                if time.monotonic() < deadline:
                    continue
                return False
            return True

    def give(self) -> None:
        """Give a place back."""
        self._free.put(None)

    def reclaim(self) -> None:
        """Ask for the places that are held idle."""
        for let_go in self._let_go:
            let_go()

"""Further connections to a host whose sshd allows fewer sessions on one connection than are needed (MaxSessions)."""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfprov.errors import TfprovError
from tfprov.hosts.foreign import ConnectionLost

if TYPE_CHECKING:
    from tfprov.hosts.ssh_link import Link


class Spares:
    """The connections besides a host's first one; `connect` makes another. Safe to use from several threads.

    Their number needs no limit of its own: there are no more than sessions that the first connection has slots for. Once
    the host has refused one, no other is tried.
    """

    def __init__(self, connect: "Callable[[], Link]") -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._links: list[Link] = []
        self._refused = False
        self._closed = False

    @property
    def are_needed(self) -> bool:
        """Whether the first connection has been too few before."""
        return bool(self._links)

    def session(self, *, more: bool) -> "tuple[Link, Any] | None":
        """Return a session and its connection, on a new one where `more` allows it; None when there is none for now."""
        with self._lock:
            self._links = [link for link in self._links if link.alive]
            for link in self._links:
                if (found := _session(link)) is not None:
                    return found
            if not more or self._refused or self._closed:
                return None
            return self._on_another()

    def _on_another(self) -> "tuple[Link, Any] | None":
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


def _session(link: "Link") -> "tuple[Link, Any] | None":
    try:
        channel = link.try_session()
    except ConnectionLost:
        return None
    return None if channel is None else (link, channel)

"""Whether an engine's containers have changed, by its event stream: one connection, and no thread that waits for it.

Any event is a reason to look at the host; what has happened is then read from its containers.
"""

import json
import select
import socket
import time
from collections.abc import Sequence
from http.client import HTTPResponse
from typing import Any, cast
from urllib.parse import urlencode

from tfprov.errors import HostError
from tfprov.hosts import bounds
from tfprov.hosts.docker.engine_api.dial import EngineStream, EngineTimeouts
from tfprov.hosts.docker.engine_api.pipeline import REQUEST, Reader

_ACTIONS = (
    "create",
    "start",
    "restart",
    "die",
    "oom",
    "kill",
    "stop",
    "pause",
    "unpause",
    "rename",
    "update",
    "destroy",
)
"""Of a container; programs that run beside a task, as for reading its files, are no change."""


def events_path(labels: Sequence[str]) -> str:
    """Return the path for the changes, from now on, of containers with all `labels`."""
    filters = {"type": ["container"], "event": list(_ACTIONS), "label": list(labels)}
    return f"/events?{urlencode({'filters': json.dumps(filters)})}"


class EngineChanges:
    """See Changes. `sock` is a connection of its own to an engine; `path` that of its events. Raises HostError and OSError.

    An engine sends the headers of its answer just before it begins to follow its events: what happens in between is seen
    by a look a second later.
    """

    def __init__(self, host: str, sock: Any, path: str, timeouts: EngineTimeouts) -> None:
        self._sock = sock
        self.is_open = True
        try:
            sock.settimeout(timeouts.query)
            sock.deadline = time.monotonic() + bounds.TOTAL_FACTOR * timeouts.query
            sock.sendall(REQUEST.format(path).encode())
            _read_headers(host, sock)
            sock.deadline = None
        except BaseException:
            self.close()
            raise

    def happened(self) -> bool:
        """See Changes. Reads a chunk at a time: an engine may send events without end."""
        if not self.is_open:
            return True
        try:
            if changed := _has_data(self._sock):
                self.is_open = bool(self._sock.recv(bounds.CHUNK))
        except (HostError, OSError):
            self.is_open = changed = False
        if not self.is_open:
            self.close()
        return changed or not self.is_open

    def close(self) -> None:
        """See Changes."""
        self.is_open = False
        self._sock.close()


def _has_data(sock: "EngineStream | socket.socket") -> bool:
    """Whether a read would not block."""
    if isinstance(sock, EngineStream):
        return bool(sock.has_data)
    poll = select.poll()  # select() takes no descriptor above 1,023, as a controller of many hosts has
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def _read_headers(host: str, sock: Any) -> None:
    response = HTTPResponse(cast(Any, Reader(sock, lambda: False)), method="GET")
    response.begin()
    if response.status != 200:
        raise HostError(host, f"its Docker engine does not report events (status {response.status})")

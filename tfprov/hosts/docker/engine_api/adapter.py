"""Lets the docker SDK send its requests over sockets of ours, instead of addresses."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from http.client import HTTPResponse
from typing import Any

import urllib3
from docker.transport.basehttpadapter import BaseHTTPAdapter

from tfprov.errors import HostError
from tfprov.hosts import bounds
from tfprov.hosts.docker.engine_api.dial import EngineStream
from tfprov.hosts.ssh.errors import TimedOut

_MAX_IDLE = 4
"""Idle channels kept open: most of the SDK's work needs one."""


class Adapter(BaseHTTPAdapter):
    """The requests adapter for a pool of connections made by `dial`."""

    def __init__(self, dial: Callable[[], Any], timeout: float) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._dial, self._timeout = dial, timeout
        self._pool: _Pool | None = None

    def get_connection(self, url: Any, proxies: Any = None) -> "_Pool":
        """Return the pool. Called by requests."""
        with self._lock:
            self._pool = self._pool or _Pool(self._dial, self._timeout)
            return self._pool

    def request_url(self, request: Any, proxies: Any) -> str:
        """Return the path: there is no proxy."""
        path: str = request.path_url
        return path

    def close_idle(self) -> None:
        """Close the idle connections."""
        pool = self._pool
        if pool is not None:
            pool.drain()

    def close(self) -> None:
        """Close the idle connections; one in use is closed when it is returned."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()


class _Pool(urllib3.HTTPConnectionPool):
    def __init__(self, dial: Callable[[], Any], timeout: float) -> None:
        super().__init__("engine", timeout=timeout, maxsize=_MAX_IDLE)
        self._dial = dial

    def _new_conn(self) -> "_Connection":
        return _Connection(self._dial, self.timeout.read_timeout)

    def drain(self) -> None:
        """Close idle connections. Unlike close(), keeps the pool usable for a request that has just obtained it."""
        if (idle := self.pool) is None:
            return
        drained: list[Any] = []
        with contextlib.suppress(queue.Empty):
            while True:
                drained.append(idle.get(block=False))
        for connection in drained:
            if connection is not None:
                connection.close()
            with contextlib.suppress(queue.Full):
                idle.put(None, block=False)


class _Response(HTTPResponse):
    """The response to a request, of which a part may be unread when it is forgotten."""

    def flush(self) -> None:
        """Flush nothing: the file below may have been finalized before this one, and Python 3.13 prints that error."""


class _Connection(urllib3.connection.HTTPConnection):
    """An HTTP connection over a socket of `dial`."""

    response_class = _Response

    def __init__(self, dial: Callable[[], Any], timeout: Any) -> None:
        super().__init__("engine", timeout=timeout)
        self._dial = dial
        self.stream: Any = None

    def connect(self) -> None:
        """Connect to the engine."""
        self.sock = self.stream = self._dial()
        self.sock.settimeout(self.timeout)

    def send(self, data: Any) -> None:
        """Send. Raises BrokenPipeError if the engine reads no more, as of a full disk: urllib3 then reads its answer."""
        try:
            super().send(data)
        except TimedOut:
            raise
        except HostError as error:
            if isinstance(self.stream, EngineStream) and self.stream.connected:
                raise BrokenPipeError from error
            raise

    def getresponse(self) -> Any:
        """Return the response. Sets a deadline, as endless headers are possible; the reader of the body clears it."""
        limit = self.sock.gettimeout() if self.stream is not None else None
        if limit is not None:
            self.stream.deadline = time.monotonic() + bounds.TOTAL_FACTOR * limit
        return super().getresponse()

    @property
    def is_connected(self) -> bool:
        """Whether the connection is reusable; polling a channel's descriptor would need a pipe per channel."""
        sock: Any = self.sock
        return bool(sock.is_open) if isinstance(sock, EngineStream) else super().is_connected

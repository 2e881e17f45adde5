"""The Docker engine of a host: the docker SDK over the host's SSH connection or a unix socket.

Over SSH, every HTTP connection is a channel that runs `docker system dial-stdio` on the host, which finds the engine like
any `docker` command there. Idle channels are reused, and closed when another user of the connection needs a session.
"""

import contextlib
import io
import queue
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import docker
import urllib3
from docker.transport.basehttpadapter import BaseHTTPAdapter
from docker.utils import version_lt

from tfprov.errors import HostError, printable
from tfprov.hosts import bounds
from tfprov.hosts.docker.engine_client import Client, DeadlineSocket, EngineTimeouts, check_deadline
from tfprov.hosts.docker.engine_errors import MIN_API, engine_errors, explain, too_old_error
from tfprov.hosts.ssh.connection import MAX_SESSIONS
from tfprov.hosts.ssh.errors import ConnectionLost
from tfprov.hosts.ssh.host import SSHHost

_READ_AHEAD = 512 * 1024
"""Bytes per read. Small reads are slow: paramiko moves its whole buffer, up to 2 MiB, at every one."""
_HTTP_PREFIX = b"HTTP/"
"""Start of every answer of an engine."""
_EXIT_TIMEOUT = 10.0
"""Seconds for a program to exit after it has closed its output."""


class DialStream:
    """A socket to the engine through `command` on the host, which copies between its standard streams and the engine."""

    def __init__(self, ssh: SSHHost, command: Sequence[str]) -> None:
        self._ssh = ssh
        self._stream = ssh.stream(command, sudo=ssh.target.become)
        self._answered = False
        self.deadline: float | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def recv(self, size: int) -> bytes:
        """Receive from the engine. Raises HostError with the reason if there is none."""
        check_deadline(self.deadline)
        data = self._receive(size)
        if not self._answered:
            if not data:
                raise self._no_engine_error()
            self._check_http(data)
        self._answered = True
        return data

    def _receive(self, size: int) -> bytes:
        if self._answered:
            return self._stream.recv(size)
        return self._ssh.receive_first(self._stream, lambda: self._stream.recv(size))

    def _check_http(self, first: bytes) -> None:
        """Raise HostError unless `first` starts an HTTP response: a start-up file of the shell may print, too."""
        if first[: len(_HTTP_PREFIX)] != _HTTP_PREFIX[: len(first)]:
            sent = printable(first.decode("utf-8", errors="replace").strip())
            problem = f"`docker system dial-stdio` sent `{sent}` instead of an engine's answer"
            raise self._ssh.explain(HostError(self._ssh.host, problem, "check which `docker` is in its PATH"))

    def sendall(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of `data` to the engine. Raises HostError with the reason if there is none."""
        try:
            self._stream.sendall(data)
        except ConnectionLost:
            raise
        except HostError:
            if self._answered:
                raise
            raise self._no_engine_error() from None

    def makefile(self, mode: str = "rb", buffering: int = -1) -> "io.BufferedReader[_RawDialStream]":
        """Return the file from which http.client reads a response."""
        return io.BufferedReader(_RawDialStream(self), _READ_AHEAD)

    def _no_engine_error(self) -> HostError:
        code = self._stream.wait(_EXIT_TIMEOUT)
        text = self._stream.error_text() or f"`docker system dial-stdio` ended with exit code {code}"
        self._stream.close()  # explain() may need its session
        return self._ssh.explain(HostError(self._ssh.host, *explain(text, self._ssh.user)))


class _RawDialStream(io.RawIOBase):
    """The raw file in which the SDK looks for the socket."""

    def __init__(self, dial: DialStream) -> None:
        self.sock = dial

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # io.BufferedReader asks for one at every read
            raise AttributeError(name)
        return getattr(self.sock, name)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self.sock.recv(len(view))
        view[: len(data)] = data
        return len(data)


_MAX_IDLE = 4
"""Idle channels kept open: most of the SDK's work needs one."""
_LOCAL_FOLLOWERS = 1000
"""Concurrent followed logs on this machine's own engine: far more than a host has tasks."""
DOCKER = ("docker",)
LOCAL = Path("/var/run/docker.sock")


class Engine:
    """The engine of `host`, connected on first use. Use `api` inside `with engine.errors():`.

    `followers` limits the requests that may occupy a connection for as long as a training; others poll, holding
    `poll_lock` during each request.
    """

    def __init__(
        self,
        host: str,
        adapter: BaseHTTPAdapter,
        user: Callable[[], str] = str,
        timeouts: EngineTimeouts | None = None,
        followers: int = _LOCAL_FOLLOWERS,
    ) -> None:
        self.host = host
        self._adapter, self._user, self._timeouts = adapter, user, timeouts or EngineTimeouts()
        self.followers, self.poll_lock = threading.Semaphore(followers), threading.Lock()
        self._lock = threading.Lock()
        self._api: docker.APIClient | None = None

    @classmethod
    def over(cls, ssh: SSHHost, command: Sequence[str] = DOCKER, timeout: float = bounds.ACTION_TIMEOUT) -> "Engine":
        """Return the engine that `command` finds on the host; with sudo if the target has `become`."""
        adapter = _Adapter(lambda: DialStream(ssh, (*command, "system", "dial-stdio")), timeout)
        ssh.on_shortage(adapter.close_idle)
        return cls(ssh.host, adapter, lambda: ssh.user, EngineTimeouts(timeout), followers=MAX_SESSIONS // 2)

    @classmethod
    def local(cls, host: str, path: Path = LOCAL, timeout: float = bounds.ACTION_TIMEOUT) -> "Engine":
        """Return the engine at a unix socket of this machine; `timeout` limits its silence, in seconds."""
        timeouts = EngineTimeouts(timeout)
        return cls.from_dial(host, lambda: _connect_unix(path, timeouts.query), timeouts)

    @classmethod
    def from_dial(cls, host: str, dial: Callable[[], Any], timeouts: EngineTimeouts) -> "Engine":
        """Return the engine to which each socket of `dial` is connected."""
        return cls(host, _Adapter(dial, timeouts.action), timeouts=timeouts)

    @property
    def api(self) -> docker.APIClient:
        """Return the SDK's client, which speaks the engine's own version of the API. Raises HostError."""
        with self._lock, self.errors():
            if self._api is None:
                version = str(self._client(MIN_API).version(api_version=False).get("ApiVersion"))
                if not re.fullmatch(r"\d+\.\d+", version) or version_lt(version, MIN_API):
                    raise too_old_error(self.host, version)
                self._api = self._client(version)
            return self._api

    def errors(self) -> AbstractContextManager[None]:
        """Return the context for using `api` and its streams: it turns their errors into HostError."""
        return engine_errors(self.host, self._user())

    def close_attached(self, attached: Any) -> None:
        """Close the result of `api.attach_socket` or `exec_start(socket=True)`: its own close() keeps the connection."""
        connection = getattr(attached, "sock", None) or getattr(attached, "_sock", None)
        attached.close()
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close all channels or sockets; the SSH connection stays open."""
        self._adapter.close()

    def _client(self, version: str) -> Client:
        return Client(self._adapter, version, self._timeouts, self.host)


def _connect_unix(path: Path, limit: float) -> socket.socket:
    connection = DeadlineSocket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # With settimeout(), connecting to an engine with a full backlog would fail at once.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(limit), 0))
        connection.connect(str(path))
    except BlockingIOError:
        connection.close()
        raise TimeoutError from None
    except BaseException:
        connection.close()
        raise
    return connection


class _Adapter(BaseHTTPAdapter):
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


class _Connection(urllib3.connection.HTTPConnection):
    """An HTTP connection over a socket of `dial`."""

    def __init__(self, dial: Callable[[], Any], timeout: Any) -> None:
        super().__init__("engine", timeout=timeout)
        self._dial = dial
        self.stream: Any = None

    def connect(self) -> None:
        """Connect to the engine."""
        self.sock = self.stream = self._dial()
        self.sock.settimeout(self.timeout)

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
        return bool(sock.is_open) if isinstance(sock, DialStream) else super().is_connected

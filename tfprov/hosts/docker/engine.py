"""The Docker engine of a host: the docker SDK, talking through the host's SSH connection or a unix socket.

Over SSH every HTTP connection is a channel in which `docker system dial-stdio` runs on the host; it finds the engine as
any `docker` command there does. Channels are kept for the next request, and let go when someone else needs a session.
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

from tfprov.errors import HostError, shown
from tfprov.hosts import bounds
from tfprov.hosts.docker.engine_client import Client, Patience, Timed, in_time
from tfprov.hosts.docker.engine_errors import OLDEST, engine_errors, explain, too_old
from tfprov.hosts.ssh.connection import MAX_SESSIONS
from tfprov.hosts.ssh.errors import ConnectionLost
from tfprov.hosts.ssh.host import SSH

_AHEAD = 512 * 1024
"""Bytes read at once. Small reads are what costs: paramiko moves all that it still holds, up to 2 MiB, at every one."""
_HTTP = b"HTTP/"
"""Begins every answer of an engine."""
_PATIENCE = 10.0
"""Seconds that a program which has closed its output may take to end."""


class Dial:
    """Runs `command` on the host, which copies between its standard streams and the engine's socket."""

    def __init__(self, ssh: SSH, command: Sequence[str]) -> None:
        self._ssh = ssh
        self._stream = ssh.stream(command, sudo=ssh.target.become)
        self._answered = False
        self.deadline: float | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def recv(self, size: int) -> bytes:
        """Return what the engine sent. Raises HostError with the reason when there is no engine to send anything."""
        in_time(self.deadline)
        data = self._received(size)
        if not self._answered:
            if not data:
                raise self._reason()
            self._check(data)
        self._answered = True
        return data

    def _received(self, size: int) -> bytes:
        if self._answered:
            return self._stream.recv(size)
        return self._ssh.receive_first(self._stream, lambda: self._stream.recv(size))

    def _check(self, first: bytes) -> None:
        """Raise HostError when the `first` bytes are not an engine's: a start-up file of the shell may print, too."""
        if first[: len(_HTTP)] != _HTTP[: len(first)]:
            sent = shown(first.decode("utf-8", errors="replace").strip())
            what = f"`docker system dial-stdio` sent `{sent}` instead of an engine's answer"
            raise self._ssh.explain(HostError(self._ssh.host, what, "look at the `docker` that is in its PATH"))

    def sendall(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of `data` to the engine. Raises HostError with the reason when there is none."""
        try:
            self._stream.sendall(data)
        except ConnectionLost:
            raise
        except HostError:
            if self._answered:
                raise
            raise self._reason() from None

    def makefile(self, mode: str = "rb", buffering: int = -1) -> "io.BufferedReader[_Raw]":
        """Return the file that http.client reads a response from."""
        return io.BufferedReader(_Raw(self), _AHEAD)

    def _reason(self) -> HostError:
        code = self._stream.wait(_PATIENCE)
        said = self._stream.error_text() or f"`docker system dial-stdio` ended with exit code {code}"
        self._stream.close()  # its session may be needed to find out more
        return self._ssh.explain(HostError(self._ssh.host, *explain(said, self._ssh.user)))


class _Raw(io.RawIOBase):
    """What the SDK takes for the socket itself."""

    def __init__(self, dial: Dial) -> None:
        self.sock = dial

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sock, name)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self.sock.recv(len(view))
        view[: len(data)] = data
        return len(data)


_KEPT = 4
"""Idle channels that are kept: the SDK needs one for most of its work."""
_MANY = 1000
"""Connections that this machine's own engine bears: far more than a host has tasks."""
DOCKER = ("docker",)
LOCAL = Path("/var/run/docker.sock")


class Engine:
    """The engine of `host`. Use `api` inside of `with engine.errors():`; nothing is connected before that.

    `followers` has a place for each request that may take a connection for as long as a training; who finds none there
    takes its `turn` again and again.
    """

    def __init__(
        self,
        host: str,
        adapter: BaseHTTPAdapter,
        user: Callable[[], str] = str,
        patience: Patience | None = None,
        followers: int = _MANY,
    ) -> None:
        self.host = host
        self._adapter, self._user, self._patience = adapter, user, patience or Patience()
        self.followers, self.turn = threading.Semaphore(followers), threading.Lock()
        self._lock = threading.Lock()
        self._api: docker.APIClient | None = None

    @classmethod
    def over(cls, ssh: SSH, command: Sequence[str] = DOCKER, timeout: float = bounds.ACT) -> "Engine":
        """Return the engine that `command` finds on the host, through sudo where the target says so."""
        adapter = _Adapter(lambda: Dial(ssh, (*command, "system", "dial-stdio")), timeout)
        ssh.on_shortage(adapter.let_go)
        return cls(ssh.host, adapter, lambda: ssh.user, Patience(timeout), followers=MAX_SESSIONS // 2)

    @classmethod
    def local(cls, host: str, path: Path = LOCAL, timeout: float = bounds.ACT) -> "Engine":
        """Return the engine behind a unix socket of this machine, which may be silent for `timeout` seconds at most."""
        patience = Patience(timeout)
        return cls.through(host, lambda: _connected(path, patience.look), patience)

    @classmethod
    def through(cls, host: str, dial: Callable[[], Any], patience: Patience) -> "Engine":
        """Return the engine that each socket which `dial` returns leads to."""
        return cls(host, _Adapter(dial, patience.act), patience=patience)

    @property
    def api(self) -> docker.APIClient:
        """Return the SDK's client, which speaks the engine's own version of the API. Raises HostError."""
        with self._lock, self.errors():
            if self._api is None:
                version = str(self._client(OLDEST).version(api_version=False).get("ApiVersion"))
                if not re.fullmatch(r"\d+\.\d+", version) or version_lt(version, OLDEST):
                    raise too_old(self.host, version)
                self._api = self._client(version)
            return self._api

    def errors(self) -> AbstractContextManager[None]:
        """Return the context in which `api`, and every stream that it returns, is used: all it raises is HostError."""
        return engine_errors(self.host, self._user())

    def hang_up(self, attached: Any) -> None:
        """Close what `api.attach_socket`, or an `exec_start` with `socket=True`, returned: its own close() does not."""
        connection = getattr(attached, "sock", None) or getattr(attached, "_sock", None)
        attached.close()
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Let go of all channels or sockets; the SSH connection stays."""
        self._adapter.close()

    def _client(self, version: str) -> Client:
        return Client(self._adapter, version, self._patience)


def _connected(path: Path, limit: float) -> socket.socket:
    connection = Timed(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Not settimeout(): with it, the connection to an engine that accepts none fails at once.
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
    """Gives requests a pool whose connections are what `dial` returns."""

    def __init__(self, dial: Callable[[], Any], timeout: float) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._dial, self._timeout = dial, timeout
        self._pool: _Pool | None = None

    def get_connection(self, url: Any, proxies: Any = None) -> "_Pool":
        """Return the one pool. Called by requests."""
        with self._lock:
            self._pool = self._pool or _Pool(self._dial, self._timeout)
            return self._pool

    def request_url(self, request: Any, proxies: Any) -> str:
        """Return the path alone: there is no proxy between."""
        path: str = request.path_url
        return path

    def let_go(self) -> None:
        """Close the connections that are idle."""
        pool = self._pool
        if pool is not None:
            pool.drain()

    def close(self) -> None:
        """Close the connections that are idle; one in use is closed when it is given back."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()


class _Pool(urllib3.HTTPConnectionPool):
    def __init__(self, dial: Callable[[], Any], timeout: float) -> None:
        super().__init__("engine", timeout=timeout, maxsize=_KEPT)
        self._dial = dial

    def _new_conn(self) -> "_Connection":
        return _Connection(self._dial, self.timeout.read_timeout)

    def drain(self) -> None:
        """Close what is idle. Not close(): a request that has just chosen this pool would fail."""
        if (kept := self.pool) is None:
            return
        taken: list[Any] = []
        with contextlib.suppress(queue.Empty):
            while True:
                taken.append(kept.get(block=False))
        for connection in taken:
            if connection is not None:
                connection.close()
            with contextlib.suppress(queue.Full):
                kept.put(None, block=False)


class _Connection(urllib3.connection.HTTPConnection):
    """An HTTP connection over what `dial` returns."""

    def __init__(self, dial: Callable[[], Any], timeout: Any) -> None:
        super().__init__("engine", timeout=timeout)
        self._dial = dial
        self.line: Any = None

    def connect(self) -> None:
        """Reach the engine."""
        self.sock = self.line = self._dial()
        self.sock.settimeout(self.timeout)

    def getresponse(self) -> Any:
        """Return the answer, of which headers alone may go on for ever, too; who reads the rest ends the deadline."""
        limit = self.sock.gettimeout() if self.line is not None else None
        if limit is not None:
            self.line.deadline = time.monotonic() + bounds.WHOLE * limit
        return super().getresponse()

    @property
    def is_connected(self) -> bool:
        """Whether the connection can be used again; asking a channel's descriptor would cost a pipe a channel."""
        found: Any = self.sock
        return bool(found.is_open) if isinstance(found, Dial) else super().is_connected

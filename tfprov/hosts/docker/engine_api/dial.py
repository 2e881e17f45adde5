"""Sockets to a Docker engine: a unix socket of this machine, or of a host, or a host's `docker system dial-stdio`."""

import io
import socket
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tfprov.errors import HostError, printable
from tfprov.hosts import bounds
from tfprov.hosts.docker.engine_errors import explain
from tfprov.hosts.ssh.errors import ConnectionLost
from tfprov.hosts.ssh.host import SSHHost
from tfprov.hosts.ssh.stream import Stream


class EngineTimeouts:
    """Seconds without a byte from an engine: for queries, and for actions, which change something."""

    def __init__(
        self,
        action: float = bounds.ACTION_TIMEOUT,
        query: float = bounds.QUERY_TIMEOUT,
        ping: float = bounds.PING_TIMEOUT,
    ) -> None:
        self.action, self.query, self.ping = action, min(query, action), min(ping, action)
        self.busy = min(action, max(self.query, bounds.BUSY_TIMEOUT))


class DeadlineSocket(socket.socket):
    """A socket to this machine's engine. Reads fail after `deadline`, a time of `time.monotonic`."""

    deadline: float | None = None

    def recv(self, *args: Any) -> bytes:
        """Receive, unless the deadline has passed."""
        check_deadline(self.deadline)
        return super().recv(*args)

    def recv_into(self, *args: Any) -> int:
        """Receive, unless the deadline has passed."""
        check_deadline(self.deadline)
        return super().recv_into(*args)


def check_deadline(deadline: float | None, now: Callable[[], float] = time.monotonic) -> None:
    """Raise TimeoutError after `deadline`."""
    if deadline is not None and now() > deadline:
        raise TimeoutError("the answer does not end")


_READ_AHEAD = 512 * 1024
"""Bytes per read. Small reads are slow: paramiko moves its whole buffer, up to 2 MiB, at every one."""
_HTTP_PREFIX = b"HTTP/"
"""Start of every answer of an engine."""
_EXIT_TIMEOUT = 10.0
"""Seconds for a program to exit after it has closed its output."""


class EngineStream:
    """A socket to the engine of a host over SSH: `stream` is a channel to it. `deadline` as for DeadlineSocket."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.deadline: float | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def recv(self, size: int) -> bytes:
        """Receive from the engine, unless the deadline has passed."""
        check_deadline(self.deadline)
        return self._stream.recv(size)

    def makefile(self, mode: str = "rb", buffering: int = -1) -> "io.BufferedReader[_RawEngineStream]":
        """Return the file from which http.client reads a response."""
        return io.BufferedReader(_RawEngineStream(self), _READ_AHEAD)


class DialStream(EngineStream):
    """A socket to the engine through `command` on the host, which copies between its standard streams and the engine."""

    def __init__(self, ssh: SSHHost, command: Sequence[str]) -> None:
        super().__init__(ssh.stream(command, sudo=ssh.target.become))
        self._ssh = ssh
        self._answered, self._early = False, b""
        self._reason: HostError | None = None

    def recv(self, size: int) -> bytes:
        """Receive from the engine. Raises HostError with the reason if there is none."""
        early, self._early = self._early[:size], self._early[size:]
        if self._answered:
            return early or super().recv(size)
        check_deadline(self.deadline)
        data = early or self._ssh.receive_first(self._stream, lambda: self._stream.recv(size))
        if not data:
            raise self._no_engine_error()
        self._check_http(data)
        self._answered = True
        return data

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
            if not self._answered:
                self._early = self._early or self._stream.recv(_READ_AHEAD)  # an answer before all was sent
                if not self._early:
                    raise self._no_engine_error() from None
            raise

    def _no_engine_error(self) -> HostError:
        if self._reason is not None:  # of a request that could not be sent, whose answer is read then
            return self._reason
        code = self._stream.wait(_EXIT_TIMEOUT)
        text = self._stream.error_text() or f"`docker system dial-stdio` ended with exit code {code}"
        self._stream.close()  # explain() may need its session
        self._reason = self._ssh.explain(HostError(self._ssh.host, *explain(text, self._ssh.user)))
        return self._reason


class _RawEngineStream(io.RawIOBase):
    """The raw file in which the SDK looks for the socket."""

    def __init__(self, dial: EngineStream) -> None:
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


def connect_unix(path: Path, limit: float) -> socket.socket:
    """Connect to the unix socket at `path` within `limit` seconds. Raises OSError."""
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

"""A channel to an engine, in the shape of the socket that http.client, urllib3 and the docker SDK expect."""

import io
from collections.abc import Sequence
from typing import Any

from tfprov.errors import HostError, shown
from tfprov.hosts.engine_client import in_time
from tfprov.hosts.engine_errors import explain
from tfprov.hosts.foreign import ConnectionLost
from tfprov.hosts.ssh import SSH

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
        return self._ssh.patiently(self._stream, lambda: self._stream.recv(size))

    def _check(self, first: bytes) -> None:
        """Raise HostError when the `first` bytes are not an engine's: a start-up file of the shell may print, too."""
        if first[: len(_HTTP)] != _HTTP[: len(first)]:
            sent = shown(first.decode("utf-8", errors="replace").strip())
            what = f"`docker system dial-stdio` sent `{sent}` instead of an engine's answer"
            raise self._ssh.explained(HostError(self._ssh.host, what, "look at the `docker` that is in its PATH"))

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
        said = self._stream.complaint() or f"`docker system dial-stdio` ended with exit code {code}"
        self._stream.close()  # its session may be needed to find out more
        return self._ssh.explained(HostError(self._ssh.host, *explain(said, self._ssh.user)))


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

"""A program on a host, or a connection that came in from there, as one stream of bytes in each direction."""

import io
import math
from collections.abc import Callable
from typing import Any, Protocol

from tfprov.errors import HostError, one_line
from tfprov.hosts.ssh.errors import talking

_PIECE = 256 * 1024
"""Bytes handed to paramiko at once; it copies what it could not send of them for every packet."""
_COMPLAINT = 64 * 1024
"""Bytes of standard error that are kept for a message."""


class Carrier(Protocol):
    """The SSH connection that carries a stream's channel."""

    @property
    def host(self) -> str:
        """Return the host's name, for messages."""
        ...

    @property
    def alive(self) -> bool:
        """Whether the connection can be used."""
        ...

    def lost(self, doing: str) -> HostError:
        """Return the error for a channel that ended during `doing`."""
        ...


class Stream:
    """Like a socket: `recv` returns b"" at the end. Every method raises HostError, or Unreachable, and nothing else.

    `doing` says in messages what is being done. Safe to use from two threads, one of which reads, and to close from
    any. What the program prints on its standard error waits for `complaint`; beyond 2 MiB of it the program is held up.
    """

    def __init__(self, carrier: Carrier, channel: Any, doing: str, free: Callable[[], None]) -> None:
        self._carrier, self._channel, self._free = carrier, channel, free
        self.host, self.doing = carrier.host, doing
        self._closed = False

    def recv(self, size: int) -> bytes:
        """Return what came in, at most `size` bytes; wait for the first one. TimedOut after `settimeout` seconds."""
        with talking(self.host, self.doing):
            data: bytes = self._channel.recv(size)
        if not data and size and not self._closed and not self._channel.eof_received and not self._carrier.alive:
            raise self._carrier.lost(
                self.doing
            )  # paramiko makes the end of the connection look like the end of the data
        return data

    def recv_errors(self, size: int) -> bytes:
        """Return what the program printed on its standard error, at most `size` bytes; b"" at the end."""
        with talking(self.host, self.doing):
            data: bytes = self._channel.recv_stderr(size)
        return data

    def sendall(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of `data`. Raises HostError when the other side does not take it any more."""
        view = memoryview(data).cast("B")
        with talking(self.host, self.doing):
            for start in range(0, len(view), _PIECE):
                self._send(view[start : start + _PIECE].tobytes())

    def _send(self, piece: bytes) -> None:
        while piece:
            sent = 0 if self._channel.closed else self._channel.send(piece)
            if sent == 0:
                raise self._carrier.lost(self.doing)
            piece = piece[sent:]

    def shutdown_write(self) -> None:
        """Say that nothing more will be sent: the program reads the end of its standard input."""
        with talking(self.host, self.doing):
            self._channel.shutdown_write()

    def shutdown(self, how: int) -> None:
        """Like a socket's, for libraries that expect one: 0 ends receiving, 1 sending, 2 both."""
        with talking(self.host, self.doing):
            self._channel.shutdown(how)

    def settimeout(self, seconds: float | None) -> None:
        """Limit every wait for data, and for room to send it; None for no limit."""
        self._channel.settimeout(seconds)

    def gettimeout(self) -> float | None:
        """Return the limit in seconds."""
        timeout: float | None = self._channel.gettimeout()
        return timeout

    def fileno(self) -> int:
        """Return a descriptor that can be polled for reading, and for nothing else."""
        number: int = self._channel.fileno()
        return number

    def makefile(self, mode: str = "rb", buffering: int = _PIECE) -> Any:
        """Return a buffered binary file that reads ("rb"), writes ("wb") or does both ("rwb")."""
        if "+" in mode or ("r" in mode and "w" in mode):
            return io.BufferedRWPair(_Raw(self), _Raw(self), buffering)
        return io.BufferedWriter(_Raw(self), buffering) if "w" in mode else io.BufferedReader(_Raw(self), buffering)

    @property
    def open(self) -> bool:
        """Whether the other side still sends, as far as is known."""
        return self._carrier.alive and not (self._closed or self._channel.closed or self._channel.eof_received)

    def wait(self, seconds: float) -> int:
        """Return the program's exit code; read its output first. Raises TimedOut after `seconds`."""
        with talking(self.host, self.doing):
            limit = None if math.isinf(seconds) else seconds
            if not self._channel.status_event.wait(limit):
                raise TimeoutError
        code: int = self._channel.recv_exit_status()
        if code < 0:
            raise self._carrier.lost(self.doing)
        return code

    def complaint(self) -> str:
        """Return what the program has printed on its standard error so far, on one line."""
        found = b""
        while self._channel.recv_stderr_ready() and len(found) < _COMPLAINT:
            found += self.recv_errors(_COMPLAINT)
        return one_line(found.decode("utf-8", errors="replace"))

    def close(self) -> None:
        """Close both directions. A second time, and on a connection that is lost, this does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            with talking(self.host, self.doing):
                self._channel.close()
        except HostError:  # it is gone, which is what was asked for
            pass
        finally:
            self._free()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class _Raw(io.RawIOBase):
    """A Stream in the shape of Python's files. The docker SDK looks here for what it needs of a socket."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.recv, self.sendall = stream.recv, stream.sendall
        self.settimeout, self.gettimeout = stream.settimeout, stream.gettimeout

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self.stream.recv(len(view))
        view[: len(data)] = data
        return len(data)

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self.stream.sendall(view)
        return len(view)

    def fileno(self) -> int:
        return self.stream.fileno()

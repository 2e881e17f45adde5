"""A socket-like object on an SSH channel: a program's standard input and output, or a forwarded connection."""

import io
import math
from collections.abc import Callable
from typing import Any, Protocol

from tfprov.errors import HostError, one_line
from tfprov.hosts.ssh.errors import channel_errors

_SEND_SIZE = 256 * 1024
"""Bytes per send: paramiko copies the unsent rest for every packet."""
_MAX_ERROR_TEXT = 64 * 1024
"""Bytes of standard error read for a message."""


class Carrier(Protocol):
    """The SSH connection that carries a stream's channel."""

    @property
    def host(self) -> str:
        """The host's name, for messages."""
        ...

    @property
    def alive(self) -> bool:
        """Whether the connection can be used."""
        ...

    def channel_error(self, action: str) -> HostError:
        """Return the error for a channel that ended during `action`."""
        ...


class Stream:
    """Like a socket: `recv` returns b"" at the end. Methods raise only HostError and its subclasses.

    `action` describes the channel's purpose in messages. One thread may read while another writes; any thread may
    close. Standard error is buffered for `error_text`; beyond 2 MiB of it the program blocks.
    """

    def __init__(self, carrier: Carrier, channel: Any, action: str, release_slot: Callable[[], None]) -> None:
        self._carrier, self._channel, self._release_slot = carrier, channel, release_slot
        self.host, self.action = carrier.host, action
        self._closed = False

    def recv(self, size: int) -> bytes:
        """Return 1 to `size` bytes, waiting for the first; b"" at the end. Raises TimedOut after `settimeout` seconds."""
        with channel_errors(self.host, self.action):
            data: bytes = self._channel.recv(size)
        if not data and size and not self._closed and not self._channel.eof_received and not self._carrier.alive:
            raise self._carrier.channel_error(
                self.action
            )  # paramiko makes the end of the connection look like the end of the data
        return data

    def recv_stderr(self, size: int) -> bytes:
        """Return 1 to `size` bytes of standard error; b"" at the end."""
        with channel_errors(self.host, self.action):
            data: bytes = self._channel.recv_stderr(size)
        return data

    def sendall(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of `data`. Raises HostError if the peer no longer reads."""
        view = memoryview(data).cast("B")
        with channel_errors(self.host, self.action):
            for start in range(0, len(view), _SEND_SIZE):
                self._send(view[start : start + _SEND_SIZE].tobytes())

    def _send(self, piece: bytes) -> None:
        while piece:
            sent = 0 if self._channel.closed else self._channel.send(piece)
            if sent == 0:
                raise self._carrier.channel_error(self.action)
            piece = piece[sent:]

    def shutdown_write(self) -> None:
        """Send EOF: the program reads the end of its standard input."""
        with channel_errors(self.host, self.action):
            self._channel.shutdown_write()

    def shutdown(self, how: int) -> None:
        """As `socket.shutdown`: 0 ends receiving, 1 sending, 2 both."""
        with channel_errors(self.host, self.action):
            self._channel.shutdown(how)

    def settimeout(self, seconds: float | None) -> None:
        """Limit every blocking receive and send, in seconds; None for no limit."""
        self._channel.settimeout(seconds)

    def gettimeout(self) -> float | None:
        """Return the limit in seconds, or None."""
        timeout: float | None = self._channel.gettimeout()
        return timeout

    def fileno(self) -> int:
        """Return a descriptor that supports only polling for reading."""
        number: int = self._channel.fileno()
        return number

    def makefile(self, mode: str = "rb", buffering: int = _SEND_SIZE) -> Any:
        """Return a buffered binary file that reads ("rb"), writes ("wb") or does both ("rwb")."""
        if "+" in mode or ("r" in mode and "w" in mode):
            return io.BufferedRWPair(_RawStream(self), _RawStream(self), buffering)
        return (
            io.BufferedWriter(_RawStream(self), buffering)
            if "w" in mode
            else io.BufferedReader(_RawStream(self), buffering)
        )

    @property
    def has_data(self) -> bool:
        """Whether `recv` would return at once."""
        return bool(self._channel.recv_ready() or self._channel.eof_received or self._channel.closed)

    @property
    def window(self) -> int:
        """Bytes that the peer is ready to receive beyond those that were sent; it grows as the program reads them."""
        size: int = self._channel.out_window_size
        return size

    @property
    def is_open(self) -> bool:
        """Whether the peer may still send; False once its end is known."""
        return self._carrier.alive and not (self._closed or self._channel.closed or self._channel.eof_received)

    @property
    def connected(self) -> bool:
        """Whether the SSH connection can be used, whatever has become of this channel of it."""
        return self._carrier.alive

    def wait(self, seconds: float) -> int:
        """Return the program's exit code, after its output has been read. Raises TimedOut after `seconds`."""
        with channel_errors(self.host, self.action):
            limit = None if math.isinf(seconds) else seconds
            if not self._channel.status_event.wait(limit):
                raise TimeoutError
        code: int = self._channel.recv_exit_status()
        if code < 0:
            raise self._carrier.channel_error(self.action)
        return code

    def error_text(self) -> str:
        """Return the buffered standard error on one line."""
        data = b""
        while self._channel.recv_stderr_ready() and len(data) < _MAX_ERROR_TEXT:
            data += self.recv_stderr(_MAX_ERROR_TEXT)
        return one_line(data.decode("utf-8", errors="replace"))

    def close(self) -> None:
        """Close both directions. Idempotent; ignores a lost connection."""
        if self._closed:
            return
        self._closed = True
        try:
            with channel_errors(self.host, self.action):
                self._channel.close()
        except HostError:  # closed already, with its connection
            pass
        finally:
            self._release_slot()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class _RawStream(io.RawIOBase):
    """A Stream as a raw file. The docker SDK looks for a socket's methods here."""

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

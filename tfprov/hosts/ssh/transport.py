"""Extend paramiko's transport: fix two races that end the whole connection, bound packet sizes, send keepalives.

When a program ends while its input is being sent, the sending thread may have a message ready while paramiko's own thread
answers the host's CLOSE. OpenSSH takes that message for a protocol error ("ieof packet referred to nonexistent channel")
and disconnects, with everything else on the connection. Seen in one run of six with 72 commands from 24 threads.

During a key re-exchange, paramiko's thread may have to answer an earlier CLOSE and then waits for itself until its
timeout. paramiko re-keys after 512 MiB, OpenSSH's `RekeyLimit default` for AES after 64 GiB (RFC 4344, 3.2).
"""

import contextlib
import heapq
import math
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

from paramiko.common import (
    MSG_CHANNEL_CLOSE,
    MSG_CHANNEL_DATA,
    MSG_CHANNEL_EOF,
    MSG_CHANNEL_EXTENDED_DATA,
    MSG_CHANNEL_OPEN,
    MSG_CHANNEL_OPEN_SUCCESS,
    MSG_CHANNEL_WINDOW_ADJUST,
    MSG_DISCONNECT,
)
from paramiko.packet import NeedRekeyException, Packetizer
from paramiko.ssh_exception import SSHException

from tfprov.hosts import bounds

_FOR_OPEN_CHANNELS = (MSG_CHANNEL_DATA, MSG_CHANNEL_EXTENDED_DATA, MSG_CHANNEL_EOF)


class SafePacketizer(Packetizer):
    """Sends nothing on a channel after its CLOSE. Channels are identified by the host's numbers.

    `ended` is true as soon as the connection ends, for a reader or for a writer: paramiko wakes its readers before it marks
    the transport inactive.
    """

    REKEY_BYTES = 2**36

    def __init__(self, sock: Any) -> None:
        super().__init__(sock)
        self.ended = False
        self._closed_channels: set[int] = set()
        self._send_lock = threading.Lock()
        self._banner_size = 0
        self._handshake_deadline: float | None = None

    def start_handshake(self, timeout: float) -> None:
        """Limit the handshake to `timeout` seconds. paramiko starts a thread for it, on every connection."""
        if self._handshake_deadline is None:
            self._handshake_deadline = time.monotonic() + timeout

    def handshake_timed_out(self) -> bool:
        """Return False, or raise SSHException once the handshake has taken too long.

        Of True, paramiko would make the error of a connection that the server has closed.
        """
        if self._handshake_deadline is not None and time.monotonic() > self._handshake_deadline:
            raise SSHException("the handshake timed out")
        return False

    def complete_handshake(self) -> None:
        """Lift the limit: the handshake is complete."""
        self._handshake_deadline = math.inf

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """Read `n` bytes of a packet, whose length the host chooses."""
        if n > bounds.PACKET:
            raise SSHException(f"a packet of {n} bytes")
        data: bytes = super().read_all(n, check_rekey)
        return data

    def _read_timeout(self, timeout: float) -> bytes:
        """Read a part of the server's banner, which ends with a line."""
        data: bytes = super()._read_timeout(timeout)  # type: ignore[misc]
        self._banner_size += len(data)
        if self._banner_size > bounds.GREETING:
            raise SSHException(f"its greeting is longer than {bounds.format_size(bounds.GREETING)}")
        return data

    def send_message(self, data: Any) -> None:
        """Send a message, unless its channel has been closed meanwhile.

        The message by which a reader acknowledges what it has read is no error on a connection that has ended: the reader
        gets what has arrived, up to a window, before it gets the error.
        """
        raw = data.asbytes()
        with self._send_lock:
            if raw[0] in _FOR_OPEN_CHANNELS and _read_uint32(raw, 1) in self._closed_channels:
                return
            if raw[0] == MSG_CHANNEL_CLOSE:
                self._closed_channels.add(_read_uint32(raw, 1))
            try:
                super().send_message(data)
            except (EOFError, OSError):  # paramiko's thread may still have much to read before it notices
                self.ended = True
                if raw[0] != MSG_CHANNEL_WINDOW_ADJUST:
                    raise

    def read_message(self) -> tuple[int, Any]:
        """Return the next message, and record the numbers of new channels."""
        try:
            kind, message = super().read_message()
        except NeedRekeyException:
            raise
        except Exception:
            self.ended = True
            raise
        self.ended = self.ended or kind == MSG_DISCONNECT
        if kind == MSG_CHANNEL_OPEN_SUCCESS:  # our number, the host's number, ...: RFC 4254, 5.1
            self._mark_open(_read_uint32(message.asbytes(), 4))
        elif kind == MSG_CHANNEL_OPEN:  # channel type, the host's number, ...
            raw = message.asbytes()
            self._mark_open(_read_uint32(raw, 4 + _read_uint32(raw, 0)))
        return kind, message

    def _mark_open(self, number: int) -> None:
        with self._send_lock:
            self._closed_channels.discard(number)


def _read_uint32(raw: bytes, at: int) -> int:
    number: int = struct.unpack_from(">I", raw, at)[0]
    return number


_RECEIVE = 256 * 1024
"""Bytes received at once: paramiko asks for the head and the rest of every packet, of 128 KiB at most."""
_IDLE_SECONDS = 5.0
"""Seconds after which paramiko's thread looks whether it should re-key, if nothing arrives."""


class SocketClock:
    """A socket that receives many packets at once, and records when it last received data, for the keepalive."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._received, self._at = b"", 0
        self.last_received = time.monotonic()
        if isinstance(sock, socket.socket) and sock.family != socket.AF_UNIX:
            # Otherwise a request of two packets waits 40 ms for the acknowledgement of the first.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def wait_longer(self) -> None:
        """Let paramiko's thread sleep until something arrives, once the connection is open.

        Before, it looks ten times a second whether the connection was closed: 1,000 idle hosts took a third of a core.
        """
        self._sock.settimeout(_IDLE_SECONDS)

    def close(self) -> None:
        """Close the socket; a thread that reads from it wakes up."""
        if isinstance(self._sock, socket.socket):
            with contextlib.suppress(OSError):  # closed by the other side
                self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def recv(self, size: int) -> bytes:
        """Receive 1 to `size` bytes, and record the time; b"" at the end."""
        if self._at == len(self._received):
            self._received, self._at = self._sock.recv(max(size, _RECEIVE)), 0
            self.last_received = time.monotonic()
        data = self._received[self._at : self._at + size]
        self._at += len(data)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


class Keepalive:
    """Sends a keepalive request whenever nothing was received for `interval` seconds, and closes a dead connection.

    A connection is dead after `silence` seconds without a byte from the host since a request. `request_lock` is held
    during a request: paramiko matches replies to requests by order.
    """

    def __init__(
        self, transport: Any, clock: SocketClock, request_lock: threading.Lock, *, interval: float, silence: float
    ) -> None:
        self._transport, self._clock, self._request_lock = transport, clock, request_lock
        self._interval, self._silence = interval, silence
        self._stopped = False

    def start(self) -> None:
        """Begin; a thread is started when a request is due."""
        _ALARMS.at(time.monotonic() + self._interval, self._look)

    def stop(self) -> None:
        """End; returns at once."""
        self._stopped = True
        _ALARMS.cancel(self._look)

    def _look(self) -> None:
        if self._stopped or not self._transport.is_active():
            return
        due = self._clock.last_received + self._interval
        if due > time.monotonic():
            _ALARMS.at(due, self._look)
            return
        try:
            threading.Thread(target=self._check, name="tfprov-ssh-keepalive", daemon=True).start()
        except RuntimeError:  # this process may have no more threads now
            self._look_later()

    def _look_later(self) -> None:
        if not self._stopped:
            _ALARMS.at(time.monotonic() + self._interval, self._look)

    def _check(self) -> None:
        request = threading.Thread(target=self._send_request, name="tfprov-ssh-request", daemon=True)
        try:
            request.start()
        except RuntimeError:
            self._look_later()
            return
        request.join(self._silence)
        while request.is_alive():  # a slow network delays the reply behind other data: any byte counts
            if time.monotonic() - self._clock.last_received >= self._silence:
                self._transport.close()
            request.join(1.0)
        self._look_later()

    def _send_request(self) -> None:
        try:
            with self._request_lock:
                self._transport.global_request("keepalive@openssh.com", wait=True)
        except Exception:
            return


class Alarms:
    """Calls functions at their times, in one thread for all connections of this process, which ends when none is due."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._running = False

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Call `call`, which must not block, at `when` of `time.monotonic`."""
        with self._changed:
            self._number += 1  # functions cannot be compared
            heapq.heappush(self._due, (when, self._number, call))
            if not self._running:
                threading.Thread(target=self._run, name="tfprov-ssh-alarms", daemon=True).start()
                self._running = True  # not if no thread can be started: the next call tries it again
            elif self._due[0][1] == self._number:
                self._changed.notify()

    def cancel(self, call: Callable[[], None]) -> None:
        """Do not call `call` any more."""
        with self._changed:
            self._due = [entry for entry in self._due if entry[2] != call]
            heapq.heapify(self._due)
            self._changed.notify()

    def _run(self) -> None:
        while (call := self._next()) is not None:
            with contextlib.suppress(Exception):  # the other connections need their keepalives all the same
                call()

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            while self._due and (left := self._due[0][0] - time.monotonic()) > 0:
                self._changed.wait(left)
            self._running = bool(self._due)
            return heapq.heappop(self._due)[2] if self._due else None


_ALARMS = Alarms()

"""Two races of paramiko that end a whole connection, closed off where packets are written.

When a program ends while its input is still being sent, the thread that sends may hold a message ready while paramiko's
own thread answers the host's CLOSE. OpenSSH takes what then follows for a broken protocol ("ieof packet referred to
nonexistent channel") and disconnects, and with it everything else on that connection. Seen in one run of six with 72
commands from 24 threads.

When paramiko renews the keys, its own thread may have to answer a CLOSE that was sent before, and waits for itself
until it gives up. paramiko renews after 512 MiB, OpenSSH's `RekeyLimit default` for AES after 64 GiB (RFC 4344, 3.2).
"""

import socket
import struct
import threading
import time
from typing import Any

from paramiko.common import (
    MSG_CHANNEL_CLOSE,
    MSG_CHANNEL_DATA,
    MSG_CHANNEL_EOF,
    MSG_CHANNEL_EXTENDED_DATA,
    MSG_CHANNEL_OPEN,
    MSG_CHANNEL_OPEN_SUCCESS,
    MSG_DISCONNECT,
)
from paramiko.packet import NeedRekeyException, Packetizer
from paramiko.ssh_exception import SSHException

from tfprov.hosts import bounds

_FOR_OPEN_CHANNELS = (MSG_CHANNEL_DATA, MSG_CHANNEL_EXTENDED_DATA, MSG_CHANNEL_EOF)


class Packets(Packetizer):
    """Sends nothing on a channel after its CLOSE. Channels are known by the numbers that the host gave them.

    `over` is whether the connection is at its end: paramiko first wakes all who read from it, and only then says so.
    """

    REKEY_BYTES = 2**36

    def __init__(self, sock: Any) -> None:
        super().__init__(sock)
        self.over = False
        self._closed_channels: set[int] = set()
        self._order = threading.Lock()
        self._greeted = 0

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """Read `n` bytes: a part of a packet, of which the host names the length."""
        if n > bounds.PACKET:
            raise SSHException(f"a packet of {n} bytes")
        data: bytes = super().read_all(n, check_rekey)
        return data

    def _read_timeout(self, timeout: float) -> bytes:
        """Read some of the server's greeting, which ends with a line."""
        data: bytes = super()._read_timeout(timeout)  # type: ignore[misc]
        self._greeted += len(data)
        if self._greeted > bounds.GREETING:
            raise SSHException(f"its greeting is longer than {bounds.amount(bounds.GREETING)}")
        return data

    def send_message(self, data: Any) -> None:
        """Send a message, unless its channel has been closed since it was made."""
        raw = data.asbytes()
        with self._order:
            if raw[0] in _FOR_OPEN_CHANNELS and _number(raw, 1) in self._closed_channels:
                return
            if raw[0] == MSG_CHANNEL_CLOSE:
                self._closed_channels.add(_number(raw, 1))
            super().send_message(data)

    def read_message(self) -> tuple[int, Any]:
        """Return the next message, and note when the host gives a number to a new channel."""
        try:
            kind, message = super().read_message()
        except NeedRekeyException:
            raise
        except Exception:
            self.over = True
            raise
        self.over = kind == MSG_DISCONNECT
        if kind == MSG_CHANNEL_OPEN_SUCCESS:  # our number, theirs, ...: RFC 4254, 5.1
            self._opened(_number(message.asbytes(), 4))
        elif kind == MSG_CHANNEL_OPEN:  # the name of its kind, their number, ...
            raw = message.asbytes()
            self._opened(_number(raw, 4 + _number(raw, 0)))
        return kind, message

    def _opened(self, number: int) -> None:
        with self._order:
            self._closed_channels.discard(number)


def _number(raw: bytes, at: int) -> int:
    number: int = struct.unpack_from(">I", raw, at)[0]
    return number


class Heard:
    """A socket that knows when it last received something; paramiko talks to it as to the socket itself."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self.at = time.monotonic()
        if isinstance(sock, socket.socket) and sock.family != socket.AF_UNIX:
            # Without it, a request that takes two packets waits 40 ms for the acknowledgement of the first.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def recv(self, size: int) -> bytes:
        """Return what came in, and note the time."""
        data: bytes = self._sock.recv(size)
        self.at = time.monotonic()
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


class Pulse:
    """Watches `transport` until `stop`. `requests` is held during a question: paramiko matches answers by their order.

    It asks every `interval` seconds; `silence` seconds without a byte from the host, after a question, end the connection.
    """

    def __init__(
        self, transport: Any, heard: Heard, requests: threading.Lock, *, interval: float, silence: float
    ) -> None:
        self._transport, self._heard, self._requests = transport, heard, requests
        self._interval, self._silence = interval, silence
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="tfprov-ssh-pulse", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """End the watch; returns at once."""
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(self._interval) and self._transport.is_active():
            asking = threading.Thread(target=self._ask, name="tfprov-ssh-ask", daemon=True)
            asking.start()
            asking.join(self._silence)
            while asking.is_alive():  # a slow network delays the answer behind other data: any byte is a sign of life
                if time.monotonic() - self._heard.at >= self._silence:
                    self._transport.close()
                asking.join(1.0)

    def _ask(self) -> None:
        try:
            with self._requests:
                self._transport.global_request("keepalive@openssh.com", wait=True)
        except Exception:
            return

"""Noticing that the other side is gone: a network that swallows packets, a machine that is frozen, a lost gateway.

TCP alone notices after a quarter of an hour, and a frozen machine's kernel goes on to acknowledge packets for ever. So
sshd is asked for an answer from time to time, and the connection is closed when nothing at all has been heard for long.
"""

import socket
import threading
import time
from typing import Any


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

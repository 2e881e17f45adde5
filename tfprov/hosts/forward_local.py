"""A port on this machine's loopback that leads through the connection to where the host can go."""

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import paramiko

from tfprov.errors import HostError
from tfprov.hosts.foreign import ForwardingForbidden, talking
from tfprov.hosts.forward import AT_ONCE, FIX
from tfprov.hosts.ssh_stream import Stream

if TYPE_CHECKING:
    from tfprov.hosts.ssh_link import Link

_LOOPBACK = "127.0.0.1"
_PIECE = 64 * 1024
_PROHIBITED = 1
"""SSH_OPEN_ADMINISTRATIVELY_PROHIBITED, RFC 4254, 5.1."""


class LocalForward:
    """Leads from `port`, while this is entered, to `address:to` as the host sees it.

    `link` returns the connection to the host; it is asked for every connection that is carried, so that one that was
    lost is made anew. `at` is the port to listen on, 0 for any. Raises ForwardingForbidden when sshd does not allow it,
    HostError when `at` is taken. That nothing listens there is seen by who connects.
    """

    def __init__(self, link: "Callable[[], Link]", address: str, to: int, at: int = 0) -> None:
        self._link, self._to = link, (address, to)
        self._places = threading.BoundedSemaphore(AT_ONCE)
        self._lock = threading.Lock()
        self._open: set[Stream | socket.socket] = set()
        self._closed = False
        self._ask(link())
        self._listener = self._listening(at)
        self.port: int = self._listener.getsockname()[1]

    def _listening(self, at: int) -> socket.socket:
        try:
            return socket.create_server((_LOOPBACK, at))
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)  # without what Python adds to it
            what = f"port {at} of this machine cannot lead there: {reason}"
            raise HostError(self._link().host, what, "choose another one") from None

    def _ask(self, link: "Link") -> None:
        """Find out whether sshd forwards at all: it says so only when a connection is wanted."""
        with talking(link.host, "asking for a port forward"):
            try:
                self._channel(link).close()
            except paramiko.ChannelException as error:
                if error.code == _PROHIBITED:
                    what = f"its sshd does not forward to {self._to[0]}:{self._to[1]}"
                    raise ForwardingForbidden(link.host, what, FIX) from error

    def _channel(self, link: "Link") -> Any:
        limit = link.target.connect_timeout
        return link.transport.open_channel("direct-tcpip", self._to, (_LOOPBACK, 0), timeout=limit)

    def __enter__(self) -> "LocalForward":
        threading.Thread(target=self._accept, name="tfprov-forward", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
            left = tuple(self._open)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept(), which close() alone does not
        self._listener.close()
        for end in left:
            _end(end)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._places.acquire()
                threading.Thread(target=self._carry, args=(connection,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        try:
            with near, contextlib.suppress(HostError, OSError), self._stream() as far:
                self._keep(near, far)
                back = threading.Thread(target=_copy_back, args=(far, near), daemon=True)
                back.start()
                while data := near.recv(_PIECE):
                    far.sendall(data)
                far.shutdown_write()
                back.join()
        finally:
            self._places.release()

    def _stream(self) -> Stream:
        doing = f"forwarding to {self._to[0]}:{self._to[1]}"
        link = self._link()
        with talking(link.host, doing):
            return Stream(link, self._channel(link), doing, lambda: None)

    def _keep(self, *ends: Stream | socket.socket) -> None:
        """Remember what is open, so that it can be closed with the forward; what has closed by itself is dropped."""
        with self._lock:
            self._open = {end for end in self._open if _is_open(end)} | set(ends)
            if self._closed:
                for end in ends:
                    _end(end)


def _copy_back(far: Stream, near: socket.socket) -> None:
    with contextlib.suppress(HostError, OSError):
        while data := far.recv(_PIECE):
            near.sendall(data)
        near.shutdown(socket.SHUT_WR)


def _is_open(end: Stream | socket.socket) -> bool:
    return end.open if isinstance(end, Stream) else end.fileno() >= 0


def _end(end: Stream | socket.socket) -> None:
    if isinstance(end, Stream):
        end.close()
        return
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)

"""A port on this machine's loopback that leads through the connection to where the host can go."""

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import paramiko

from tfprov.errors import HostError
from tfprov.hosts.ssh.errors import ForwardingForbidden, talking
from tfprov.hosts.ssh.http_gate import Gate, first_request
from tfprov.hosts.ssh.remote_forward import AT_ONCE, FIX
from tfprov.hosts.ssh.stream import Stream

if TYPE_CHECKING:
    from tfprov.hosts.ssh.connection import Link

_LOOPBACK = "127.0.0.1"
_PIECE = 64 * 1024
_PROHIBITED = 1
"""SSH_OPEN_ADMINISTRATIVELY_PROHIBITED, RFC 4254, 5.1."""


class LocalForward:
    """Leads from `port`, while this is entered, to `address:to` as the host sees it.

    `link` returns the connection to the host; it is asked for every connection that is carried, so that one that was
    lost is made anew. `at` is the port to listen on, 0 for any. Raises ForwardingForbidden when sshd does not allow it,
    HostError when `at` is taken. That nothing listens there is seen by who connects. Only whom `gate` lets in gets there.
    """

    def __init__(self, link: "Callable[[], Link]", address: str, to: int, at: int = 0, *, gate: Gate) -> None:
        self._link, self._to, self._gate = link, (address, to), gate
        self._places = threading.BoundedSemaphore(AT_ONCE)
        self._lock = threading.Lock()
        self._open: set[Stream | socket.socket] = set()
        self._closed = False
        if (asked := channel_to(link(), address, to)) is not None:
            asked.close()
        self._listener = self._listening(at)
        self.port: int = self._listener.getsockname()[1]

    def _listening(self, at: int) -> socket.socket:
        try:
            return socket.create_server((_LOOPBACK, at))
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)  # without what Python adds to it
            what = f"port {at} of this machine cannot lead there: {reason}"
            raise HostError(self._link().host, what, "choose another one") from None

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
            with near, contextlib.suppress(HostError, OSError):
                self._let_in(near)
        finally:
            self._places.release()

    def _let_in(self, near: socket.socket) -> None:
        self._keep(near)
        head = first_request(near)
        refusal = self._gate.refusal(head, self.port) if head else b""
        if refusal is not None:
            near.sendall(refusal)
            return
        with self._stream() as far:
            self._keep(near, far)
            far.sendall(head)
            back = threading.Thread(target=_copy_back, args=(far, near), daemon=True)
            back.start()
            while data := near.recv(_PIECE):
                far.sendall(data)
            far.shutdown_write()
            back.join()

    def _stream(self) -> Stream:
        doing = f"forwarding to {self._to[0]}:{self._to[1]}"
        link = self._link()
        with talking(link.host, doing):
            return Stream(link, _channel(link, *self._to), doing, lambda: None)

    def _keep(self, *ends: Stream | socket.socket) -> None:
        """Remember what is open, so that it can be closed with the forward; what has closed by itself is dropped."""
        with self._lock:
            self._open = {end for end in self._open if _is_open(end)} | set(ends)
            if self._closed:
                for end in ends:
                    _end(end)


def channel_to(link: "Link", address: str, port: int) -> Any:
    """Return a channel to `address:port` as the host sees it, for the caller to close; None where nothing listens.

    Nothing of this machine leads to it. Raises ForwardingForbidden when sshd does not allow it, ConnectionLost.
    """
    with talking(link.host, "asking for a port forward"):
        try:
            return _channel(link, address, port)
        except paramiko.ChannelException as error:
            if error.code == _PROHIBITED:
                what = f"its sshd does not forward to {address}:{port}"
                raise ForwardingForbidden(link.host, what, FIX) from error
            return None


def _channel(link: "Link", address: str, port: int) -> Any:
    limit = link.target.connect_timeout
    return link.transport.open_channel("direct-tcpip", (address, port), (_LOOPBACK, 0), timeout=limit)


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

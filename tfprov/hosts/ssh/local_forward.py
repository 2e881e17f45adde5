"""Forward a port of this machine's loopback, over SSH, to an address that the host can reach (`ssh -L`), for HTTP."""

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

import paramiko

from tfprov.errors import HostError
from tfprov.hosts.ssh.connection import Connection
from tfprov.hosts.ssh.errors import ForwardingForbidden, channel_errors
from tfprov.hosts.ssh.http_gate import TokenGate, read_request_head
from tfprov.hosts.ssh.remote_forward import FORWARDING_FIX, MAX_CONNECTIONS
from tfprov.hosts.ssh.stream import Stream

_LOOPBACK = "127.0.0.1"
_PIECE = 64 * 1024
_PROHIBITED = 1
"""SSH_OPEN_ADMINISTRATIVELY_PROHIBITED, RFC 4254, 5.1."""


class LocalForward:
    """Forwards `port` of the loopback, while entered, to `address:remote_port` as seen from the host.

    `connect` returns the SSH connection and is called per forwarded connection, so that a lost one is replaced.
    `local_port` is the port to listen on, 0 for any free one. `gate` refuses requests without its token. Raises
    ForwardingForbidden if sshd does not allow the forward, HostError if `local_port` is taken. If nothing listens at the
    destination, connections are closed.
    """

    def __init__(
        self, connect: Callable[[], Connection], address: str, remote_port: int, local_port: int = 0, *, gate: TokenGate
    ) -> None:
        self._connect, self._destination, self._gate = connect, (address, remote_port), gate
        self._slots = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._lock = threading.Lock()
        self._open_ends: set[Stream | socket.socket] = set()
        self._closed = False
        if (trial := open_direct_channel(connect(), address, remote_port)) is not None:
            trial.close()
        self._listener = self._listen(local_port)
        self.port: int = self._listener.getsockname()[1]

    def _listen(self, local_port: int) -> socket.socket:
        try:
            return socket.create_server((_LOOPBACK, local_port))
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)  # without the address that Python adds
            problem = f"cannot listen on port {local_port} of this machine: {reason}"
            raise HostError(self._connect().host, problem, "choose another port") from None

    def __enter__(self) -> "LocalForward":
        threading.Thread(target=self._accept, name="tfprov-forward", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
            ends = tuple(self._open_ends)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept(), which close() alone does not
        self._listener.close()
        for end in ends:
            _shut_down(end)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._slots.acquire()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, local: socket.socket) -> None:
        try:
            with local, contextlib.suppress(HostError, OSError):
                self._forward_http(local)
        finally:
            self._slots.release()

    def _forward_http(self, local: socket.socket) -> None:
        self._track(local)
        head = read_request_head(local)
        refusal = self._gate.refusal(head, self.port) if head else b""
        if refusal is not None:
            local.sendall(refusal)
            return
        with self._open_stream() as remote:
            self._track(local, remote)
            remote.sendall(head)
            copier = threading.Thread(target=_copy_to_local, args=(remote, local), daemon=True)
            copier.start()
            while data := local.recv(_PIECE):
                remote.sendall(data)
            remote.shutdown_write()
            copier.join()

    def _open_stream(self) -> Stream:
        action = f"forwarding to {self._destination[0]}:{self._destination[1]}"
        connection = self._connect()
        with channel_errors(connection.host, action):
            return Stream(connection, _open_channel(connection, *self._destination), action, lambda: None)

    def _track(self, *ends: Stream | socket.socket) -> None:
        """Remember open ends to close them with the forward; forget closed ones."""
        with self._lock:
            self._open_ends = {end for end in self._open_ends if _is_open(end)} | set(ends)
            if self._closed:
                for end in ends:
                    _shut_down(end)


def open_direct_channel(connection: Connection, address: str, port: int) -> Any:
    """Return a direct-tcpip channel to `address:port` as seen from the host; None if nothing listens. The caller closes it.

    Raises ForwardingForbidden if sshd does not allow it, ConnectionLost.
    """
    with channel_errors(connection.host, "asking for a port forward"):
        try:
            return _open_channel(connection, address, port)
        except paramiko.ChannelException as error:
            if error.code == _PROHIBITED:
                problem = f"its sshd does not forward to {address}:{port}"
                raise ForwardingForbidden(connection.host, problem, FORWARDING_FIX) from error
            return None


def open_unix_stream(connection: Connection, path: str) -> Stream | None:
    """Return a stream to the unix socket at `path` on the host; None if sshd refuses it, or cannot connect to it.

    The caller closes it. Raises ConnectionLost.
    """
    action = f"connecting to {path}"
    with channel_errors(connection.host, action):
        try:
            channel = connection.transport.open_unix_channel(path, connection.target.connect_timeout)
        except paramiko.ChannelException:
            return None
    return Stream(connection, channel, action, lambda: None)


def _open_channel(connection: Connection, address: str, port: int) -> Any:
    limit = connection.target.connect_timeout
    return connection.transport.open_channel("direct-tcpip", (address, port), (_LOOPBACK, 0), timeout=limit)


def _copy_to_local(remote: Stream, local: socket.socket) -> None:
    with contextlib.suppress(HostError, OSError):
        while data := remote.recv(_PIECE):
            local.sendall(data)
        local.shutdown(socket.SHUT_WR)
        return
    _shut_down(local)  # the host is lost, or the browser has gone: what waits for either of them ends


def _is_open(end: Stream | socket.socket) -> bool:
    return end.is_open if isinstance(end, Stream) else end.fileno() >= 0


def _shut_down(end: Stream | socket.socket) -> None:
    if isinstance(end, Stream):
        end.close()
        return
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)

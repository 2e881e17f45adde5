"""Forward ports of a host's loopback, over SSH, to functions of this process (`ssh -R`)."""

import contextlib
import ipaddress
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import paramiko

from tfprov.errors import HostError
from tfprov.hosts.ssh.errors import ForwardingForbidden, channel_errors
from tfprov.hosts.ssh.receive_buffer import bounded
from tfprov.hosts.ssh.stream import Carrier, Stream

Serve = Callable[[Stream], None]

MAX_SERVED = 16
"""Connections of one forward served concurrently; an engine that pulls an image opens about five."""
MAX_CONNECTIONS = 64
"""Open connections of one forward; further ones are closed at once."""
_LOOPBACK = "127.0.0.1"
FORWARDING_FIX = "allow it in the host's sshd_config (AllowTcpForwarding, PermitListen, PermitOpen)"


class RequestCarrier(Carrier, Protocol):
    """An SSH connection for global requests, made one at a time: paramiko matches replies to requests by order."""

    @property
    def transport(self) -> Any:
        """Paramiko's Transport."""
        ...

    @property
    def request_lock(self) -> threading.Lock:
        """The lock to hold during a global request."""
        ...


class RemoteForwards:
    """All remote forwards of one connection.

    paramiko keeps one handler for all forwards and drops it when any is cancelled through it, so this one handler stays
    registered and dispatches by port.
    """

    def __init__(self, connection: RequestCarrier) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._forwards: dict[int, _Forward] = {}

    @contextmanager
    def listen(self, serve: Serve) -> Iterator[int]:
        """Yield a port of the host's loopback. Raises ForwardingForbidden, and on exit the first error of `serve`."""
        forward = _Forward(self._connection, serve)
        # _dispatch() of an immediate connection waits for this lock until the port is registered.
        with self._lock:
            port = self._request_port()
            self._forwards[port] = forward
        try:
            yield port
        finally:
            self._cancel_port(port)
            forward.close()
        if forward.failure is not None:
            raise forward.failure

    def _request_port(self) -> int:
        with channel_errors(self._connection.host, "asking for a port forward"), self._connection.request_lock:
            try:
                port: int = self._connection.transport.request_port_forward(_LOOPBACK, 0, self._incoming)
            except paramiko.SSHException as error:
                if not self._connection.alive:
                    raise
                problem = "its sshd does not forward a port of the host to tfprov"
                raise ForwardingForbidden(self._connection.host, problem, FORWARDING_FIX) from error
        return port

    def _cancel_port(self, port: int) -> None:
        with self._lock:
            self._forwards.pop(port, None)
        with contextlib.suppress(paramiko.SSHException, OSError, EOFError), self._connection.request_lock:
            self._connection.transport.global_request("cancel-tcpip-forward", (_LOOPBACK, port))

    def _incoming(self, channel: Any, origin: tuple[str, int], server: tuple[str, int]) -> None:
        """Accept a connection. Called in paramiko's thread, which must not block."""
        threading.Thread(target=self._dispatch, args=(bounded(channel), origin[0], server[1]), daemon=True).start()

    def _dispatch(self, channel: Any, origin: str, port: int) -> None:
        with self._lock:
            forward = self._forwards.get(port)
        # With `GatewayPorts yes` in sshd_config, sshd listens on all interfaces instead of the loopback.
        if forward is None or not is_loopback(origin):
            with contextlib.suppress(paramiko.SSHException, OSError, EOFError):  # the connection has ended
                channel.close()
        else:
            forward.serve(channel)


class _Forward:
    """The connections of one forward. `failure` is the first error of `serve` other than HostError and OSError."""

    def __init__(self, carrier: Carrier, serve: Serve) -> None:
        self._carrier, self._serve = carrier, serve
        self._slots = threading.BoundedSemaphore(MAX_SERVED)
        self._lock = threading.Lock()
        self._streams: set[Stream] = set()
        self._closed = False
        self.failure: Exception | None = None

    def serve(self, channel: Any) -> None:
        """Serve one connection to its end, after waiting for a free slot."""
        stream = Stream(self._carrier, channel, "serving a forwarded port", lambda: None)
        with stream:
            if not self._admit(stream):
                return
            try:
                with self._slots:
                    if not self._closed:
                        self._serve(stream)
            except (HostError, OSError):  # the peer disconnected
                pass
            except Exception as error:
                self.failure = self.failure or error
            finally:
                with self._lock:
                    self._streams.discard(stream)

    def _admit(self, stream: Stream) -> bool:
        with self._lock:
            if self._closed or len(self._streams) >= MAX_CONNECTIONS:
                return False
            self._streams.add(stream)
            return True

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            self._closed = True
            streams = tuple(self._streams)
        for stream in streams:
            stream.close()


def is_loopback(origin: str) -> bool:
    """Whether `origin`, as reported by sshd, is the host itself."""
    try:
        address = ipaddress.ip_address(origin)
    except ValueError:  # OpenSSH reports names for some kinds of sockets
        return origin in ("localhost", "UNKNOWN", "")
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback

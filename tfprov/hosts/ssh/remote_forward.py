"""Ports on a host's loopback that lead through the connection to us."""

import contextlib
import ipaddress
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import paramiko

from tfprov.errors import HostError
from tfprov.hosts.ssh.errors import ForwardingForbidden, talking
from tfprov.hosts.ssh.stream import Carrier, Stream

Serve = Callable[[Stream], None]

AT_ONCE = 16
"""Connections through one forward that are served at the same time; an engine that pulls an image makes about five."""
WAITING = 64
"""Connections through one forward that may exist: those beyond are closed at once."""
_LOOPBACK = "127.0.0.1"
FIX = "allow it in the host's sshd_config (AllowTcpForwarding, PermitListen, PermitOpen)"


class Requester(Carrier, Protocol):
    """An SSH connection on which global requests are made, one at a time: paramiko matches answers by their order."""

    @property
    def transport(self) -> Any:
        """Return paramiko's Transport."""
        ...

    @property
    def requests(self) -> threading.Lock:
        """Return the lock to hold during a global request."""
        ...


class ReverseForwards:
    """All reverse forwards of one connection.

    paramiko keeps one handler for all of them, and forgets it when any is cancelled through it. So ours stays, and finds
    by the port who serves.
    """

    def __init__(self, connection: Requester) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._serving: dict[int, _Served] = {}

    @contextmanager
    def listening(self, serve: Serve) -> Iterator[int]:
        """Yield a port on the host's loopback. Raises ForwardingForbidden, and at the end what `serve` raised."""
        served = _Served(self._connection, serve)
        # The lock is held until the port is known: a connection that comes in at once waits for that.
        with self._lock:
            port = self._request()
            self._serving[port] = served
        try:
            yield port
        finally:
            self._cancel(port)
            served.close()
        if served.failure is not None:
            raise served.failure

    def _request(self) -> int:
        with talking(self._connection.host, "asking for a port forward"), self._connection.requests:
            try:
                port: int = self._connection.transport.request_port_forward(_LOOPBACK, 0, self._incoming)
            except paramiko.SSHException as error:
                if not self._connection.alive:
                    raise
                what = "its sshd does not forward a port of the host to us"
                raise ForwardingForbidden(self._connection.host, what, FIX) from error
        return port

    def _cancel(self, port: int) -> None:
        with self._lock:
            self._serving.pop(port, None)
        with contextlib.suppress(paramiko.SSHException, OSError, EOFError), self._connection.requests:
            self._connection.transport.global_request("cancel-tcpip-forward", (_LOOPBACK, port))

    def _incoming(self, channel: Any, origin: tuple[str, int], server: tuple[str, int]) -> None:
        """Take a new connection. Called by paramiko's own thread, which must not wait."""
        threading.Thread(target=self._dispatch, args=(channel, origin[0], server[1]), daemon=True).start()

    def _dispatch(self, channel: Any, origin: str, port: int) -> None:
        with self._lock:
            served = self._serving.get(port)
        # `GatewayPorts yes` in sshd_config opens what we asked for the loopback to the whole network.
        if served is None or not is_loopback(origin):
            with contextlib.suppress(paramiko.SSHException, OSError, EOFError):  # the connection has ended
                channel.close()
        else:
            served.serve(channel)


class _Served:
    """The connections of one forward. `failure` is the first error of the caller's function that is not the network's."""

    def __init__(self, carrier: Carrier, serve: Serve) -> None:
        self._carrier, self._serve = carrier, serve
        self._places = threading.BoundedSemaphore(AT_ONCE)
        self._lock = threading.Lock()
        self._streams: set[Stream] = set()
        self._closed = False
        self.failure: Exception | None = None

    def serve(self, channel: Any) -> None:
        """Serve one connection to its end, after those before it where there are many."""
        stream = Stream(self._carrier, channel, "serving a forwarded port", lambda: None)
        with stream:
            if not self._admitted(stream):
                return
            try:
                with self._places:
                    if not self._closed:
                        self._serve(stream)
            except (HostError, OSError):  # whoever connected has left
                pass
            except Exception as error:
                self.failure = self.failure or error
            finally:
                with self._lock:
                    self._streams.discard(stream)

    def _admitted(self, stream: Stream) -> bool:
        with self._lock:
            if self._closed or len(self._streams) >= WAITING:
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
    """Whether a connection that came from `origin`, as sshd names it, came from the host itself."""
    try:
        address = ipaddress.ip_address(origin)
    except ValueError:  # OpenSSH sends the word for some kinds of sockets
        return origin in ("localhost", "UNKNOWN", "")
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback

"""One SSH connection to a host, through its gateways: connect with Fabric, open sessions, keep the connection alive."""

import contextlib
import logging
import random
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, cast

import fabric  # type: ignore[import-untyped]
import paramiko

from tfprov.errors import HostError, TfprovError, Unreachable, printable
from tfprov.hosts.ssh.auth import Login
from tfprov.hosts.ssh.channel_pool import ExtraConnections, SessionSlots
from tfprov.hosts.ssh.client_config import Hop, SSHTarget, route
from tfprov.hosts.ssh.errors import ConnectionDropped, connect_errors, connection_lost
from tfprov.hosts.ssh.host_keys import HostKeyPolicy, host_key_algorithms
from tfprov.hosts.ssh.receive_buffer import PACKET, WINDOW, receiving
from tfprov.hosts.ssh.remote_forward import RemoteForwards
from tfprov.hosts.ssh.transport import Keepalive, SafePacketizer, SocketClock
from tfprov.hosts.ssh.unix_forward import UnixTransport
from tfprov.hosts.trace import traced

_FAMILIES = {"inet": (socket.AF_INET, "IPv4"), "inet6": (socket.AF_INET6, "IPv6")}


def dial(hop: Hop, limit: float) -> socket.socket | None:
    """Connect to `hop`, with `limit` seconds per address; None if it may use any family. Raises OSError, Unreachable."""
    if hop.address_family not in _FAMILIES:
        return None
    family, name = _FAMILIES[hop.address_family]
    try:
        addresses = socket.getaddrinfo(hop.address, hop.port, family, socket.SOCK_STREAM)
    except socket.gaierror as error:
        problem = f"no {name} address for {printable(hop.address)}"
        raise Unreachable(hop.label, problem, "correct `ansible_host`, or allow both families of addresses") from error
    last_error: OSError = OSError("no address")
    for _, kind, protocol, _, address in addresses:
        sock = socket.socket(family, kind, protocol)
        sock.settimeout(limit)
        try:
            sock.connect(address)
        except OSError as error:
            sock.close()
            last_error = error
        else:
            return sock
    raise last_error


_PROXY_EXIT_SECONDS = 2.0
"""Seconds for the ProxyCommand to end after its connection is closed."""


class ProxySocket:
    """A socket connected to the standard input and output of a ProxyCommand, which the shell runs as for OpenSSH."""

    def __init__(self, command: str) -> None:
        self._socket, proxy_end = socket.socketpair()
        with proxy_end:
            descriptor = proxy_end.fileno()
            command_line = ["/bin/sh", "-c", f"exec {command}"]
            self._process = subprocess.Popen(
                command_line,
                stdin=descriptor,
                stdout=descriptor,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for tfprov: running actions go on over this connection
            )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def close(self) -> None:
        """Close the socket and end the program; a thread that reads from it wakes up."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_PROXY_EXIT_SECONDS)
            return
        self._process.kill()
        self._process.wait()


MAX_SESSIONS = 8
"""Concurrent sessions per host. sshd allows ten per connection (MaxSessions) and counts one until its program has ended."""
_REFUSAL_SECONDS = 3.0
"""Seconds of refused sessions before another connection is opened: on a busy host, programs of closed sessions may take a
while to end."""
_JITTER = random.Random()  # noqa: S311
"""Spreads retries; separate from the global generator, which a program may have seeded."""
_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes192-ctr", "aes256-ctr")
"""paramiko prefers aes128-ctr and checks every packet in Python: 240 to 290 MB/s, against 740 to 840 with gcm."""

# Without a handler, Python prints paramiko's errors with tracebacks next to our one-line error.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class Connection:
    """An SSH connection, open once constructed; after a loss or a close it is not reopened.

    Hold `request_lock` during a global request (a port forward): paramiko matches replies to requests by order.
    """

    def __init__(self, target: SSHTarget, release_idle: Sequence[Callable[[], None]] = ()) -> None:
        self.host = target.name
        self.target = target
        self.request_lock = threading.Lock()
        self.session_slots = SessionSlots(MAX_SESSIONS, release_idle)
        self.forwards = RemoteForwards(self)
        self._extra = ExtraConnections(lambda: Connection(target))
        with traced(self.host, "ssh: connect"):
            self._hops = self._connect_with_retries()
        self.transport: Any = self._hops[-1].transport
        self.socket_clock: SocketClock = self.transport.sock
        self.socket_clock.wait_longer()
        self._keepalive = Keepalive(
            self.transport, self.socket_clock, self.request_lock,
            interval=target.keepalive_interval, silence=target.keepalive_silence,
        )  # fmt: skip
        self._keepalive.start()

    @property
    def alive(self) -> bool:
        """Whether the connection can be used."""
        return bool(self.transport.is_active()) and not self.transport.packetizer.ended

    @property
    def open_channels(self) -> int:
        """Number of open channels, of commands and of forwarded ports."""
        return len(self.transport._channels)  # noqa: SLF001

    @property
    def user(self) -> str:
        """The user name of the login."""
        return str(self._hops[-1].user)

    def close(self) -> None:
        """Close the connection, the extra connections and the gateways. Idempotent."""
        self._extra.close()
        self._keepalive.stop()
        _close_all(self._hops)

    def open_session(self, timeout: float) -> "tuple[Connection, Any]":
        """Return a new session channel and its connection, waiting up to `timeout` seconds; the caller releases the slot.

        sshd may allow fewer sessions than MAX_SESSIONS, and frees one only when its program has ended: a refused session
        is retried, after _REFUSAL_SECONDS on another connection. Existing extra connections are tried at once.
        """
        deadline = time.monotonic() + timeout
        connect_at: float | None = None
        for pause in _backoff(0.05, 0.5):
            left = deadline - time.monotonic()
            if left <= 0 or not self.session_slots.acquire(left):
                break
            try:
                is_late = connect_at is not None and time.monotonic() >= connect_at
                session = self._try_open_session(use_extra=self._extra.are_open or is_late)
            except BaseException:
                self.session_slots.release()
                raise
            if session is not None:
                return session
            self.session_slots.release()
            # From the first refusal on: to wait for a slot, while many threads work, is no reason for another connection.
            connect_at = connect_at or min(time.monotonic() + _REFUSAL_SECONDS, deadline - timeout / 2)
            self.session_slots.reclaim_idle()
            time.sleep(min(pause, left))
        problem = f"no free SSH session within {timeout:g} s"
        raise HostError(self.host, problem, f"raise MaxSessions in its sshd_config to {MAX_SESSIONS + 2} or more")

    def _try_open_session(self, *, use_extra: bool) -> "tuple[Connection, Any] | None":
        in_use = self.open_channels > 0  # an account that may open no session at all gets no second connection
        channel = self.try_session()
        if channel is not None:
            return self, channel
        return self._extra.open_session(may_connect=in_use) if use_extra else None

    def try_session(self) -> Any:
        """Return a new session channel, or None if sshd refuses one. Raises ConnectionLost."""
        try:
            limit = self.target.connect_timeout
            channel = self.transport.open_session(window_size=WINDOW, max_packet_size=PACKET, timeout=limit)
        except (paramiko.SSHException, EOFError, OSError) as error:
            if not self.alive or "Timeout" in str(error):
                raise connection_lost(self.host, "opening a session") from error
            return None
        return receiving(channel)

    def channel_error(self, action: str) -> HostError:
        """Return the error for a channel that ended during `action`."""
        return (
            HostError(self.host, f"the host closed the channel: {action}")
            if self.alive
            else connection_lost(self.host, action)
        )

    def _connect_with_retries(self) -> list[Any]:
        for pause in self.target.retry_pauses:
            try:
                return self._connect()
            except ConnectionDropped:
                time.sleep(pause * _JITTER.uniform(0.7, 1.3))
        return self._connect()

    def _connect(self) -> list[Any]:
        connections: list[Any] = []
        try:
            for hop in route(self.target):
                gateway = connections[-1] if connections else None
                with connect_errors(hop.label, hop.where, self.target.connect_timeout):
                    connections.append(self._make_fabric_connection(hop, gateway))
                    connections[-1].open()
        except TfprovError:
            _close_all(connections)
            raise
        return connections

    def _make_fabric_connection(self, hop: Hop, gateway: Any) -> Any:
        """Return Fabric's connection with explicit settings: Fabric must not read its own files or ~/.ssh/config."""
        keys = HostKeyPolicy.load(hop, accept_new=self.target.accept_new)
        limit = self.target.connect_timeout
        connect_kwargs: dict[str, Any] = dict.fromkeys(
            ("timeout", "banner_timeout", "auth_timeout", "channel_timeout"), limit
        )
        connect_kwargs["auth_strategy"] = Login(hop, self.target.password)
        connect_kwargs["transport_factory"] = lambda sock, **options: self._make_transport(sock, keys, options)
        if hop.proxy_command and gateway is None:
            connect_kwargs["sock"] = ProxySocket(hop.proxy_command)
        elif gateway is None and (sock := dial(hop, limit)) is not None:
            connect_kwargs["sock"] = sock
        connection = FabricConnection(
            hop.address,
            user=hop.user,
            port=hop.port,
            config=_fabric_config(),
            gateway=gateway or False,
            forward_agent=False,
            connect_kwargs=connect_kwargs,
        )
        connection.client.set_missing_host_key_policy(keys)
        return connection

    def _make_transport(self, sock: Any, keys: HostKeyPolicy, options: dict[str, Any]) -> Any:
        transport = UnixTransport(cast(Any, SocketClock(sock)), packetizer_class=SafePacketizer, **options)
        limit = self.target.connect_timeout
        transport.handshake_timeout = 2 * limit  # start_client's own limit comes first, unless this machine is busy
        security = transport.get_security_options()
        security.ciphers = _CIPHERS
        security.key_types = host_key_algorithms(keys.hop, keys.key_types, security.key_types)
        return transport


class FabricConnection(fabric.Connection):  # type: ignore[misc]
    """A connection whose attributes are its own.

    Fabric writes the one that its class lacks into the settings, which all connections share: they are empty for a moment
    then, and another thread that connects ended with "No attribute or config key found for `authentication`".
    """

    inline_ssh_env = None


@cache
def _fabric_config() -> Any:
    """Return the settings of all connections: making them takes a quarter of the controller's share of a login."""
    return fabric.Config(lazy=True, ssh_config=paramiko.SSHConfig())


def _close_all(connections: list[Any]) -> None:
    for connection in reversed(connections):
        # Fabric's close() skips a connection whose handshake or login failed.
        connection.client.close()


def _backoff(first: float, last: float) -> Iterator[float]:
    while True:
        yield first
        first = min(first * 2, last)

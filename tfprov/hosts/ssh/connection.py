"""One live connection to a host: made through its gateways, with Fabric, and counted in channels."""

import contextlib
import logging
import random
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import paramiko
from fabric import Config, Connection  # type: ignore[import-untyped]

from tfprov.errors import HostError, TfprovError, Unreachable, shown
from tfprov.hosts.ssh.auth import Login
from tfprov.hosts.ssh.channel_pool import Slots, Spares
from tfprov.hosts.ssh.client_config import Hop, Target, route
from tfprov.hosts.ssh.errors import Dropped, connecting, lost
from tfprov.hosts.ssh.host_keys import HostKeys, key_types
from tfprov.hosts.ssh.remote_forward import ReverseForwards
from tfprov.hosts.ssh.transport import Heard, Packets, Pulse

_FAMILIES = {"inet": (socket.AF_INET, "IPv4"), "inet6": (socket.AF_INET6, "IPv6")}


def dial(hop: Hop, limit: float) -> socket.socket | None:
    """Connect to `hop` within `limit` seconds an address; None where any family will do. Raises OSError, Unreachable."""
    if hop.address_family not in _FAMILIES:
        return None
    family, name = _FAMILIES[hop.address_family]
    try:
        found = socket.getaddrinfo(hop.address, hop.port, family, socket.SOCK_STREAM)
    except socket.gaierror as error:
        what = f"no {name} address found for {shown(hop.address)}"
        raise Unreachable(hop.label, what, "correct `ansible_host`, or allow both families of addresses") from error
    failed: OSError = OSError("no address")
    for _, kind, protocol, _, address in found:
        made = socket.socket(family, kind, protocol)
        made.settimeout(limit)
        try:
            made.connect(address)
        except OSError as error:
            made.close()
            failed = error
        else:
            return made
    raise failed


_SECONDS = 2.0
"""How long the program may take to end once its connection is closed."""


class ProxySocket:
    """A socket whose other end is the standard input and output of `command`, run by the shell as OpenSSH does."""

    def __init__(self, command: str) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            end = theirs.fileno()
            command_line = ["/bin/sh", "-c", f"exec {command}"]
            self._process = subprocess.Popen(command_line, stdin=end, stdout=end, stderr=subprocess.DEVNULL)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def close(self) -> None:
        """Close the connection and end the program."""
        self._socket.close()
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_SECONDS)
            return
        self._process.kill()
        self._process.wait()


CHANNELS = 8
"""Sessions at once on a host. sshd allows ten on a connection (MaxSessions) and counts one until its program has ended."""
_LAG = 3.0
"""Seconds for which sshd refuses a session before another connection is made: programs of sessions that were closed may
still be ending, for a while on a busy host."""
_JITTER = random.Random()  # noqa: S311
"""So that hosts do not come back in step; apart from the generator that a program may have seeded for itself."""
_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes192-ctr", "aes256-ctr")
"""paramiko would take aes128-ctr first and check every packet in Python: 240 to 290 MB/s, and 740 to 840 with gcm."""

# Without a handler of the program's own, Python prints paramiko's errors, with tracebacks, beside our one line.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class Link:
    """A connection that is open from the start; once it is lost or closed, it stays so.

    `requests` is to be held during a global request (a port forward): paramiko matches answers by their order.
    """

    def __init__(self, target: Target, let_go: Sequence[Callable[[], None]] = ()) -> None:
        self.host = target.name
        self.target = target
        self.requests = threading.Lock()
        self.slots = Slots(CHANNELS, let_go)
        self.forwards = ReverseForwards(self)
        self._spares = Spares(lambda: Link(target))
        self._connections = self._connect_patiently()
        self.transport: Any = self._connections[-1].transport
        self.heard: Heard = self.transport.sock
        self._pulse = Pulse(
            self.transport, self.heard, self.requests,
            interval=target.keepalive_interval, silence=target.keepalive_silence,
        )  # fmt: skip
        self._pulse.start()

    @property
    def alive(self) -> bool:
        """Whether the connection can be used."""
        return bool(self.transport.is_active()) and not self.transport.packetizer.over

    @property
    def channels(self) -> int:
        """Return how many channels are open, of commands and of forwarded ports."""
        return len(self.transport._channels)  # noqa: SLF001

    @property
    def user(self) -> str:
        """Return the name that was logged in with."""
        return str(self._connections[-1].user)

    def close(self) -> None:
        """Close the connection, its spares and its gateways; those that are gone already are fine."""
        self._spares.close()
        self._pulse.stop()
        _close(self._connections)

    def session(self, patience: float) -> "tuple[Link, Any]":
        """Return a new session channel, whose slot the caller gives back, and the connection that it is on.

        Waits up to `patience` seconds for a free one. sshd may allow fewer than CHANNELS (MaxSessions), and frees a session
        only when its program has ended: a refusal is tried again, and after _LAG seconds a further connection is made. Once
        there is one, it is asked at once.
        """
        begin = time.monotonic()
        deadline = begin + patience
        for pause in _growing(0.05, 0.5):
            left = deadline - time.monotonic()
            if left <= 0 or not self.slots.take(left):
                break
            try:
                lags = time.monotonic() - begin < min(_LAG, patience / 2)
                found = self._session_somewhere(spares=self._spares.are_needed or not lags)
            except BaseException:
                self.slots.give()
                raise
            if found is not None:
                return found
            self.slots.give()
            self.slots.reclaim()
            time.sleep(min(pause, left))
        what = f"no free SSH session within {patience:g} s"
        raise HostError(self.host, what, f"raise MaxSessions in its sshd_config to {CHANNELS + 2} or more")

    def _session_somewhere(self, *, spares: bool) -> "tuple[Link, Any] | None":
        in_use = self.channels > 0  # an account that may have no session at all gets no second connection either
        channel = self.try_session()
        if channel is not None:
            return self, channel
        return self._spares.session(more=in_use) if spares else None

    def try_session(self) -> Any:
        """Return a new session channel; None when sshd refuses one for now. Raises ConnectionLost."""
        try:
            return self.transport.open_session(timeout=self.target.connect_timeout)
        except (paramiko.SSHException, EOFError, OSError) as error:
            if not self.alive or "Timeout" in str(error):
                raise lost(self.host, "opening a session") from error
            return None

    def lost(self, doing: str) -> HostError:
        """Return the error for a channel that ended during `doing`."""
        return HostError(self.host, f"the host closed the channel: {doing}") if self.alive else lost(self.host, doing)

    def _connect_patiently(self) -> list[Any]:
        for pause in self.target.retry_pauses:
            try:
                return self._connect()
            except Dropped:
                time.sleep(pause * _JITTER.uniform(0.7, 1.3))
        return self._connect()

    def _connect(self) -> list[Any]:
        connections: list[Any] = []
        try:
            for hop in route(self.target):
                gateway = connections[-1] if connections else None
                with connecting(hop.label, hop.where, self.target.connect_timeout):
                    connections.append(self._connection(hop, gateway))
                    connections[-1].open()
        except TfprovError:
            _close(connections)
            raise
        return connections

    def _connection(self, hop: Hop, gateway: Any) -> Any:
        """Return Fabric's connection, told everything: no file of Fabric's or SSH's is read behind our back."""
        keys = HostKeys.of(hop, accept_new=self.target.accept_new)
        limit = self.target.connect_timeout
        how: dict[str, Any] = dict.fromkeys(("timeout", "banner_timeout", "auth_timeout", "channel_timeout"), limit)
        how["auth_strategy"] = Login(hop, self.target.password)
        how["transport_factory"] = lambda sock, **options: self._transport(sock, keys, options)
        config = Config(lazy=True, ssh_config=paramiko.SSHConfig())
        if hop.proxy_command and gateway is None:
            how["sock"] = ProxySocket(hop.proxy_command)
        elif gateway is None and (made := dial(hop, limit)) is not None:
            how["sock"] = made
        connection = Connection(
            hop.address,
            user=hop.user,
            port=hop.port,
            config=config,
            gateway=gateway or False,
            forward_agent=False,
            connect_kwargs=how,
        )
        connection.client.set_missing_host_key_policy(keys)
        return connection

    def _transport(self, sock: Any, keys: HostKeys, options: dict[str, Any]) -> Any:
        transport = paramiko.Transport(cast(Any, Heard(sock)), packetizer_class=Packets, **options)
        limit = self.target.connect_timeout
        transport.handshake_timeout = 2 * limit  # its end looks like the other side's: start_client's limit comes first
        security = transport.get_security_options()
        security.ciphers = _CIPHERS
        security.key_types = key_types(keys.hop, keys.known, security.key_types)
        return transport


def _close(connections: list[Any]) -> None:
    for connection in reversed(connections):
        # Not Fabric's close(): it leaves alone what did not come up completely.
        connection.client.close()


def _growing(first: float, last: float) -> Iterator[float]:
    while True:
        yield first
        first = min(first * 2, last)

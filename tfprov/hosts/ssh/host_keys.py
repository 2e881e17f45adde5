"""Check a server's host key after the key exchange, before the user name or a credential is sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NoReturn

import paramiko

from tfprov.errors import Unreachable, printable
from tfprov.hosts.ssh.client_config import Hop
from tfprov.hosts.ssh.known_hosts import (
    SSH_PORT,
    HostKeyLine,
    KeyStatus,
    KnownHosts,
    add_key,
    check_key,
    fingerprint,
    known_hosts_name,
    known_key_types,
    read_known_hosts,
)


class UnknownHostKey(Unreachable):
    """The server's key (`key_type`, `data`) is in no known_hosts file. Nothing was sent; the connection is closed."""

    def __init__(self, hop: Hop, key_type: str, data: bytes, problem: str, fix: str) -> None:
        super().__init__(hop.label, problem, fix)
        self.hop, self.key_type, self.data = hop, key_type, data

    @property
    def shown_key(self) -> str:
        """The key's type and fingerprint."""
        return f"{self.key_type} {fingerprint(self.data)}"


@dataclass(frozen=True)
class HostKeyPolicy(paramiko.MissingHostKeyPolicy):
    """Accepts or refuses the key of one hop. paramiko's client holds no host keys, so it calls this for every key."""

    hop: Hop
    known: KnownHosts
    accept_new: bool

    @classmethod
    def load(cls, hop: Hop, *, accept_new: bool) -> "HostKeyPolicy":
        """Read the known_hosts files of `hop`. Raises Unreachable for an unreadable file."""
        try:
            return cls(hop, read_known_hosts(hop.known_hosts), accept_new)
        except OSError as error:
            raise Unreachable(hop.label, f"{error.filename}: {error.strerror}", "make it readable") from error

    @property
    def key_types(self) -> tuple[str, ...]:
        """The key types listed for the hop."""
        return known_key_types(self.known, self.hop.host_key_alias, self.hop.host_key_port)

    def missing_host_key(self, client: Any, hostname: str, key: Any) -> None:
        """Return if the key is trusted, else raise Unreachable with the fingerprint and the fix. Called by paramiko."""
        key_type, data = key.get_name(), key.asbytes()
        if not self.hop.known_hosts:
            problem = f"no file may have its host key {key_type} {fingerprint(data)}: all are `none` in ssh_config"
            raise Unreachable(self.hop.label, problem, "name one there as UserKnownHostsFile")
        status, entry = check_key(self.known, self.hop.host_key_alias, self.hop.host_key_port, key_type, data)
        if status is KeyStatus.UNKNOWN and self.accept_new:
            status, entry = self._add_key(key_type, data)
        if status is not KeyStatus.KNOWN:
            self._refuse(status, entry, key_type, data)

    def _add_key(self, key_type: str, data: bytes) -> tuple[KeyStatus, HostKeyLine | None]:
        try:
            return add_key(self.hop.known_hosts[0], self.hop.host_key_alias, self.hop.host_key_port, key_type, data)
        except OSError as error:
            problem = f"its key could not be recorded: {error.strerror}: {error.filename}"
            raise Unreachable(self.hop.label, problem) from error

    def _refuse(self, status: KeyStatus, entry: HostKeyLine | None, key_type: str, data: bytes) -> NoReturn:
        known_hosts, name = self.hop.known_hosts[0], known_hosts_name(self.hop.host_key_alias, self.hop.host_key_port)
        shown_key = f"{key_type} {fingerprint(data)}"
        scan_command = f"ssh-keyscan {_port_option(self.hop)}{self.hop.address} >> {known_hosts}"
        hint = compare_hint(key_type)
        if entry is None:
            problem = f"unknown host key {shown_key}"
            fix = f"{hint}, then run `tfprov check --trust` (or `{scan_command}`), or this again with --accept-new"
            raise UnknownHostKey(self.hop, key_type, data, problem, fix)
        if status is KeyStatus.CHANGED:
            recorded = f"{entry.key_type} {fingerprint(entry.key)}"
            problem = f"THE HOST KEY HAS CHANGED: {shown_key}, but {entry.location} has {recorded}"
            remove_command = f"ssh-keygen -R '{name}' -f {entry.file}"
            fix = f"possible man-in-the-middle attack; if the host was reinstalled, {hint}, then run `{remove_command}`"
        elif status is KeyStatus.REVOKED:
            problem, fix = f"host key {shown_key} is revoked by {entry.location}", "give the host a new key"
        else:
            authority = f"a certificate authority ({entry.location})"
            problem = f"host key {shown_key} is known only by {authority}, which is not supported"
            fix = f"{hint}, then run `{scan_command}`"
        raise Unreachable(self.hop.label, problem, fix)


def _port_option(hop: Hop) -> str:
    return "" if hop.port == SSH_PORT else f"-p {hop.port} "


def compare_hint(key_type: str) -> str:
    """Return the instruction for comparing a host's key with the shown fingerprint."""
    # sshd's files are named without the prefix: ssh_host_ed25519_key.
    file_key_type = "ecdsa" if key_type.startswith("ecdsa") else key_type.removeprefix("ssh-")
    return f"compare it with `ssh-keygen -lf /etc/ssh/ssh_host_{file_key_type}_key.pub` on the host"


def host_key_algorithms(hop: Hop, key_types: Sequence[str], offered: Sequence[str]) -> tuple[str, ...]:
    """Return the host key algorithms to negotiate: HostKeyAlgorithms if set, else `offered`, known key types first."""
    option = hop.host_key_algorithms
    if not option:
        return order_algorithms(key_types, offered)
    patterns = option.lstrip("+-^").split(",")
    matched = [name for pattern in patterns for name in offered if fnmatchcase(name, pattern)]
    if option[0] == "+":  # paramiko supports no further algorithms to append
        return order_algorithms(key_types, offered)
    if option[0] == "-":
        matched = list(order_algorithms(key_types, [name for name in offered if name not in matched]))
    elif option[0] == "^":
        matched += order_algorithms(key_types, offered)
    if not matched:
        problem = f"HostKeyAlgorithms={printable(option)} leaves no algorithm that tfprov supports"
        raise Unreachable(hop.label, problem, f"it supports {', '.join(offered)}")
    return tuple(dict.fromkeys(matched))


def order_algorithms(key_types: Sequence[str], offered: Sequence[str]) -> tuple[str, ...]:
    """Order `offered` so that algorithms of known keys come first: the key of another type would count as changed."""
    names = {"rsa-sha2-256" if key_type == "ssh-rsa" else key_type for key_type in key_types}
    names |= {"rsa-sha2-512"} if "ssh-rsa" in key_types else set()
    return tuple(sorted(offered, key=lambda name: name not in names))

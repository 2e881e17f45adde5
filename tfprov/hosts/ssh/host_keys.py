"""The check of a host's key, made after the key exchange and before a user name or anything else is sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NoReturn

import paramiko

from tfprov.errors import Unreachable, shown
from tfprov.hosts.ssh.client_config import SSH_PORT, Hop
from tfprov.hosts.ssh.known_hosts import Entry, Verdict, fingerprint, judge, kinds, listed, read, record


class UnknownKey(Unreachable):
    """A server shows a key (`kind` and `data`) that no file knows; it was sent nothing, and the connection is closed."""

    def __init__(self, hop: Hop, kind: str, data: bytes, what: str, fix: str) -> None:
        super().__init__(hop.label, what, fix)
        self.hop, self.kind, self.data = hop, kind, data

    @property
    def shows(self) -> str:
        """Return the key as people compare it."""
        return f"{self.kind} {fingerprint(self.data)}"


@dataclass(frozen=True)
class HostKeys(paramiko.MissingHostKeyPolicy):
    """Decides over the key of one hop. The client is given no keys of its own, so paramiko asks here every time."""

    hop: Hop
    entries: tuple[Entry, ...]
    accept_new: bool

    @classmethod
    def of(cls, hop: Hop, *, accept_new: bool) -> "HostKeys":
        """Read the files that `hop` names. Raises Unreachable when one cannot be read."""
        try:
            return cls(hop, read(hop.known_hosts), accept_new)
        except OSError as error:
            raise Unreachable(hop.label, f"{error.filename}: {error.strerror}", "make it readable") from error

    @property
    def known(self) -> tuple[str, ...]:
        """Return the kinds of keys that are listed for the hop."""
        return kinds(self.entries, self.hop.known_as, self.hop.port)

    def missing_host_key(self, client: Any, hostname: str, key: Any) -> None:
        """Return when the key can be trusted. Raises Unreachable, with the fingerprint and what to do, when not."""
        kind, data = key.get_name(), key.asbytes()
        verdict, entry = judge(self.entries, self.hop.known_as, self.hop.port, kind, data)
        if verdict is Verdict.UNKNOWN and self.accept_new:
            verdict, entry = self._record(kind, data)
        if verdict is not Verdict.KNOWN:
            self._refuse(verdict, entry, kind, data)

    def _record(self, kind: str, data: bytes) -> tuple[Verdict, Entry | None]:
        try:
            return record(self.hop.known_hosts[0], self.hop.known_as, self.hop.port, kind, data)
        except OSError as error:
            what = f"its key could not be recorded: {error.strerror}: {error.filename}"
            raise Unreachable(self.hop.label, what) from error

    def _refuse(self, verdict: Verdict, entry: Entry | None, kind: str, data: bytes) -> NoReturn:
        file, name = self.hop.known_hosts[0], listed(self.hop.known_as, self.hop.port)
        shows = f"{kind} {fingerprint(data)}"
        scan = f"ssh-keyscan {_port(self.hop)}{self.hop.address} >> {file}"
        compare = comparison(kind)
        if entry is None:
            what = f"unknown host key {shows}"
            fix = f"{compare}, then run `tfprov check --trust` (or `{scan}`), or this again with --accept-new"
            raise UnknownKey(self.hop, kind, data, what, fix)
        if verdict is Verdict.CHANGED:
            what = f"THE HOST KEY HAS CHANGED: {shows}, but {entry.place} has {entry.kind} {fingerprint(entry.key)}"
            remove = f"ssh-keygen -R '{name}' -f {entry.file}"
            fix = f"someone may be in between; if the host was set up anew, {compare}, then run `{remove}`"
        elif verdict is Verdict.REVOKED:
            what, fix = f"host key {shows} is revoked by {entry.place}", "give the host a new key"
        else:
            what = f"host key {shows} is known only by a certificate authority ({entry.place}), which is not supported"
            fix = f"{compare}, then run `{scan}`"
        raise Unreachable(self.hop.label, what, fix)


def _port(hop: Hop) -> str:
    return "" if hop.port == SSH_PORT else f"-p {hop.port} "


def comparison(kind: str) -> str:
    """Say how to find out on a host whether a key of its is the one that was shown."""
    # `ssh-ed25519` is `ed25519` in the names of sshd's files.
    short = "ecdsa" if kind.startswith("ecdsa") else kind.removeprefix("ssh-")
    return f"compare it with `ssh-keygen -lf /etc/ssh/ssh_host_{short}_key.pub` on the host"


def key_types(hop: Hop, known: Sequence[str], offered: Sequence[str]) -> tuple[str, ...]:
    """Return the host key algorithms to ask for: HostKeyAlgorithms as it stands, else `offered`, known ones first."""
    asked = hop.host_key_algorithms
    if not asked:
        return known_first(known, offered)
    patterns = asked.lstrip("+-^").split(",")
    named = [name for pattern in patterns for name in offered if fnmatchcase(name, pattern)]
    if asked[0] == "+":  # what else there is, paramiko does not speak
        return known_first(known, offered)
    if asked[0] == "-":
        named = list(known_first(known, [name for name in offered if name not in named]))
    elif asked[0] == "^":
        named += known_first(known, offered)
    if not named:
        what = f"HostKeyAlgorithms={shown(asked)} leaves none that tfprov speaks"
        raise Unreachable(hop.label, what, f"it speaks {', '.join(offered)}")
    return tuple(dict.fromkeys(named))


def known_first(known: Sequence[str], offered: Sequence[str]) -> tuple[str, ...]:
    """Order `offered` host key algorithms so that those of keys we know come first: others would look like a change."""
    names = {"rsa-sha2-256" if kind == "ssh-rsa" else kind for kind in known}
    names |= {"rsa-sha2-512"} if "ssh-rsa" in known else set()
    return tuple(sorted(offered, key=lambda name: name not in names))

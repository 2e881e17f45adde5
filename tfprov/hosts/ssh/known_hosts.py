"""Read known_hosts files (sshd(8)), check host keys against them and add keys.

paramiko's own reader raises on `@cert-authority` and `@revoked`, has no wildcards, and stops at some lines that it cannot
read. Here, as in OpenSSH, unusable lines are skipped.
"""

import base64
import binascii
import fcntl
import hashlib
import hmac
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tfprov.hosts.ssh.client_config import SSH_PORT

REVOKED, AUTHORITY = "@revoked", "@cert-authority"


@dataclass(frozen=True)
class HostKeyLine:
    """One line. `key` is the key blob (RFC 4253, 6.6); `marker` is empty for a plain line."""

    file: Path
    line: int
    marker: str
    patterns: tuple[str, ...]
    key_type: str
    key: bytes

    @property
    def location(self) -> str:
        """`FILE:LINE`."""
        return f"{self.file}:{self.line}"

    def matches(self, name: str) -> bool:
        """Whether the line applies to `name`: `host`, or `[host]:port` for a port other than 22."""
        matched = False
        for pattern in self.patterns:
            negated, _, positive = pattern.rpartition("!")
            if _matches_pattern(positive, name.lower()):
                if negated or pattern.startswith("!"):
                    return False
                matched = True
        return matched


class KeyStatus(Enum):
    """The result of checking a host's key against known_hosts."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"
    CERTIFIED = "known by its certificate authority only"


def fingerprint(key: bytes) -> str:
    """Return a key's SHA256 fingerprint in OpenSSH's notation."""
    return f"SHA256:{base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip('=')}"


def known_hosts_name(address: str, port: int) -> str:
    """Return a server's name in known_hosts."""
    return address if port == SSH_PORT else f"[{address}]:{port}"


def read_entries(files: Iterable[Path]) -> tuple[HostKeyLine, ...]:
    """Return the entries of all files that exist. Raises OSError for an unreadable file."""
    entries: list[HostKeyLine] = []
    for file in files:
        if file.exists():
            entries += parse_entries(file.read_bytes().decode("utf-8", errors="replace"), file)
    return tuple(entries)


def parse_entries(text: str, file: Path) -> Iterator[HostKeyLine]:
    """Yield the lines that hold a key, skipping comments and malformed lines."""
    for number, line in enumerate(text.split("\n"), 1):
        fields = line.split()
        marker = fields.pop(0) if fields and fields[0].startswith("@") else ""
        if len(fields) < 3 or fields[0].startswith("#") or marker not in ("", REVOKED, AUTHORITY):
            continue
        try:
            key = base64.b64decode(fields[2], validate=True)
        except (binascii.Error, ValueError):
            continue
        yield HostKeyLine(file, number, marker, tuple(fields[0].split(",")), fields[1], key)


def check_key(
    entries: Sequence[HostKeyLine], address: str, port: int, key_type: str, key: bytes
) -> tuple[KeyStatus, HostKeyLine | None]:
    """Return the status of a server's key, with the entry that decided it.

    A key of an unlisted type counts as changed if another type is listed: an attacker in the middle would present one.
    For a port other than 22, an entry for the bare address also vouches for its key, as in OpenSSH.
    """
    name = known_hosts_name(address, port)
    here = [entry for entry in entries if entry.matches(name)]
    bare = [entry for entry in entries if entry.matches(address)]
    for entry in (*here, *bare):
        if entry.marker == REVOKED and entry.key == key:
            return KeyStatus.REVOKED, entry
    for entry in (*here, *bare):
        if not entry.marker and entry.key == key:
            return KeyStatus.KNOWN, entry
    if plain := [entry for entry in here if not entry.marker]:
        return KeyStatus.CHANGED, next((entry for entry in plain if entry.key_type == key_type), plain[0])
    authority = next((entry for entry in (*here, *bare) if entry.marker == AUTHORITY), None)
    return (KeyStatus.CERTIFIED, authority) if authority else (KeyStatus.UNKNOWN, None)


def known_key_types(entries: Sequence[HostKeyLine], address: str, port: int) -> tuple[str, ...]:
    """Return the key types listed for a server, to negotiate first."""
    names = (known_hosts_name(address, port), address)
    return tuple(
        dict.fromkeys(entry.key_type for name in names for entry in entries if not entry.marker and entry.matches(name))
    )


def add_key(file: Path, address: str, port: int, key_type: str, key: bytes) -> tuple[KeyStatus, HostKeyLine | None]:
    """Add the key of a new server to `file`. Return KNOWN, or the status by an entry that another run added meanwhile.

    The file is locked, read again, and appended to in one write, so that concurrent runs never mix lines. Raises OSError.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "rb", buffering=0) as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        text = locked.readall()
        status, entry = check_key(
            tuple(parse_entries(text.decode("utf-8", errors="replace"), file)), address, port, key_type, key
        )
        if status is not KeyStatus.UNKNOWN:
            return status, entry
        before = "\n" if text and not text.endswith(b"\n") else ""
        line = f"{before}{known_hosts_name(address, port)} {key_type} {base64.b64encode(key).decode()}\n"
        os.write(descriptor, line.encode())
    return KeyStatus.KNOWN, None


def _matches_pattern(pattern: str, name: str) -> bool:
    if pattern.startswith("|1|"):
        return _matches_hash(pattern, name)
    # Only * and ? are special: fnmatch would read the brackets of [host]:port as a set.
    expression = "".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern.lower())
    return re.fullmatch(expression, name, re.DOTALL) is not None


def _matches_hash(pattern: str, name: str) -> bool:
    """Whether `|1|SALT|HASH` is the HMAC-SHA1 of the name under the salt."""
    _, _, salt, digest = [*pattern.split("|"), ""][:4]
    try:
        expected = hmac.new(base64.b64decode(salt), name.encode(), "sha1").digest()
        return hmac.compare_digest(expected, base64.b64decode(digest))
    except (binascii.Error, ValueError):
        return False

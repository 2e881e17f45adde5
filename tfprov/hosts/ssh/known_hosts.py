"""known_hosts, the format of sshd(8): read without stumbling over any line, judged, and added to.

paramiko's own reader raises on `@cert-authority` and `@revoked`, knows no wildcards, and keeps the lines that it cannot
read from those that follow. Here a line that says nothing of use is passed over, as OpenSSH does.
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
class Entry:
    """One line: `key` is the key's data (RFC 4253, 6.6), `marker` is empty for a plain line."""

    file: Path
    line: int
    marker: str
    patterns: tuple[str, ...]
    kind: str
    key: bytes

    @property
    def place(self) -> str:
        """Return `FILE:LINE`."""
        return f"{self.file}:{self.line}"

    def matches(self, name: str) -> bool:
        """Whether the line speaks of `name`, which is `host`, or `[host]:port` for another port than 22."""
        found = False
        for pattern in self.patterns:
            negated, _, positive = pattern.rpartition("!")
            if _matches(positive, name.lower()):
                if negated or pattern.startswith("!"):
                    return False
                found = True
        return found


class Verdict(Enum):
    """What the files say about a host and the key it shows."""

    KNOWN = "known"
    UNKNOWN = "unknown"
    CHANGED = "changed"
    REVOKED = "revoked"
    CERTIFIED = "known by its certificate authority only"


def fingerprint(key: bytes) -> str:
    """Return a key's fingerprint as OpenSSH shows it."""
    return f"SHA256:{base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip('=')}"


def listed(address: str, port: int) -> str:
    """Return the name under which a server stands in known_hosts."""
    return address if port == SSH_PORT else f"[{address}]:{port}"


def read(files: Iterable[Path]) -> tuple[Entry, ...]:
    """Return the lines of all files that exist. Raises OSError when one exists and cannot be read."""
    found: list[Entry] = []
    for file in files:
        if file.exists():
            found += parse(file.read_bytes().decode("utf-8", errors="replace"), file)
    return tuple(found)


def parse(text: str, file: Path) -> Iterator[Entry]:
    """Yield the lines that hold a key; comments, and what nobody can read, are passed over."""
    for number, line in enumerate(text.split("\n"), 1):
        fields = line.split()
        marker = fields.pop(0) if fields and fields[0].startswith("@") else ""
        if len(fields) < 3 or fields[0].startswith("#") or marker not in ("", REVOKED, AUTHORITY):
            continue
        try:
            key = base64.b64decode(fields[2], validate=True)
        except (binascii.Error, ValueError):
            continue
        yield Entry(file, number, marker, tuple(fields[0].split(",")), fields[1], key)


def judge(entries: Sequence[Entry], address: str, port: int, kind: str, key: bytes) -> tuple[Verdict, Entry | None]:
    """Return the verdict on the key that a server shows, with the line that decided.

    A key of a kind that is not listed, where another kind is, counts as changed: it is what someone in between would
    show. For another port than 22, a line for the bare address vouches for the same key, as in OpenSSH.
    """
    name = listed(address, port)
    here = [entry for entry in entries if entry.matches(name)]
    bare = [entry for entry in entries if entry.matches(address)]
    for entry in (*here, *bare):
        if entry.marker == REVOKED and entry.key == key:
            return Verdict.REVOKED, entry
    for entry in (*here, *bare):
        if not entry.marker and entry.key == key:
            return Verdict.KNOWN, entry
    if plain := [entry for entry in here if not entry.marker]:
        return Verdict.CHANGED, next((entry for entry in plain if entry.kind == kind), plain[0])
    authority = next((entry for entry in (*here, *bare) if entry.marker == AUTHORITY), None)
    return (Verdict.CERTIFIED, authority) if authority else (Verdict.UNKNOWN, None)


def kinds(entries: Sequence[Entry], address: str, port: int) -> tuple[str, ...]:
    """Return the kinds of keys that are listed for a server: what it should be asked for first."""
    names = (listed(address, port), address)
    return tuple(
        dict.fromkeys(entry.kind for name in names for entry in entries if not entry.marker and entry.matches(name))
    )


def record(file: Path, address: str, port: int, kind: str, key: bytes) -> tuple[Verdict, Entry | None]:
    """Add a first contact to `file` and return the verdict after it: KNOWN, unless another key came in meanwhile.

    The file is locked, read again, and appended to in one write, so that two runs never mix their lines. Raises OSError.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "rb", buffering=0) as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        text = opened.readall()
        verdict, entry = judge(tuple(parse(text.decode("utf-8", errors="replace"), file)), address, port, kind, key)
        if verdict is not Verdict.UNKNOWN:
            return verdict, entry
        before = "\n" if text and not text.endswith(b"\n") else ""
        line = f"{before}{listed(address, port)} {kind} {base64.b64encode(key).decode()}\n"
        os.write(descriptor, line.encode())
    return Verdict.KNOWN, None


def _matches(pattern: str, name: str) -> bool:
    if pattern.startswith("|1|"):
        return _matches_hash(pattern, name)
    # Only * and ? are special, and [host]:port is not: fnmatch would take the brackets for a set.
    expression = "".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern.lower())
    return re.fullmatch(expression, name, re.DOTALL) is not None


def _matches_hash(pattern: str, name: str) -> bool:
    """Whether `|1|SALT|HASH` is the HMAC-SHA1 of the name under the salt."""
    _, _, salt, digest = [*pattern.split("|"), ""][:4]
    try:
        found = hmac.new(base64.b64decode(salt), name.encode(), "sha1").digest()
        return hmac.compare_digest(found, base64.b64decode(digest))
    except (binascii.Error, ValueError):
        return False

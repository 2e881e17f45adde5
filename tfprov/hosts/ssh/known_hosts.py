"""Read known_hosts files (sshd(8)), check host keys against them and add keys.

paramiko's own reader raises on `@cert-authority` and `@revoked`, has no wildcards, and stops at some lines that it cannot
read. Here, as in OpenSSH, unusable lines are skipped.
"""

import base64
import binascii
import fcntl
import getpass
import hashlib
import hmac
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path

SSH_PORT = 22
_GLOBAL_FILES = "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2"
_USER_FILES = "~/.ssh/known_hosts ~/.ssh/known_hosts2"
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


class KnownHosts:
    """Lines of known_hosts files, looked up by name: `host`, or `[host]:port` for a port other than 22.

    A cluster of n hosts has n lines and n lookups. Plain names are a dictionary; a line with a hashed name, a wildcard or a
    negation is tried for each lookup, and its patterns are compiled once.
    """

    def __init__(self, lines: Iterable[HostKeyLine]) -> None:
        self.lines = tuple(lines)
        self._named: dict[str, list[int]] = {}
        self._tried: list[tuple[int, list[_Pattern]]] = []
        self._answers: dict[str, list[HostKeyLine]] = {}
        """Of each name that was looked up: a connection asks four times, and an HMAC for each hashed line takes 2 µs."""
        for number, line in enumerate(self.lines):
            patterns = [_Pattern(pattern) for pattern in line.patterns]
            if any(pattern.is_special for pattern in patterns):
                self._tried.append((number, patterns))
                continue
            for name in {pattern.text for pattern in patterns}:
                self._named.setdefault(name, []).append(number)

    def lookup(self, name: str) -> list[HostKeyLine]:
        """Return the lines that apply to a name, in the order of the files."""
        name = name.lower()
        if name not in self._answers:
            self._answers[name] = self._lookup(name)
        return self._answers[name]

    def _lookup(self, name: str) -> list[HostKeyLine]:
        tried = [number for number, patterns in self._tried if _applies(patterns, name)]
        return [self.lines[number] for number in sorted([*self._named.get(name, ()), *tried])]


class _Pattern:
    """One of the comma-separated patterns of a line."""

    def __init__(self, pattern: str) -> None:
        self.is_negated = "!" in pattern
        self.text = pattern.rpartition("!")[2].lower()
        self._hash = _hash_of(pattern.rpartition("!")[2])
        self._expression: re.Pattern[str] | None = None
        if self._hash is None and not {"*", "?"}.isdisjoint(self.text):
            # Only * and ? are special: fnmatch would read the brackets of [host]:port as a set.
            expression = "".join({"*": ".*", "?": "."}.get(c, re.escape(c)) for c in self.text)
            self._expression = re.compile(expression, re.DOTALL)

    @property
    def is_special(self) -> bool:
        """Whether it may match other names than its text."""
        return self.is_negated or self._hash is not None or self._expression is not None

    def matches(self, name: str) -> bool:
        """Whether it matches a lower-case name."""
        if self._hash is not None:
            salt, expected = self._hash
            return hmac.compare_digest(hmac.digest(salt, name.encode(), "sha1"), expected)
        if self._expression is not None:
            return self._expression.fullmatch(name) is not None
        return self.text == name


def _applies(patterns: Sequence[_Pattern], name: str) -> bool:
    """Whether a line with these patterns applies to a name: one matches, and none that is negated."""
    matched = [pattern for pattern in patterns if pattern.matches(name)]
    return bool(matched) and not any(pattern.is_negated for pattern in matched)


def _hash_of(pattern: str) -> tuple[bytes, bytes] | None:
    """Return salt and HMAC-SHA1 of `|1|SALT|HASH`; of a malformed one an HMAC that no name has."""
    if not pattern.startswith("|1|"):
        return None
    _, _, salt, digest = [*pattern.split("|"), ""][:4]
    try:
        return base64.b64decode(salt), base64.b64decode(digest)
    except (binascii.Error, ValueError):
        return b"", b""


def known_hosts_files(options: Mapping[str, str], tokens: Mapping[str, str], own: Sequence[Path]) -> tuple[Path, ...]:
    """Return the files `own` of the inventory, or those of ssh_config's `options`; paramiko replaces no tokens there."""
    user = [*map(str, own)] or shlex.split(options.get("userknownhostsfile", _USER_FILES))
    system = () if own else shlex.split(options.get("globalknownhostsfile") or _GLOBAL_FILES)
    files = [*(with_tokens(item, tokens) for item in user), *system]  # only the user's files have them
    return tuple(expanded(item) for item in files if item != "none")


def file_tokens(name: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the values of the %-tokens in names of files, for the server that ssh_config calls `name`."""
    host, me = options["hostname"], getpass.getuser()
    return {
        "%%": "%", "%d": "~", "%h": host, "%i": str(os.getuid()), "%k": options.get("hostkeyalias") or host, "%n": name,
        "%p": str(options.get("port", SSH_PORT)), "%r": options.get("user") or me, "%u": me,
    }  # fmt: skip


def with_tokens(text: str, tokens: Mapping[str, str]) -> str:
    """Return `text` with the values of `tokens`, such as `%h`."""
    return re.sub("%.", lambda token: tokens.get(token[0], token[0]), text)


def expanded(text: str) -> Path:
    """Return the path of a file in ssh_config, whose home directory and variables of the environment are replaced."""
    text = re.sub(r"\$\{(\w+)\}", lambda variable: os.environ.get(variable[1], variable[0]), text)
    return Path(text.replace("%d", "~")).expanduser()


def read_known_hosts(files: Iterable[Path]) -> KnownHosts:
    """Return the lines of all files that exist; unchanged files are read once. Raises OSError for an unreadable file."""
    return _read(tuple((file, _version(file)) for file in files if file.exists()))


def _version(file: Path) -> tuple[int, int, int]:
    status = file.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size


@lru_cache(maxsize=16)
def _read(files: tuple[tuple[Path, tuple[int, int, int]], ...]) -> KnownHosts:
    return KnownHosts(
        line for file, _ in files for line in parse_entries(file.read_bytes().decode("utf-8", errors="replace"), file)
    )


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
    known: KnownHosts, address: str, port: int, key_type: str, key: bytes
) -> tuple[KeyStatus, HostKeyLine | None]:
    """Return the status of a server's key, with the entry that decided it.

    A key of an unlisted type counts as changed if another type is listed: an attacker in the middle would present one.
    For a port other than 22, an entry for the bare address also vouches for its key, as in OpenSSH.
    """
    name = known_hosts_name(address, port)
    here, bare = known.lookup(name), known.lookup(address)
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


def known_key_types(known: KnownHosts, address: str, port: int) -> tuple[str, ...]:
    """Return the key types listed for a server, to negotiate first."""
    names = (known_hosts_name(address, port), address)
    return tuple(dict.fromkeys(line.key_type for name in names for line in known.lookup(name) if not line.marker))


def add_key(file: Path, address: str, port: int, key_type: str, key: bytes) -> tuple[KeyStatus, HostKeyLine | None]:
    """Add the key of a new server to `file`. Return KNOWN, or the status by an entry that another run added meanwhile.

    The file is locked, read again, and appended to in one write, so that concurrent runs never mix lines. Raises OSError.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "rb", buffering=0) as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        text = locked.readall()
        lines = parse_entries(text.decode("utf-8", errors="replace"), file)
        status, entry = check_key(KnownHosts(lines), address, port, key_type, key)
        if status is not KeyStatus.UNKNOWN:
            return status, entry
        before = "\n" if text and not text.endswith(b"\n") else ""
        line = f"{before}{known_hosts_name(address, port)} {key_type} {base64.b64encode(key).decode()}\n"
        os.write(descriptor, line.encode())
    return KeyStatus.KNOWN, None

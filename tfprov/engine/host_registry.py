"""What the controller remembers: hosts of a cluster, ids of delivered images, and the key for hashes of secrets.

What runs on a host is always read from the host. Passwords are not recorded.
"""

import json
import os
import secrets
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tfprov.atomic_write import private_directory, replace
from tfprov.errors import Position, Usage
from tfprov.paths import state_home
from tfprov.settings.connection import ConnectionSettings
from tfprov.vault.redaction import KeyedHash

_NAME = "hosts.json"
_PLAIN = ("address", "port", "user", "local", "become", "timeout", "proxy_jump", "proxy_command", "accept_new")
_PATHS = ("key_files", "known_hosts")


@dataclass(frozen=True)
class HostRegistry:
    """The file in `home`, a cluster's directory on the controller."""

    home: Path

    def read(self) -> dict[str, ConnectionSettings]:
        """Return the way to every recorded host; nothing when there is no record, or when it cannot be read."""
        try:
            data: Mapping[str, Any] = json.loads((self.home / _NAME).read_text())
            return {host: _decoded(host, facts) for host, facts in data.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def add(self, ways: Mapping[str, ConnectionSettings]) -> None:
        """Note these hosts, before anything is brought to them."""
        before = self.read()
        after = {**before, **ways}
        if {host: _encoded(way) for host, way in after.items()} != {h: _encoded(way) for h, way in before.items()}:
            self._write(after)

    def drop(self, hosts: Iterable[str]) -> None:
        """Forget hosts on which nothing of the cluster is left."""
        before, gone = self.read(), frozenset(hosts)
        after = {host: way for host, way in before.items() if host not in gone}
        if after != before:
            self._write(after)

    def _write(self, ways: Mapping[str, ConnectionSettings]) -> None:
        private_directory(self.home)
        data = {host: _encoded(way) for host, way in ways.items()}
        replace(self.home / _NAME, json.dumps(data, indent=1).encode(), mode=0o600)


def _encoded(way: ConnectionSettings) -> dict[str, Any]:
    facts = {name: getattr(way, name) for name in _PLAIN}
    paths = {name: [str(path) for path in getattr(way, name)] for name in _PATHS}
    return {**facts, **paths, "ssh_config": str(way.ssh_config) if way.ssh_config else None}


def _decoded(host: str, facts: Mapping[str, Any]) -> ConnectionSettings:
    values: dict[str, Any] = {name: facts[name] for name in _PLAIN}
    values |= {name: tuple(map(Path, facts[name])) for name in _PATHS}
    values["ssh_config"] = Path(facts["ssh_config"]) if facts["ssh_config"] else None
    return ConnectionSettings(host=host, at=Position("(recorded)"), password=None, **values)


_KEPT = 32
"""Images of a host that are remembered: more than ever stay there."""

Made = Callable[[str], Collection[str]]
"""Returns the ids of an image that the controller has made, by its name; none where it has not."""


class DeliveredImages:
    """The file at `path`; `made` is asked about what is not in it."""

    def __init__(self, path: Path, made: Made = lambda _reference: ()) -> None:
        self._path, self._made = path, made
        self._lock = threading.Lock()

    def on(self, host: str) -> "HostDeliveries":
        """Return what was delivered to one host."""
        return HostDeliveries(self, host)

    def image_ids(self, host: str, reference: str) -> Collection[str]:
        """Return the ids that the image `reference` may have on `host`; none where nobody knows."""
        kept = self._read().get(host, {}).get(reference)
        return (kept,) if kept else self._made(reference)

    def record(self, host: str, reference: str, image_id: str) -> None:
        """Remember the id that the engine of `host` gives to the image `reference`."""
        with self._lock:
            hosts = self._read()
            kept = hosts.get(host, {})
            if kept.get(reference) == image_id:
                return
            others = [(name, one) for name, one in kept.items() if name != reference]
            hosts[host] = dict([*others, (reference, image_id)][-_KEPT:])
            private_directory(self._path.parent)
            replace(self._path, json.dumps(hosts, indent=1).encode(), mode=0o600)

    def _read(self) -> dict[str, dict[str, str]]:
        """Return all that is remembered; nothing where the file cannot be read, as on a controller's first run."""
        try:
            hosts: Any = json.loads(self._path.read_text())
            return {host: {name: str(one) for name, one in images.items()} for host, images in hosts.items()}
        except (OSError, ValueError, AttributeError):
            return {}


@dataclass(frozen=True)
class HostDeliveries:
    """What was delivered to `host`. See Deliveries."""

    delivered: DeliveredImages
    host: str

    def image_ids(self, reference: str) -> Collection[str]:
        """See Deliveries."""
        return self.delivered.image_ids(self.host, reference)

    def record(self, reference: str, image_id: str) -> None:
        """See Deliveries."""
        self.delivered.record(self.host, reference, image_id)


_SIZE = 32
"""Bytes of a key."""
_KEY_FILE = "secret-hash-key"


def keyed_hash() -> KeyedHash:
    """Return the hashes of this controller; its key is read, or made, with the first secret."""
    return KeyedHash(cache(lambda: controller_key(state_home())))


def controller_key(directory: Path) -> bytes:
    """Return the key in `directory`, which is made once, by whoever comes first. Usage where it cannot be read."""
    path = directory / _KEY_FILE
    try:
        if not path.exists():
            _make(path)
        key = _read(path)
    except OSError as error:
        raise Usage(
            f"{path}: {error.strerror}", "the key for the hashes of secrets lies there: make it accessible"
        ) from None
    if len(key) != _SIZE:
        raise Usage(f"{path} is no key of {_SIZE} bytes", "remove it: the next command makes another one")
    return key


def _make(path: Path) -> None:
    private_directory(path.parent)
    beside = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_SIZE))
            file.flush()
            os.fsync(file.fileno())
        path.hardlink_to(beside)
    except FileExistsError:  # another run has made one meanwhile
        pass
    finally:
        beside.unlink(missing_ok=True)


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        if os.fstat(descriptor).st_mode & 0o077:  # it was copied, or restored, with other modes
            os.fchmod(descriptor, 0o600)
        return file.read(_SIZE + 1)

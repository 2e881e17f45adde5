"""The controller's records: hosts of a cluster, ids of delivered images, and the key for hashes of secrets.

The tasks on a host are always read from the host. Passwords are not recorded.
"""

import json
import os
import secrets
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
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
_LATER = ("identities_only", "authentications", "host_key_algorithms", "address_family")
"""What records of earlier versions lack."""


@dataclass(frozen=True)
class HostRegistry:
    """The connection settings of the hosts with tasks: a file in `home`, a cluster's directory on the controller."""

    home: Path

    def read(self) -> dict[str, ConnectionSettings]:
        """Return the connection settings of every recorded host, without invalid ones; empty if the file is missing."""
        try:
            data: Any = json.loads((self.home / _NAME).read_text())
        except (OSError, ValueError):
            return {}
        ways: dict[str, ConnectionSettings] = {}
        for host, facts in data.items() if isinstance(data, dict) else ():
            with suppress(ValueError, KeyError, TypeError, AttributeError):
                ways[host] = _decoded(host, facts)
        return ways

    def add(self, ways: Mapping[str, ConnectionSettings]) -> None:
        """Record hosts, before anything is delivered to them."""
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
    facts = {name: getattr(way, name) for name in (*_PLAIN, *_LATER)}
    paths = {name: [str(path) for path in getattr(way, name)] for name in _PATHS}
    return {**facts, **paths, "ssh_config": str(way.ssh_config) if way.ssh_config else None}


def _decoded(host: str, facts: Mapping[str, Any]) -> ConnectionSettings:
    values: dict[str, Any] = {name: facts[name] for name in _PLAIN}
    values |= {name: tuple(map(Path, facts[name])) for name in _PATHS}
    values["ssh_config"] = Path(facts["ssh_config"]) if facts["ssh_config"] else None
    values |= {name: facts[name] for name in _LATER if name in facts}
    values["authentications"] = tuple(map(str, values.get("authentications", ())))
    return ConnectionSettings(host=host, at=Position("(recorded)"), password=None, **values)


_KEPT = 32
"""Images recorded per host: more than stay there."""

StoredIds = Callable[[str], Collection[str]]
"""Returns the ids of an image in the controller's layout, by name; empty if it has none."""


Ids = Mapping[str, Mapping[str, str]]
"""The id of each image, by host and by name."""


class DeliveredImages:
    """The ids of delivered images by host: the file at `path`, else `stored` for images that it lacks. Thread-safe.

    The file is read again only after it has changed, as every look at a host asks, and records that are made while it is
    written are written together: both would take a time that grows with the square of the hosts. `read` and `write` are the
    file's.
    """

    def __init__(
        self,
        path: Path,
        stored: StoredIds = lambda _reference: (),
        read: Callable[[Path], bytes] = Path.read_bytes,
        write: Callable[[Path, bytes], None] = lambda path, data: replace(path, data, mode=0o600),
    ) -> None:
        self._path, self._stored, self._read_file, self._write_file = path, stored, read, write
        self._writing, self._lock = threading.Lock(), threading.Lock()
        self._new: dict[tuple[str, str], str] = {}
        self._known: tuple[object, Ids] = None, {}

    def on(self, host: str) -> "HostDeliveries":
        """Return the deliveries to one host."""
        return HostDeliveries(self, host)

    def image_ids(self, host: str, reference: str) -> Collection[str]:
        """Return the ids that the image `reference` may have on `host`; empty if unknown."""
        kept = self._read().get(host, {}).get(reference)
        return (kept,) if kept else self._stored(reference)

    @property
    def waiting(self) -> int:
        """The number of records that are not written yet."""
        return len(self._new)

    def record(self, host: str, reference: str, image_id: str) -> None:
        """Record the id that the engine of `host` assigned to the image `reference`."""
        with self._lock:
            self._new[host, reference] = image_id
        with self._writing:
            with self._lock:
                new, self._new = self._new, {}
            try:
                self._add(new)
            except BaseException:
                with self._lock:
                    self._new = {**new, **self._new}  # whoever waits for its record tries to write it, and fails too
                raise

    def _add(self, new: Mapping[tuple[str, str], str]) -> None:
        before = self._read() if new else {}
        if after := _with(before, new):
            private_directory(self._path.parent)
            self._write_file(self._path, json.dumps({**before, **after}, indent=1).encode())

    def _read(self) -> Ids:
        """Return the recorded ids; empty if the file cannot be read, as on a controller's first run."""
        try:
            facts = self._path.stat()
            version = facts.st_ino, facts.st_mtime_ns, facts.st_size  # each write replaces the file
            known = self._known
            if known[0] == version:
                return known[1]
            hosts: Any = json.loads(self._read_file(self._path))
            ids = {host: {name: str(one) for name, one in images.items()} for host, images in hosts.items()}
        except (OSError, ValueError, AttributeError):
            return {}
        self._known = version, ids
        return ids


def _with(before: Ids, new: Mapping[tuple[str, str], str]) -> dict[str, dict[str, str]]:
    """Return the images of the hosts for which `new` has other ids than `before`."""
    after: dict[str, dict[str, str]] = {}
    for (host, reference), image_id in new.items():
        kept = after.get(host) or before.get(host, {})
        if kept.get(reference) != image_id:
            others = [(name, kept_id) for name, kept_id in kept.items() if name != reference]
            after[host] = dict([*others, (reference, image_id)][-_KEPT:])
    return after


@dataclass(frozen=True)
class HostDeliveries:
    """The deliveries to `host`. See Deliveries."""

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
    """Return this controller's keyed hash; the key is read or created with the first secret."""
    return KeyedHash(cache(lambda: controller_key(state_home())))


def controller_key(directory: Path) -> bytes:
    """Return the key in `directory`, creating it atomically if it is missing. Raises Usage if it cannot be read."""
    path = directory / _KEY_FILE
    try:
        if not path.exists():
            _create(path)
        key = _read(path)
    except OSError as error:
        raise Usage(
            f"{path}: {error.strerror}", "the key for the hashes of secrets lies there: make it accessible"
        ) from None
    if len(key) != _SIZE:
        raise Usage(f"{path} is no key of {_SIZE} bytes", "remove it: the next command makes another one")
    return key


def _create(path: Path) -> None:
    private_directory(path.parent)
    beside = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_SIZE))
            file.flush()
            os.fsync(file.fileno())
        path.hardlink_to(beside)
    except FileExistsError:  # another run created it meanwhile
        pass
    finally:
        beside.unlink(missing_ok=True)


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        if os.fstat(descriptor).st_mode & 0o077:  # it was copied or restored with other permissions
            os.fchmod(descriptor, 0o600)
        return file.read(_SIZE + 1)

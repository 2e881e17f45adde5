"""Which hosts a cluster was brought to, so that a host that left the inventory is still cleaned up. Used for nothing else.

What runs on a host is only ever asked of the host itself. Passwords are not kept.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfprov.config.settings.connection import Connection
from tfprov.errors import Position
from tfprov.files import private_directory, replace

_NAME = "hosts.json"
_PLAIN = ("address", "port", "user", "local", "become", "timeout", "proxy_jump", "proxy_command", "accept_new")
_PATHS = ("key_files", "known_hosts")


@dataclass(frozen=True)
class Record:
    """The file in `home`, a cluster's directory on the controller."""

    home: Path

    def read(self) -> dict[str, Connection]:
        """Return the way to every recorded host; nothing when there is no record, or when it cannot be read."""
        try:
            data: Mapping[str, Any] = json.loads((self.home / _NAME).read_text())
            return {host: _decoded(host, facts) for host, facts in data.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def add(self, ways: Mapping[str, Connection]) -> None:
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

    def _write(self, ways: Mapping[str, Connection]) -> None:
        private_directory(self.home)
        data = {host: _encoded(way) for host, way in ways.items()}
        replace(self.home / _NAME, json.dumps(data, indent=1).encode(), mode=0o600)


def _encoded(way: Connection) -> dict[str, Any]:
    facts = {name: getattr(way, name) for name in _PLAIN}
    paths = {name: [str(path) for path in getattr(way, name)] for name in _PATHS}
    return {**facts, **paths, "ssh_config": str(way.ssh_config) if way.ssh_config else None}


def _decoded(host: str, facts: Mapping[str, Any]) -> Connection:
    values: dict[str, Any] = {name: facts[name] for name in _PLAIN}
    values |= {name: tuple(map(Path, facts[name])) for name in _PATHS}
    values["ssh_config"] = Path(facts["ssh_config"]) if facts["ssh_config"] else None
    return Connection(host=host, at=Position("(recorded)"), password=None, **values)

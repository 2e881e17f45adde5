"""Ansible's magic variables for templates: `hostvars`, `groups`, `group_names`, `inventory_hostname` and others."""

import os.path
import re
from collections.abc import Iterator
from collections.abc import Mapping as AbstractMapping
from typing import Any

from tfprov.model.inventory import Inventory
from tfprov.model.node import Mapping
from tfprov.templating.host_values import RenderState, Variables

_ADDRESS_LIKE = re.compile(r"[0-9a-fA-F]*[.:][0-9a-fA-F.:]*")


class HostVars(AbstractMapping[str, Variables]):
    """`hostvars`: the variables of every host, each built when a template first uses them.

    One object serves all hosts of an inventory: it also holds what their templates share.
    """

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self._groups = Groups(inventory)
        self._state = RenderState()
        self._by_host: dict[str, Variables] = {}

    def bind(self, host: str, nodes: Mapping) -> Variables:
        """Return the variables of `host` for templates: `nodes`, which are those of the inventory, and the magic ones."""
        source = os.path.abspath(self.inventory.hosts[host].at.file)  # noqa: PTH100  Ansible's path has no `..` either
        magic = {
            "inventory_hostname": host,
            "inventory_hostname_short": _short_name(host),
            "inventory_file": source,
            "inventory_dir": os.path.dirname(source),  # noqa: PTH120
            "group_names": sorted(name for name in self.inventory.hosts[host].groups if name != "all"),
            "groups": self._groups,
            "hostvars": self,
        }
        return Variables(nodes, magic, self._state, self.inventory.lookup_dirs)

    def __getitem__(self, host: Any) -> Variables:
        if host not in self._by_host:
            if host not in self.inventory.hosts:
                raise KeyError(host)
            self._by_host[host] = self.bind(host, self.inventory.variables(host))
        return self._by_host[host]

    def __contains__(self, host: object) -> bool:
        return host in self.inventory.hosts

    def __iter__(self) -> Iterator[str]:
        return iter(self.inventory.hosts)

    def __len__(self) -> int:
        return len(self.inventory.hosts)


class Groups(AbstractMapping[str, list[str]]):
    """`groups`: the hosts of each group. All hosts share the lists, each built when a template first uses it."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._by_name: dict[str, list[str]] = {}

    def __getitem__(self, name: str) -> list[str]:
        if name not in self._by_name:
            if name not in self._inventory.groups:
                raise KeyError(name)
            self._by_name[name] = list(self._inventory.members(name))
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._inventory.groups)

    def __len__(self) -> int:
        return len(self._inventory.groups)


def _short_name(host: str) -> str:
    """Return the name up to the first dot; an address whole."""
    if not _ADDRESS_LIKE.fullmatch(host):
        return host.split(".", maxsplit=1)[0]
    from ipaddress import ip_address  # noqa: PLC0415  slow to import, and few hosts are named like an address

    try:
        ip_address(host)
    except ValueError:
        return host.split(".", maxsplit=1)[0]
    return host

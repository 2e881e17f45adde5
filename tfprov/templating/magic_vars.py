"""What the templates of a host can use: its variables, the names Ansible gives every host, and all other hosts."""

import os.path
import re
from collections.abc import Iterator
from collections.abc import Mapping as AbstractMapping
from typing import Any

from tfprov.model.inventory import Inventory
from tfprov.model.node import Mapping
from tfprov.templating.host_values import Variables

_LIKE_AN_ADDRESS = re.compile(r"[0-9a-fA-F]*[.:][0-9a-fA-F.:]*")


def host_variables(inventory: Inventory, host: str, nodes: Mapping) -> Variables:
    """Return what templates can use for `host`, whose variables are `nodes`."""
    all_hosts = inventory.seen.setdefault("hostvars", _Hosts(inventory))
    source = os.path.abspath(inventory.hosts[host].at.file)  # noqa: PTH100  a path of Ansible's has no `..` left in it
    special = {
        "inventory_hostname": host,
        "inventory_hostname_short": _short(host),
        "inventory_file": source,
        "inventory_dir": os.path.dirname(source),  # noqa: PTH120
        "group_names": sorted(name for name in inventory.hosts[host].groups if name != "all"),
        "groups": all_hosts.groups,
        "hostvars": all_hosts,
    }
    return Variables(nodes, special, all_hosts.trail, inventory.seen.get("readable", ()))


def _short(host: str) -> str:
    """Return the name up to the first dot; all of an address."""
    if not _LIKE_AN_ADDRESS.fullmatch(host):
        return host.split(".", maxsplit=1)[0]
    from ipaddress import ip_address  # noqa: PLC0415  it takes a while to import, and few hosts are called so

    try:
        ip_address(host)
    except ValueError:
        return host.split(".", maxsplit=1)[0]
    return host


class _Groups(AbstractMapping[str, list[str]]):
    """`groups`: the hosts of each group. All hosts share the lists, which are made when a template asks for them."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._made: dict[str, list[str]] = {}

    def __getitem__(self, name: str) -> list[str]:
        if name not in self._made:
            if name not in self._inventory.groups:
                raise KeyError(name)
            self._made[name] = list(self._inventory.members(name))
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._inventory.groups)

    def __len__(self) -> int:
        return len(self._inventory.groups)


class _Hosts(AbstractMapping[str, Variables]):
    """`hostvars`: the variables of every host, put together when a template asks for them."""

    def __init__(self, inventory: Inventory) -> None:
        self.groups = _Groups(inventory)
        self.trail: list[tuple[int, int, str]] = []
        self._inventory = inventory
        self._made: dict[str, Variables] = {}

    def __getitem__(self, host: Any) -> Variables:
        if host not in self._made:
            if host not in self._inventory.hosts:
                raise KeyError(host)
            self._made[host] = host_variables(self._inventory, host, self._inventory.variables(host))
        return self._made[host]

    def __contains__(self, host: object) -> bool:
        return host in self._inventory.hosts

    def __iter__(self) -> Iterator[str]:
        return iter(self._inventory.hosts)

    def __len__(self) -> int:
        return len(self._inventory.hosts)

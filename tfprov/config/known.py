"""What the templates of a host can use: its variables, and the names Ansible gives every host."""

from pathlib import Path

from tfprov.config.templates import Variables
from tfprov.model.inventory import Inventory
from tfprov.model.node import Mapping


def variables(inventory: Inventory, host: str, nodes: Mapping) -> Variables:
    """Return what templates can use for `host`, whose variables are `nodes`."""
    groups = [name for name in inventory.hosts[host].groups if name != "all"]
    return Variables(
        nodes,
        {
            "inventory_hostname": host,
            "inventory_hostname_short": host.split(".", maxsplit=1)[0],
            "inventory_file": inventory.path,
            "inventory_dir": str(Path(inventory.path).absolute().parent),
            "group_names": sorted(groups),
            "groups": {name: list(inventory.members(name)) for name in inventory.groups},
        },
    )

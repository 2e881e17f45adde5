"""Ansible's own answers, asked in one process of its own: `python oracle.py`, JSON in and out.

    {"ranges": [PATTERN, …], "inventories": [FILE, …], "patterns": [FILE, [PATTERN, …]], "booleans": [VALUE, …]}

A range or boolean that Ansible refuses and a pattern that matches nothing are null. Apart from the tests, because
importing Ansible changes the process: its locale, its signals, its warnings.
"""

import json
import sys
from typing import Any


def main() -> None:
    """Answer the question on the standard input."""
    from ansible.parsing.dataloader import DataLoader  # noqa: PLC0415

    asked = json.load(sys.stdin)
    loader = DataLoader()
    file, patterns = asked["patterns"]
    answers = {
        "ranges": [_range(text) for text in asked["ranges"]],
        "inventories": [_inventory(loader, path) for path in asked["inventories"]],
        "patterns": [_pattern(loader, file, pattern) for pattern in patterns],
        "booleans": [_boolean(value) for value in asked["booleans"]],
        "connection variables": _connection_variables(),
    }
    json.dump(answers, sys.stdout)


def _range(text: str) -> list[str] | None:
    from ansible.plugins.inventory import detect_range, expand_hostname_range  # noqa: PLC0415

    try:
        return list(expand_hostname_range(text)) if detect_range(text) else [text]
    except Exception:
        return None


def _inventory(loader: Any, path: str) -> dict[str, Any]:
    from ansible.inventory.helpers import get_group_vars  # noqa: PLC0415
    from ansible.inventory.manager import InventoryManager  # noqa: PLC0415
    from ansible.utils.vars import combine_vars  # noqa: PLC0415

    inventory = InventoryManager(loader=loader, sources=[path])
    hosts = {
        host.name: combine_vars(
            get_group_vars(host.get_groups()), {k: v for k, v in host.vars.items() if "inventory_" not in k}
        )
        for host in inventory.get_hosts()
    }
    groups = {name: sorted(names) for name, names in inventory.get_groups_dict().items() if name != "ungrouped"}
    ways = {name: _way({"inventory_hostname": name, **values}) for name, values in hosts.items()}
    return {"hosts": hosts, "groups": groups, "ways": ways}


def _way(variables: dict[str, Any]) -> dict[str, Any]:
    """Return what Ansible's ssh connection makes of a host's variables."""
    from ansible.playbook.play_context import PlayContext  # noqa: PLC0415
    from ansible.plugins.loader import connection_loader  # noqa: PLC0415

    ssh = connection_loader.get("ssh", PlayContext(), None)
    ssh.set_options(var_options=variables)
    names = ("host", "port", "remote_user", "password", "private_key_file", "timeout")
    return {name: ssh.get_option(name) for name in names}


def _connection_variables() -> list[str]:
    """Return the names of all variables that an ssh connection and sudo look at."""
    from ansible import constants  # noqa: PLC0415
    from ansible.plugins.loader import become_loader, connection_loader  # noqa: PLC0415

    connection_loader.get("ssh", class_only=True)
    become_loader.get("sudo", class_only=True)
    found = set(constants.MAGIC_VARIABLE_MAPPING)
    aliases = {name for names in constants.MAGIC_VARIABLE_MAPPING.values() for name in names}
    plugins = (("connection", "ssh"), ("connection", "local"), ("become", "sudo"))
    named = {name for kind, name in plugins for name in constants.config.get_plugin_vars(kind, name)}
    return sorted(name for name in found | aliases | named if name.startswith("ansible_"))


def _boolean(value: Any) -> bool | None:
    from ansible.module_utils.parsing.convert_bool import boolean  # noqa: PLC0415

    try:
        return bool(boolean(value))
    except TypeError:
        return None


def _pattern(loader: Any, path: str, pattern: str) -> list[str] | None:
    from ansible.inventory.manager import InventoryManager  # noqa: PLC0415

    try:
        found = InventoryManager(loader=loader, sources=[path]).get_hosts(pattern)
    except Exception:
        return None
    return [host.name for host in found] or None


if __name__ == "__main__":
    main()

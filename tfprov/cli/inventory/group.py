"""`tfprov inventory`: commands that show, explain and edit the inventory."""

import click

from tfprov.cli.main import LazyGroup

COMMANDS = {
    "list": ("inventory.show", "Print all hosts and groups, as `ansible-inventory --list` does."),
    "host": ("inventory.show", "Print the variables of one host, as `ansible-inventory --host` does."),
    "graph": ("inventory.show", "Print the tree of groups, as `ansible-inventory --graph` does."),
    "explain": ("inventory.explain", "Show where every effective value of a host comes from."),
    "schema": ("inventory.show", "Print the JSON Schema of inventories or playbooks."),
    "add-host": ("inventory.edit", "Add a host to a group."),
    "remove-host": ("inventory.edit", "Remove a host from the inventory."),
    "move-host": ("inventory.edit", "Give a host another name."),
    "set": ("inventory.edit", "Set one value."),
    "unset": ("inventory.edit", "Remove one value."),
}
"""Every command: the module it is in, and its line of help."""


@click.group("inventory", cls=LazyGroup, table=COMMANDS, noun="command")
def inventory_command() -> None:
    """Only `add-host`, `remove-host`, `move-host`, `set` and `unset` write files."""

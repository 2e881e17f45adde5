"""What is known of one role on one host, once all of the inventory is read."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tfprov.errors import Position
from tfprov.inventory.vars_files import base_directory
from tfprov.model.inventory import NAMESPACE, Inventory, Layer
from tfprov.model.node import NOWHERE, Mapping, Node, Scalar, find
from tfprov.model.settings import Settings
from tfprov.settings.connection import Connection
from tfprov.templating.host_values import Variables
from tfprov.wiring import FEEDERS

_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class RoleSettings:
    """The settings of one role on one host; `node` knows where each was written, `variables` render the late ones.

    `address` is where other tasks reach it, `way` how tfprov does, and `group` where the group of the role stands.
    """

    role: str
    host: str
    values: Settings
    node: Mapping
    variables: Variables
    address: str
    way: Connection
    group: Position = NOWHERE

    @property
    def local(self) -> bool:
        """Whether the host is this machine."""
        return self.way.local

    @property
    def where(self) -> Position:
        """Where the host's address comes from: `ansible_host`, or its name."""
        return self.way.at

    @property
    def serves_at(self) -> str | None:
        """The address of its host on which its ports are, where that is another one than the cluster's.

        A tensorboard asks nobody for a password either, and is for people, who reach it through the connection to its host.
        """
        return self.values.bind or (_LOOPBACK if self.role == "tensorboard" else None)

    @property
    def reads_data(self) -> bool:
        """Whether its tasks read `data`; those of all roles know where it is."""
        return self.values.data is not None and self.role not in ("ps", "tensorboard")

    def at(self, *path: str | int) -> Position:
        """Where the value at `path` is written, or the nearest thing around it."""
        return find(self.node, path)[1]


DEFAULT_COMMANDS = ("tensorboard", *FEEDERS)
"""Roles for which tfprov brings a command."""

_OF_A_PROGRAM = ("command", "flags")
_OF_OTHERS = {
    "ps": ("gpus",),
    # It runs no code of the training's, so an edit is no reason to restart it; and people reach it through SSH.
    "tensorboard": ("gpus", "bind", "code", "env", *_OF_A_PROGRAM),
    "dispatcher": ("gpus", *_OF_A_PROGRAM),
    "data_worker": ("gpus", *_OF_A_PROGRAM),
}
"""What a role takes only where its own group says it; of `flags` and `env`, each of them by itself.

TensorFlow would take all the memory of a GPU in a ps that needs none of it.
"""
_BY_HOST = ("gpus",)
"""What it takes from its host as well; everything else there is for the program of the host's other roles."""

SettingPath = tuple[str, ...]
"""The names under which a setting stands below `tfprov`: ("gpus",), or ("flags", "train_steps")."""


def meant_for(inventory: Inventory, host: str, role: str, written: Mapping) -> Mapping:
    """Return the settings of `role` on `host` without those that are meant for others."""
    others = set(meant_for_others(inventory, host, role, written))
    return _without(written, others) if others else written


def meant_for_others(inventory: Inventory, host: str, role: str, written: Mapping) -> Iterator[SettingPath]:
    """Yield those of the settings in `written` that `role` on `host` does not take."""
    asked = [name for name in _OF_OTHERS.get(role, ()) if name in written.entries]
    if not asked:
        return
    layers = list(inventory.layers(host, role=role))
    for name in asked:
        said = list(_said(layers, role, name))
        if not said and not (name == "code" and any(_said(layers, role, "command"))):
            yield (name,)
        whole = written.entries[name]
        if said and isinstance(whole, Mapping):
            yield from ((name, key) for key in whole.entries if not any(_has(one, key) for one in said))


def _said(layers: list[Layer], role: str, name: str) -> Iterator[Node]:
    """Yield what the places that `role` listens to say of the setting called `name`."""
    places = [f"group `{role}`", f"group_vars of `{role}`", *(("host", "host_vars") if name in _BY_HOST else ())]
    for layer in layers:
        own = layer.vars.get(NAMESPACE)
        if layer.origin in places and isinstance(own, Mapping) and name in own.entries:
            yield own.entries[name]


def _has(node: Node, key: str) -> bool:
    """Whether `node` says something of `key`: a template may give any."""
    return not isinstance(node, Mapping) or key in node.entries


def _without(node: Mapping, others: set[SettingPath]) -> Mapping:
    kept: dict[str, Node] = {}
    for name, value in node.entries.items():
        below = {path[1:] for path in others if path[0] == name}
        if () not in below:
            kept[name] = _without(value, below) if below and isinstance(value, Mapping) else value
    return Mapping(kept, node.at, node.keys)


def beside_file(role: RoleSettings, *path: str) -> Path:
    """Return a path setting as a path: a relative one counts from the file it is written in, `~` is the home directory.

    One in a file of `group_vars/` or `host_vars/` counts from where that directory lies.
    """
    value: object = role.values
    for name in path:
        value = getattr(value, name)
    written = role.at(*path).file
    base = Path() if written.startswith("-e") else base_directory(written)
    return Path(os.path.normpath(base / Path(str(value)).expanduser()))


INTERPRETER = "ansible_python_interpreter"
"""Ansible's variable for the Python of a host; only an absolute path in it says which one that is."""


def python_of(role: RoleSettings) -> str | None:
    """Return the path of the Python that runs tasks as processes; None for the one that runs tfprov.

    It is what `python` says, else what Ansible's variable says.
    """
    if role.values.python is not None:
        return os.path.abspath(beside_file(role, "python"))  # noqa: PTH100  links are kept: a venv is one
    stated = role.variables.meaning(INTERPRETER)
    if not isinstance(stated, Scalar) or "ansible_playbook_python" in str(stated.data):  # which is the one of tfprov
        return None
    found = str(role.variables[INTERPRETER])
    return found if found.startswith("/") else None


def python_at(role: RoleSettings) -> Position:
    """Return where `python_of` is written."""
    stated = role.variables.meaning(INTERPRETER)
    return stated.at if role.values.python is None and isinstance(stated, Scalar) else role.at("python")

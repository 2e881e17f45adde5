"""Settings that general places give and that mean other roles: a command for `all` is the training program's."""

from collections.abc import Iterator

from tfprov.model.inventory import NAMESPACE, Inventory, Layer
from tfprov.model.node import Mapping, Node
from tfprov.wiring import FEEDERS

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

Path = tuple[str, ...]
"""The names under which a setting stands below `tfprov`: ("gpus",), or ("flags", "train_steps")."""


def meant_for(inventory: Inventory, host: str, role: str, written: Mapping) -> Mapping:
    """Return the settings of `role` on `host` without those that are meant for others."""
    others = set(meant_for_others(inventory, host, role, written))
    return _without(written, others) if others else written


def meant_for_others(inventory: Inventory, host: str, role: str, written: Mapping) -> Iterator[Path]:
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


def _without(node: Mapping, others: set[Path]) -> Mapping:
    kept: dict[str, Node] = {}
    for name, value in node.entries.items():
        below = {path[1:] for path in others if path[0] == name}
        if () not in below:
            kept[name] = _without(value, below) if below and isinstance(value, Mapping) else value
    return Mapping(kept, node.at, node.keys)

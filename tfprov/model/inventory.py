"""Hosts and groups, as Ansible defines them."""

from dataclasses import dataclass, field

from tfprov.errors import Position
from tfprov.model.node import Mapping, merge

NAMESPACE = "tfprov"
"""The one variable that is ours: everything under it is merged key by key and strictly checked."""

ROLES = ("ps", "chief", "worker", "evaluator", "tensorboard")
"""The groups tfprov gives a meaning, in the order in which their tasks take ports and start."""


@dataclass(frozen=True)
class Group:
    """An inventory group. `depth` is the longest way from `all`; deeper groups win over shallower ones."""

    name: str
    at: Position
    hosts: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    vars: Mapping = field(default_factory=Mapping)
    depth: int = 0
    priority: int = 1


@dataclass(frozen=True)
class Host:
    """An inventory host. `groups` are all groups it belongs to, in the order in which their variables apply."""

    name: str
    at: Position
    groups: tuple[str, ...] = ()
    vars: Mapping = field(default_factory=Mapping)


@dataclass(frozen=True)
class Inventory:
    """Everything one inventory says; `extra` are the variables of `-e`, which win over all others."""

    path: str
    groups: dict[str, Group]
    hosts: dict[str, Host]
    extra: Mapping = field(default_factory=Mapping)

    def members(self, group: str) -> tuple[str, ...]:
        """Return the hosts of `group` and of its descendants, in the order of the file; empty for an unknown group."""
        found: dict[str, None] = {}
        self._collect(group, found, set())
        return tuple(found)

    def _collect(self, name: str, found: dict[str, None], seen: set[str]) -> None:
        group = self.groups.get(name)
        if group is None or name in seen:
            return
        seen.add(name)
        found.update(dict.fromkeys(group.hosts))
        for child in group.children:
            self._collect(child, found, seen)

    def variables(self, host: str, *, role: str | None = None) -> Mapping:
        """Return the variables of `host`: all, then parents, then children, then the host, then `-e`.

        Ansible replaces a variable that is set twice; only the `tfprov` key is merged key by key. With `role`, what the
        groups of the *other* roles say under `tfprov` is left out: a machine that runs both a ps and a worker has the
        settings of each from its own group.
        """
        merged = Mapping()
        for name in self.hosts[host].groups:
            merged = overlay(merged, self.groups[name].vars, keep=role is None or name == role or name not in ROLES)
        return overlay(overlay(merged, self.hosts[host].vars), self.extra)


def overlay(lower: Mapping, higher: Mapping, *, keep: bool = True) -> Mapping:
    """Return variables of two sources as one: `higher` replaces, and is merged under `tfprov` (left out unless `keep`)."""
    entries = {key: value for key, value in higher.entries.items() if keep or key != NAMESPACE}
    below, above = lower.get(NAMESPACE), entries.get(NAMESPACE)
    if isinstance(below, Mapping) and isinstance(above, Mapping):
        entries[NAMESPACE] = merge(below, above)
    return Mapping({**lower.entries, **entries}, lower.at, {**lower.keys, **higher.keys})

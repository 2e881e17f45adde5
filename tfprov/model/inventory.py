"""Hosts and groups, as Ansible defines them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tfprov.errors import Position
from tfprov.model.node import Mapping, merge

NAMESPACE = "tfprov"
"""The one variable that is ours: everything under it is merged key by key and strictly checked."""

ROLES = ("ps", "chief", "worker", "evaluator", "tensorboard", "dispatcher", "data_worker")
"""The groups tfprov gives a meaning, in the order in which their tasks take ports."""

EXTRA_VARS_ORIGIN = "-e"
"""The origin of the variables that the command line gives."""


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
    """An inventory host; `at` is where it is named first.

    `groups` are all groups it belongs to, in the order in which their variables apply.
    """

    name: str
    at: Position
    groups: tuple[str, ...] = ()
    vars: Mapping = field(default_factory=Mapping)


@dataclass(frozen=True)
class Layer:
    """Variables that one place gives a host. `origin` is the place in words, such as "group `worker`" or "host_vars"."""

    origin: str
    vars: Mapping


@dataclass(frozen=True)
class VarsFiles:
    """What lies beside one source: the files of `group_vars/` and `host_vars/`, in the order in which they apply."""

    groups: dict[str, tuple[Mapping, ...]] = field(default_factory=dict)
    hosts: dict[str, tuple[Mapping, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Inventory:
    """The merged sources of an inventory; `path` is the first of them.

    `extra` are the variables of `-e`, which win over all others, and `vars_files` the group_vars and host_vars of each
    source. Templates may look up files below `lookup_dirs`.
    """

    path: str
    groups: dict[str, Group]
    hosts: dict[str, Host]
    extra: Mapping = field(default_factory=Mapping)
    vars_files: tuple[VarsFiles, ...] = ()
    lookup_dirs: tuple[str, ...] = ()
    _members: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _shared: dict[tuple[object, ...], Mapping] = field(default_factory=dict, init=False, repr=False, compare=False)

    def members(self, group: str) -> tuple[str, ...]:
        """Return the hosts of `group` and of its descendants, in Ansible's order; empty for an unknown group.

        Its own hosts come first, then those of its children, then those of their children.
        """
        if group not in self._members:
            found: dict[str, None] = {}
            for name in self._below(group):
                found.update(dict.fromkeys(self.groups[name].hosts))
            self._members[group] = tuple(found)
        return self._members[group]

    def _below(self, group: str) -> Iterable[str]:
        ahead = {group: None} if group in self.groups else {}
        seen = dict(ahead)
        while ahead:
            ahead = {child: None for name in ahead for child in self.groups[name].children if child not in seen}
            seen.update(ahead)
        return seen

    def variables(self, host: str, *, role: str | None = None) -> Mapping:
        """Return the variables of `host`: the `layers` in one. Hosts between which nothing differs share one mapping."""
        own = tuple(self._own(host))
        key = (self.hosts[host].groups, role, bool(own))
        if key not in self._shared:
            # What `-e` says comes last, and so belongs to what is shared only where the host has nothing of its own.
            last = () if own else self._last()
            self._shared[key] = merge_layers([*self._of_groups(self.hosts[host].groups, role), *last])
        return merge_layers([*own, *self._last()], self._shared[key]) if own else self._shared[key]

    def layers(self, host: str, *, role: str | None = None) -> Iterator[Layer]:
        """Yield what each place gives `host`, lowest precedence first, as Ansible orders them.

        That is: `all`, the other groups from parents to children, the files of group_vars (`all`, then the other
        groups), the host, the files of host_vars, and `-e`. With `role`, what the groups of the *other* roles say under
        `tfprov` is left out: a machine that runs both a ps and a worker has the settings of each from its own group.
        """
        yield from self._of_groups(self.hosts[host].groups, role)
        yield from self._own(host)
        yield from self._last()

    def _of_groups(self, groups: tuple[str, ...], role: str | None) -> Iterator[Layer]:
        def seen(group: str, values: Mapping) -> Mapping:
            return values if role is None or group == role or group not in ROLES else _without_settings(values)

        for name in groups:
            if self.groups[name].vars.entries:
                yield Layer(f"group `{name}`", seen(name, self.groups[name].vars))
        for stage in (("all",), [name for name in groups if name != "all"]):
            for beside in self.vars_files:
                for name in stage:
                    for values in beside.groups.get(name, ()):
                        yield Layer(f"group_vars of `{name}`", seen(name, values))

    def _own(self, host: str) -> Iterator[Layer]:
        if self.hosts[host].vars.entries:
            yield Layer("host", self.hosts[host].vars)
        for beside in self.vars_files:
            for values in beside.hosts.get(host, ()):
                yield Layer("host_vars", values)

    def _last(self) -> Iterator[Layer]:
        if self.extra.entries:
            yield Layer(EXTRA_VARS_ORIGIN, self.extra)


def merge_layers(layers: Iterable[Layer], lowest: Mapping | None = None) -> Mapping:
    """Return the variables of `layers` as one, above `lowest`."""
    merged = lowest or Mapping()
    for layer in layers:
        merged = overlay(merged, layer.vars)
    return merged


def overlay(lower: Mapping, higher: Mapping) -> Mapping:
    """Return variables of two sources as one: `higher` replaces, as in Ansible, but is merged key by key under `tfprov`."""
    entries = higher.entries
    below, above = lower.get(NAMESPACE), entries.get(NAMESPACE)
    if isinstance(below, Mapping) and isinstance(above, Mapping):
        entries = entries | {NAMESPACE: merge(below, above)}
    return Mapping({**lower.entries, **entries}, lower.at, {**lower.keys, **higher.keys})


def _without_settings(values: Mapping) -> Mapping:
    if NAMESPACE not in values.entries:
        return values
    return Mapping({key: value for key, value in values.entries.items() if key != NAMESPACE}, values.at, values.keys)

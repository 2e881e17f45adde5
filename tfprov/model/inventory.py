"""Hosts, groups and variables, as Ansible defines them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tfprov.errors import Position
from tfprov.model.yaml_node import Mapping, merge

NAMESPACE = "tfprov"
"""tfprov's own variable: settings under it are merged key by key and strictly checked."""

ROLES = ("ps", "chief", "worker", "evaluator", "tensorboard", "serving", "notebook", "dispatcher", "data_worker")
"""The groups with a meaning to tfprov, in the order in which their tasks take ports."""

EXTRA_VARS_ORIGIN = "-e"
"""The origin of variables from the command line."""


@dataclass(frozen=True)
class Group:
    """An inventory group. `depth` is the longest path from `all`; deeper groups win over shallower ones."""

    name: str
    at: Position
    hosts: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    vars: Mapping = field(default_factory=Mapping)
    depth: int = 0
    priority: int = 1


@dataclass(frozen=True)
class Host:
    """An inventory host. `at` is its first mention, and `groups` are all its groups, in the order of their variables."""

    name: str
    at: Position
    groups: tuple[str, ...] = ()
    vars: Mapping = field(default_factory=Mapping)


@dataclass(frozen=True)
class Layer:
    """Variables of a host from one origin, such as "group `worker`" or "host_vars"."""

    origin: str
    vars: Mapping


@dataclass(frozen=True)
class VarsFiles:
    """The files of `group_vars/` and `host_vars/` beside one source, in the order in which they apply."""

    groups: dict[str, tuple[Mapping, ...]]
    hosts: dict[str, tuple[Mapping, ...]]


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
            hosts: dict[str, None] = {}
            for name in self._descendants(group):
                hosts.update(dict.fromkeys(self.groups[name].hosts))
            self._members[group] = tuple(hosts)
        return self._members[group]

    def _descendants(self, group: str) -> Iterable[str]:
        level = {group: None} if group in self.groups else {}
        descendants = dict(level)
        while level:
            level = {child: None for name in level for child in self.groups[name].children if child not in descendants}
            descendants.update(level)
        return descendants

    def variables(self, host: str, *, role: str | None = None) -> Mapping:
        """Return the `layers` of `host`, merged. Hosts of the same groups share it if they have no own variables."""
        own = tuple(self._host_layers(host))
        key = (self.hosts[host].groups, role, bool(own))
        if key not in self._shared:
            # `-e` comes last, so it belongs to the shared mapping only where the host has no variables of its own.
            last = () if own else self._extra_layer()
            self._shared[key] = merge_layers([*self._group_layers(self.hosts[host].groups, role), *last])
        return merge_layers([*own, *self._extra_layer()], self._shared[key]) if own else self._shared[key]

    def layers(self, host: str, *, role: str | None = None) -> Iterator[Layer]:
        """Yield the variables of `host` by origin, lowest precedence first, in Ansible's order.

        That is: `all`, the other groups from parents to children, the files of group_vars (`all`, then the other
        groups), the host, the files of host_vars, and `-e`. With `role`, the settings of the groups of *other* roles are
        left out: on a machine that runs both a ps and a worker, each has the settings of its own group.
        """
        yield from self._group_layers(self.hosts[host].groups, role)
        yield from self._host_layers(host)
        yield from self._extra_layer()

    def _group_layers(self, groups: tuple[str, ...], role: str | None) -> Iterator[Layer]:
        def for_role(group: str, values: Mapping) -> Mapping:
            return values if role is None or group == role or group not in ROLES else _without_settings(values)

        for name in groups:
            if self.groups[name].vars.entries:
                yield Layer(f"group `{name}`", for_role(name, self.groups[name].vars))
        for stage in (("all",), [name for name in groups if name != "all"]):
            for files in self.vars_files:
                for name in stage:
                    for values in files.groups.get(name, ()):
                        yield Layer(f"group_vars of `{name}`", for_role(name, values))

    def _host_layers(self, host: str) -> Iterator[Layer]:
        if self.hosts[host].vars.entries:
            yield Layer("host", self.hosts[host].vars)
        for files in self.vars_files:
            for values in files.hosts.get(host, ()):
                yield Layer("host_vars", values)

    def _extra_layer(self) -> Iterator[Layer]:
        if self.extra.entries:
            yield Layer(EXTRA_VARS_ORIGIN, self.extra)


def merge_layers(layers: Iterable[Layer], lowest: Mapping | None = None) -> Mapping:
    """Return the variables of `layers` merged, on top of `lowest`."""
    merged = lowest or Mapping()
    for layer in layers:
        merged = overlay(merged, layer.vars)
    return merged


def overlay(lower: Mapping, higher: Mapping) -> Mapping:
    """Return `lower` overlaid with `higher`: variables are replaced whole, as in Ansible, but `tfprov` key by key."""
    entries = higher.entries
    below, above = lower.get(NAMESPACE), entries.get(NAMESPACE)
    if isinstance(below, Mapping) and isinstance(above, Mapping):
        entries = entries | {NAMESPACE: merge(below, above)}
    return Mapping({**lower.entries, **entries}, lower.at, {**lower.keys, **higher.keys})


def _without_settings(values: Mapping) -> Mapping:
    if NAMESPACE not in values.entries:
        return values
    return Mapping({key: value for key, value in values.entries.items() if key != NAMESPACE}, values.at, values.keys)

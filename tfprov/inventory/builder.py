"""Builds an Inventory from the hosts and groups of its sources, which are added one after the other."""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass, field, replace

from tfprov.errors import Position, Problem
from tfprov.inventory.host_names import NameKind, RangeError, check_name, expand, split_port
from tfprov.model.inventory import Group, Host, Inventory, VarsFiles, overlay
from tfprov.model.yaml_node import NOWHERE, Mapping, Scalar
from tfprov.yamltext.yaml11 import lint_values

Children = AbstractMapping[str, Sequence[str]]
MAX_LEVELS = 100


def topological_order(children: Children) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the groups, each after its parents, and every (parent, child) that closes a loop; the order ignores those."""
    done: dict[str, None] = {}
    loops: list[tuple[str, str]] = []
    for start in children:
        if start not in done:
            _walk(children, start, done, loops)
    return list(reversed(done)), loops


def _walk(children: Children, start: str, done: dict[str, None], loops: list[tuple[str, str]]) -> None:
    path: dict[str, Iterator[str]] = {start: iter(children[start])}
    while path:
        name, ahead = next(reversed(path.items()))
        child = next(ahead, None)
        if child is None:
            del path[name]
            done[name] = None
        elif child in path:
            loops.append((name, child))
        elif child not in done:
            path[child] = iter(children[child])


def group_depths(order: Sequence[str], children: Children) -> dict[str, int]:
    """Return the length of the longest path to each group; `order` has each group after its parents."""
    depths = dict.fromkeys(order, 0)
    for name in order:
        for child in children[name]:
            depths[child] = max(depths[child], depths[name] + 1)
    return depths


ALWAYS = ("all", "ungrouped")
"""The groups that every inventory has."""
_PRIORITY = "ansible_group_priority"
_LARGEST = 10**9
_NOTHING = Mapping()


@dataclass
class _Group:
    """A group while sources are read, which may name it several times."""

    at: Position
    hosts: dict[str, None] = field(default_factory=dict)
    children: dict[str, Position] = field(default_factory=dict)
    vars: Mapping = _NOTHING
    priority: int = 1


class InventoryBuilder:
    """Collects hosts and groups. `problems` are errors of the sources, `warnings` are about what is ignored."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.groups = {name: _Group(NOWHERE) for name in ALWAYS}
        self.groups["all"].children["ungrouped"] = NOWHERE
        self._hosts: dict[str, tuple[Position, Mapping]] = {}

    def report(self, at: Position, what: str, fix: str) -> None:
        """Add a problem."""
        self.problems.append(Problem(at, what, fix))

    def warn(self, at: Position, what: str, fix: str) -> None:
        """Add a warning."""
        self.warnings.append(Problem(at, what, fix))

    def attempt(self, read: Callable[[], None]) -> list[Problem]:
        """Call `read`; if it adds problems, undo all that it added and return the problems."""
        groups = {
            name: replace(group, hosts={**group.hosts}, children={**group.children})
            for name, group in self.groups.items()
        }
        hosts, known = {**self._hosts}, len(self.problems)
        read()
        problems = self.problems[known:]
        if problems:
            self.groups, self._hosts = groups, hosts
            del self.problems[known:]
        return sorted(problems)

    def begin_source(self, at: Position) -> None:
        """Begin a source; `at` becomes the position of the groups that no source names."""
        for name in ALWAYS:
            if self.groups[name].at is NOWHERE:
                self.groups[name].at = at

    def has_valid_name(self, kind: NameKind, key: Scalar, name: str | None = None) -> bool:
        """Whether `key` is a valid name of a host or group (`kind`); otherwise add a problem."""
        problem = check_name(kind, key, name)
        if problem:
            self.report(key.at, *problem)
        return problem is None

    def add_group(self, key: Scalar) -> bool:
        """Add the group called `key`, unless it exists; False if its name is invalid."""
        if not self.has_valid_name(NameKind.GROUP, key):
            return False
        self.groups.setdefault(key.text, _Group(key.at))
        return True

    def add_child(self, parent: str, child: str, at: Position) -> None:
        """Make the existing group `child` a child of the existing group `parent`."""
        if child == "all":
            self.report(at, "group `all` cannot be a child of another", "remove it")
        else:
            self.groups[parent].children.setdefault(child, at)

    def set_vars(self, group: str, values: Mapping) -> None:
        """Set variables of a group; they win over those it has."""
        if _PRIORITY in values.entries:
            self._set_priority(self.groups[group], values)
            entries = {name: value for name, value in values.entries.items() if name != _PRIORITY}
            values = Mapping(entries, values.at, values.keys)
        self.groups[group].vars = _merge_over(self.groups[group].vars, values)

    def _set_priority(self, group: _Group, values: Mapping) -> None:
        node = values.entries[_PRIORITY]
        data = node.data if isinstance(node, Scalar) else None
        if isinstance(data, str) and data.isdecimal() and len(data) < 10:
            data = int(data)
        if type(data) is int and abs(data) <= _LARGEST:
            group.priority = data
            self.problems.extend(lint_values(node))
        else:
            self.report(node.at, f"`{_PRIORITY}` must be a whole number", f"for example `{_PRIORITY}: 10`")

    def add_hosts(self, group: str, key: Scalar, variables: Mapping = _NOTHING) -> None:
        """Add the host `key`, or the hosts of a range, to `group`; a port may follow the name."""
        pattern, port = split_port(key.text) if isinstance(key.data, str) else (key.text, None)
        try:
            names = expand(pattern)
        except RangeError as error:
            self.report(key.at, str(error), "for example `node[1:3]`")
            return
        if self.has_valid_name(NameKind.HOST, key, names[-1]):
            first = _with_port(port, key, variables) if port else variables
            for name in names:
                self._add(name, key.at, variables if name in self._hosts else first)
            self.groups[group].hosts.update(dict.fromkeys(names))

    def add_host(self, group: str, key: Scalar, variables: Mapping = _NOTHING) -> None:
        """Add the host `key`, which is no range, to `group`."""
        if self.has_valid_name(NameKind.HOST, key):
            self._add(key.text, key.at, variables)
            self.groups[group].hosts[key.text] = None

    def set_host_vars(self, host: str, values: Mapping) -> None:
        """Set variables of a host, if it exists; they win over those it has."""
        if host in self._hosts:
            self._add(host, NOWHERE, values)

    def _add(self, name: str, at: Position, variables: Mapping) -> None:
        if name in self.groups:  # as Ansible: variables of a host with the name of a group go to the group
            self.set_vars(name, variables)
            variables = _NOTHING
        known = self._hosts.get(name)
        if known is None:
            self._hosts[name] = at, variables
        elif variables.entries:
            self._hosts[name] = known[0], _merge_over(known[1], variables)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts, in the order in which they were first named."""
        return tuple(self._hosts)

    def inventory(self, path: str, beside: tuple[VarsFiles, ...] = (), extra: Mapping = _NOTHING) -> Inventory:
        """Return the inventory; adds problems about the tree of groups."""
        self._settle_ungrouped()
        children = self._tree()
        order, _ = topological_order(children)
        depth = group_depths(order, children)
        if too_deep := next((name for name in order if depth[name] > MAX_LEVELS), None):
            self.report(self.groups[too_deep].at, f"groups nested more than {MAX_LEVELS} levels deep", "flatten them")
            return Inventory(path, {name: Group(name, self.groups[name].at) for name in ALWAYS}, {})
        groups = {
            name: Group(
                name, group.at, tuple(group.hosts), tuple(children[name]), group.vars, depth[name], group.priority
            )
            for name, group in self.groups.items()
        }
        return Inventory(path, groups, _build_hosts(self._hosts, groups), extra, beside)

    def _settle_ungrouped(self) -> None:
        """Move hosts that are in no other group into `ungrouped`, and all others out of it."""
        grouped = {host for name, group in self.groups.items() if name not in ALWAYS for host in group.hosts}
        lone = [host for host in self._hosts if host not in grouped]
        kept = [host for host in self.groups["ungrouped"].hosts if host not in grouped]
        self.groups["ungrouped"].hosts = dict.fromkeys([*kept, *lone])

    def _tree(self) -> dict[str, list[str]]:
        """Return the children of every group, without loops; groups without a parent become children of `all`."""
        children = {name: list(group.children) for name, group in self.groups.items()}
        for parent, child in topological_order(children)[1]:
            what = f"group `{child}` is a child of `{parent}` and also its parent"
            at = self.groups[parent].children[child]
            self.report(at, "a group cannot be its own child" if parent == child else what, "remove one of the two")
            children[parent].remove(child)
        inside = {child for below in children.values() for child in below}
        children["all"] += [name for name in self.groups if name not in inside and name != "all"]
        return children


def _merge_over(lower: Mapping, higher: Mapping) -> Mapping:
    """Merge `higher` over `lower`; an empty one leaves the other as it is, so that the hosts of a range share it."""
    return overlay(lower, higher) if lower.entries and higher.entries else higher if higher.entries else lower


def _with_port(port: int, key: Scalar, variables: Mapping) -> Mapping:
    """Return `variables` merged over the port of a host name: `ansible_port` wins over it."""
    name = "ansible_port"
    return _merge_over(
        Mapping({name: Scalar(port, key.at, str(port))}, key.at, {name: replace(key, data=name, text=name)}),
        variables,
    )


def _build_hosts(hosts: dict[str, tuple[Position, Mapping]], groups: dict[str, Group]) -> dict[str, Host]:
    """Return the hosts with their groups; hosts of the same groups share one tuple."""
    direct: dict[str, list[str]] = {name: [] for name in hosts}
    parents: dict[str, list[str]] = {name: [] for name in groups}
    for name, group in groups.items():
        for host in group.hosts:
            direct[host].append(name)
        for child in group.children:
            parents[child].append(name)
    orders: dict[tuple[str, ...], tuple[str, ...]] = {}
    built = {}
    for name, (at, variables) in hosts.items():
        own_groups = tuple(direct[name])
        if own_groups not in orders:
            orders[own_groups] = _group_order(own_groups, parents, groups)
        built[name] = Host(name, at, orders[own_groups], variables)
    return built


def _group_order(direct: tuple[str, ...], parents: dict[str, list[str]], groups: dict[str, Group]) -> tuple[str, ...]:
    member: set[str] = {"all"}
    ahead = list(direct)
    while ahead:
        name = ahead.pop()
        if name not in member:
            member.add(name)
            ahead.extend(parents[name])
    return tuple(sorted(member, key=lambda name: (groups[name].depth, groups[name].priority, name)))

"""The tree of groups in a YAML inventory, read as Ansible's own YAML plugin reads it."""

import difflib
import re
from dataclasses import dataclass, field

from tfprov.config.hierarchy import MAX_LEVELS, depths, ordered
from tfprov.config.ranges import RangeError, expand
from tfprov.errors import InvalidInput, Position, Problem, shown
from tfprov.model.inventory import NAMESPACE, ROLES, Group, Host, Inventory, overlay
from tfprov.model.node import Items, Mapping, Node, Scalar

_SECTIONS = ("hosts", "children", "vars")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}\Z")
"""A host's name is also the name of a directory, which no file system allows to be longer than 255 bytes."""
_PRIORITY = "ansible_group_priority"


@dataclass
class _Group:
    """A group while the file is being read: it may be stated several times."""

    at: Position
    hosts: dict[str, None] = field(default_factory=dict)
    children: dict[str, Position] = field(default_factory=dict)
    vars: Mapping = field(default_factory=Mapping)


def read_groups(document: Node, path: str) -> Inventory:
    """Return the inventory in `document`; InvalidInput carries every problem of its structure."""
    inventory, problems = read_structure(document, path)
    if problems:
        raise InvalidInput(problems)
    return inventory


def read_structure(document: Node, path: str) -> tuple[Inventory, list[Problem]]:
    """Return what can be read of the inventory in `document`, and the problems of the rest."""
    reader = _Reader()
    reader.top(document)
    return reader.inventory(path), reader.problems


class _Reader:
    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.groups: dict[str, _Group] = {}
        self.hosts: dict[str, Host] = {}

    def report(self, at: Position, what: str, fix: str) -> None:
        self.problems.append(Problem(at, what, fix))

    def top(self, document: Node) -> None:
        self.groups["all"] = _Group(document.at)
        if not isinstance(document, Mapping) or not document.entries:
            self.report(document.at, *_no_groups(document))
            return
        for name, body in document.entries.items():
            if name == NAMESPACE or (name in _SECTIONS and name not in ROLES):
                self.report(document.key_at(name), f"`{name}` stands beside the groups", _PLACES[name])
            else:
                self.group(name, document.keys[name], body)

    def group(self, name: str, key: Scalar, body: Node) -> None:
        if not self.check_name("group", key):
            return
        group = self.groups.setdefault(name, _Group(key.at))
        sections = self.mapping(body, f"group `{name}`", key.at)
        for section, content in sections.entries.items():
            at = sections.key_at(section)
            if section not in _SECTIONS:
                self.report(at, f"unknown key `{shown(section)}` in group `{name}`", _meant(section))
                continue
            getattr(self, f"read_{section}")(group, self.section(section, content, name, at))

    def section(self, section: str, content: Node, group: str, at: Position) -> Mapping:
        if section != "vars" and isinstance(content, Scalar) and isinstance(content.data, str):
            return Mapping({content.text: Scalar(None, content.at)}, content.at, {content.text: content})
        return self.mapping(content, f"`{section}` of group `{group}`", at)

    def mapping(self, node: Node, what: str, at: Position) -> Mapping:
        if isinstance(node, Mapping):
            return node
        if not isinstance(node, Scalar) or node.data is not None:
            dashes = ", without dashes" if isinstance(node, Items) else ""
            self.report(node.at, f"{what} must be a mapping", f"write one `name:` per line{dashes}")
        return Mapping(at=at)

    def read_hosts(self, group: _Group, content: Mapping) -> None:
        for pattern, body in content.entries.items():
            key = content.keys[pattern]
            variables = self.mapping(body, f"host `{shown(pattern)}`", key.at)
            for host in self.expand(pattern, key):
                known = self.hosts.get(host, Host(host, key.at))
                self.hosts[host] = Host(host, known.at, (), overlay(known.vars, variables))
                group.hosts[host] = None

    def expand(self, pattern: str, key: Scalar) -> list[str]:
        try:
            names = expand(pattern)
        except RangeError as error:
            self.report(key.at, str(error), "for example `node[1:3]`")
            return []
        return names if self.check_name("host", key, names[-1]) else []

    def check_name(self, kind: str, key: Scalar, name: str | None = None) -> bool:
        text = shown(key.text) or "''"
        if not isinstance(key.data, str):
            what = f"{kind} name `{text}` is read by YAML as {_type_name(key.data)}, not as text"
            self.report(key.at, what, f'quote it: "{text}"' if key.text else "write a name")
        elif not _NAME.match(name if name is not None else key.text):
            self.report(key.at, f"{kind} name `{text}` is not valid", _valid_name(kind, key.text))
        else:
            return True
        return False

    def read_children(self, group: _Group, content: Mapping) -> None:
        for child, body in content.entries.items():
            key = content.keys[child]
            if child == "all":
                self.report(key.at, "group `all` cannot be a child of another", "remove it")
            elif child in _SECTIONS and child not in ROLES:
                self.report(key.at, f"a group called `{child}`", f"put `{child}:` beside `children:`, not below it")
            else:
                self.group(child, key, body)
                if child in self.groups:
                    group.children.setdefault(child, key.at)

    def read_vars(self, group: _Group, content: Mapping) -> None:
        priority = content.get(_PRIORITY)
        if priority is not None and not (isinstance(priority, Scalar) and type(priority.data) is int):
            self.report(priority.at, f"`{_PRIORITY}` must be a whole number", f"for example `{_PRIORITY}: 10`")
        group.vars = overlay(group.vars, content)

    def inventory(self, path: str) -> Inventory:
        parents: dict[str, list[str]] = {name: [] for name in self.groups}
        children = self.tree()
        for name, below in children.items():
            for child in below:
                parents[child].append(name)
        order, _ = ordered(children)
        depth = depths(order, children)
        if too_deep := next((name for name in order if depth[name] > MAX_LEVELS), None):
            self.report(self.groups[too_deep].at, f"groups nested more than {MAX_LEVELS} levels deep", "flatten them")
            return Inventory(path, {"all": Group("all", self.groups["all"].at)}, {})
        groups = {name: self.finish(name, tuple(children[name]), depth[name]) for name in self.groups}
        direct: dict[str, list[str]] = {name: [] for name in self.hosts}
        for name, group in self.groups.items():
            for host in group.hosts:
                direct[host].append(name)
        hosts = {name: _placed(host, direct[name], parents, groups) for name, host in self.hosts.items()}
        return Inventory(path, groups, hosts)

    def tree(self) -> dict[str, list[str]]:
        """Return the children of every group, without those that close a loop: `all` has those that are in no other."""
        children = {name: list(group.children) for name, group in self.groups.items()}
        for parent, child in ordered(children)[1]:
            what = f"group `{child}` is a child of `{parent}` and also its parent"
            at = self.groups[parent].children[child]
            self.report(at, "a group cannot be its own child" if parent == child else what, "remove one of the two")
            children[parent].remove(child)
        inside = {child for below in children.values() for child in below}
        children["all"] += [name for name in self.groups if name not in inside and name != "all"]
        return children

    def finish(self, name: str, children: tuple[str, ...], depth: int) -> Group:
        group = self.groups[name]
        stated = group.vars.get(_PRIORITY)
        priority = stated.data if isinstance(stated, Scalar) and isinstance(stated.data, int) else 1
        return Group(name, group.at, tuple(group.hosts), children, group.vars, depth, priority)


_PLACES = {
    NAMESPACE: "put it under `all:`, `vars:`",
    "hosts": "put it under the name of a group, such as `worker:`",
    "children": "put it under `all:`",
    "vars": "put it under `all:`",
}


def _no_groups(document: Node) -> tuple[str, str]:
    if isinstance(document, Mapping) or (isinstance(document, Scalar) and document.data is None):
        return "an empty inventory", "start from `tfprov init`"
    first = document.items[0] if isinstance(document, Items) and document.items else None
    if isinstance(first, Mapping) and "hosts" in first.entries:
        return "a playbook where an inventory should be", "play it with `tfprov play FILE -i INVENTORY`"
    return "an inventory must be a mapping of groups", "start from `tfprov init`"


def _meant(section: str) -> str:
    if section in ROLES:
        return "put it under `children:`"
    if section == NAMESPACE or section.startswith("ansible_"):
        return "put it under `vars:`"
    close = difflib.get_close_matches(section, _SECTIONS, n=1)
    return f"did you mean `{close[0]}`?" if close else "a group has `hosts`, `children` and `vars`"


def _valid_name(kind: str, text: str) -> str:
    if kind == "host" and "@" in text:
        return "give the user as `ansible_user`, and the address as `ansible_host`"
    if kind == "host" and re.fullmatch(r"[^:]+:\d+", text):
        return "give the port as `ansible_port`"
    if "{{" in text:
        return "write it out: names are no templates"
    if kind == "host" and len(re.split(r"[\s,;]+", text)) > 1:
        return "write each host on a line of its own, with a `:` behind it"
    return "use at most 253 letters, digits, `-`, `_` and `.`, beginning with a letter or a digit"


def _placed(host: Host, direct: list[str], parents: dict[str, list[str]], groups: dict[str, Group]) -> Host:
    member: set[str] = {"all"}
    ahead = list(direct)
    while ahead:
        name = ahead.pop()
        if name not in member:
            member.add(name)
            ahead.extend(parents[name])
    order = sorted(member, key=lambda name: (groups[name].depth, groups[name].priority, name))
    return Host(host.name, host.at, tuple(order), host.vars)


def _type_name(data: object) -> str:
    if data is None or isinstance(data, bool):
        return "nothing" if data is None else "true or false"
    return "a number" if isinstance(data, int | float) else "a date"

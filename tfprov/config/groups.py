"""The tree of groups in a YAML inventory, read as Ansible's own YAML plugin reads it."""

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from tfprov.config.ranges import RangeError, expand
from tfprov.errors import InvalidInput, Position, Problem
from tfprov.model.inventory import ROLES, Group, Host, Inventory, overlay
from tfprov.model.node import Mapping, Node, Scalar

_SECTIONS = ("hosts", "children", "vars")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*\Z")
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
    reader = _Reader()
    reader.top(document)
    if not reader.problems:
        reader.check_loops()
    if reader.problems:
        raise InvalidInput(reader.problems)
    return reader.inventory(path)


class _Reader:
    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.groups: dict[str, _Group] = {}
        self.hosts: dict[str, Host] = {}

    def report(self, at: Position, what: str, fix: str) -> None:
        self.problems.append(Problem(at, what, fix))

    def top(self, document: Node) -> None:
        if not isinstance(document, Mapping) or not document.entries:
            empty = isinstance(document, Mapping) or (isinstance(document, Scalar) and document.data is None)
            what = "an empty inventory" if empty else "an inventory must be a mapping of groups"
            self.report(document.at, what, "start from `tfprov init`")
            return
        self.groups["all"] = _Group(document.at)
        for name, body in document.entries.items():
            self.group(name, document.keys[name], body)

    def group(self, name: str, key: Scalar, body: Node) -> None:
        if not self.check_name("group", key):
            return
        group = self.groups.setdefault(name, _Group(key.at))
        sections = self.mapping(body, f"group `{name}`", key.at)
        for section, content in sections.entries.items():
            if section not in _SECTIONS:
                self.unknown_section(name, section, sections.key_at(section))
                continue
            getattr(self, f"read_{section}")(group, self.section(section, content, name, sections.key_at(section)))

    def unknown_section(self, group: str, section: str, at: Position) -> None:
        close = difflib.get_close_matches(section, _SECTIONS, n=1)
        fix = f"did you mean `{close[0]}`?" if close else "a group has `hosts`, `children` and `vars`"
        if not close and group == "all" and section in ROLES:
            fix = "put it under `children:`"
        self.report(at, f"unknown key `{section}` in group `{group}`", fix)

    def section(self, section: str, content: Node, group: str, at: Position) -> Mapping:
        if section != "vars" and isinstance(content, Scalar) and isinstance(content.data, str):
            return Mapping({content.text: Scalar(None, content.at)}, content.at, {content.text: content})
        return self.mapping(content, f"`{section}` of group `{group}`", at)

    def mapping(self, node: Node, what: str, at: Position) -> Mapping:
        if isinstance(node, Mapping):
            return node
        if not isinstance(node, Scalar) or node.data is not None:
            self.report(node.at, f"{what} must be a mapping", "write one `name:` per line, without dashes")
        return Mapping(at=at)

    def read_hosts(self, group: _Group, content: Mapping) -> None:
        for pattern, body in content.entries.items():
            key = content.keys[pattern]
            variables = self.mapping(body, f"host `{pattern}`", key.at)
            for host in self.expand(pattern, key):
                known = self.hosts.get(host, Host(host, key.at))
                self.hosts[host] = Host(host, known.at, (), overlay(known.vars, variables))
                group.hosts[host] = None

    def expand(self, pattern: str, key: Scalar) -> list[str]:
        try:
            names = expand(pattern)
        except RangeError as error:
            self.report(key.at, str(error), "count upwards, as in `node[1:3]`")
            return []
        return names if self.check_name("host", key, names[0]) else []

    def check_name(self, kind: str, key: Scalar, name: str | None = None) -> bool:
        shown = key.text or "''"
        if not isinstance(key.data, str):
            what = f"{kind} name `{shown}` is read by YAML as {_type_name(key.data)}, not as text"
            self.report(key.at, what, f'quote it: "{shown}"')
        elif not _NAME.match(name if name is not None else key.text):
            fix = "use letters, digits, `-`, `_` and `.`, and start with a letter or a digit"
            if kind == "host" and "@" in key.text:
                fix = "give the user as `ansible_user`, and the address as `ansible_host`"
            self.report(key.at, f"{kind} name `{shown}` is not valid", fix)
        else:
            return True
        return False

    def read_children(self, group: _Group, content: Mapping) -> None:
        for child, body in content.entries.items():
            key = content.keys[child]
            if child == "all":
                self.report(key.at, "group `all` cannot be a child of another", "remove it")
                continue
            group.children.setdefault(child, key.at)
            self.group(child, key, body)

    def read_vars(self, group: _Group, content: Mapping) -> None:
        group.vars = overlay(group.vars, content)

    def check_loops(self) -> None:
        for name, group in self.groups.items():
            for child, at in group.children.items():
                if self.reaches(child, name, set()):
                    self.report(
                        at, f"group `{child}` is a child of `{name}` and also its parent", "remove one of the two"
                    )

    def reaches(self, start: str, goal: str, seen: set[str]) -> bool:
        seen.add(start)
        onward = self.groups[start].children
        return goal in onward or any(self.reaches(child, goal, seen) for child in onward if child not in seen)

    def inventory(self, path: str) -> Inventory:
        parents: dict[str, list[str]] = {name: [] for name in self.groups}
        for name, group in self.groups.items():
            for child in group.children:
                parents[child].append(name)
        for name in self.groups:
            if name != "all" and not parents[name]:
                parents[name].append("all")
        groups = {name: self.finish(name, group, parents) for name, group in self.groups.items()}
        direct: dict[str, list[str]] = {name: [] for name in self.hosts}
        for name, group in self.groups.items():
            for host in group.hosts:
                direct[host].append(name)
        hosts = {name: self.placed(host, direct[name], parents, groups) for name, host in self.hosts.items()}
        return Inventory(path, groups, hosts)

    def finish(self, name: str, group: _Group, parents: dict[str, list[str]]) -> Group:
        children = tuple(group.children)
        if name == "all":
            children += tuple(other for other in parents if parents[other] == ["all"] and other not in group.children)
        stated = group.vars.get(_PRIORITY)
        priority = stated.data if isinstance(stated, Scalar) and isinstance(stated.data, int) else 1
        return Group(name, group.at, tuple(group.hosts), children, group.vars, _depth(name, parents), priority)

    def placed(self, host: Host, direct: list[str], parents: dict[str, list[str]], groups: dict[str, Group]) -> Host:
        member: set[str] = {"all"}
        ahead = list(direct)
        while ahead:
            name = ahead.pop()
            if name not in member:
                member.add(name)
                ahead.extend(parents[name])
        order = sorted(member, key=lambda name: (groups[name].depth, groups[name].priority, name))
        return Host(host.name, host.at, tuple(order), host.vars)


def _depth(name: str, parents: dict[str, list[str]]) -> int:
    return max((1 + _depth(parent, parents) for parent in parents[name]), default=0)


def _type_name(data: object) -> str:
    names: Iterable[tuple[type, str]] = (
        (bool, "true or false"),
        (int, "a number"),
        (float, "a number"),
        (type(None), "nothing"),
    )
    return next((name for kind, name in names if isinstance(data, kind)), "a date")

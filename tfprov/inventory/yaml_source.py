"""Reads YAML inventories, as Ansible's YAML plugin does."""

from tfprov.errors import InvalidInput, Position, Problem, printable, suggest
from tfprov.inventory.builder import InventoryBuilder
from tfprov.model.inventory import NAMESPACE, ROLES, Inventory
from tfprov.model.yaml_node import Items, Mapping, Node, Scalar

_SECTIONS = ("hosts", "children", "vars")
_META = "_meta"
SETTINGS = ("cluster", "command", "strategy", "wiring", "code", "port", "runtime")
"""Settings of tfprov that are no mappings, and so cannot be groups at the top level."""


def read_groups(document: Node, path: str) -> Inventory:
    """Return the inventory in `document`; InvalidInput has all problems of its structure."""
    inventory, problems = read_structure(document, path)
    if problems:
        raise InvalidInput(problems)
    return inventory


def read_structure(document: Node, path: str) -> tuple[Inventory, list[Problem]]:
    """Return the inventory in `document`, and the problems of the parts that are left out."""
    builder = InventoryBuilder()
    add_document(builder, document)
    return builder.inventory(path), builder.problems


def add_document(builder: InventoryBuilder, document: Node) -> None:
    """Add the YAML inventory in `document` to `builder`, also its problems."""
    builder.begin_source(document.at)
    _YamlReader(builder).top(document)


def has_groups(document: Node) -> bool:
    """Whether `document` could be an inventory, even an invalid one; a list or a mapping of scalars is none."""
    if not isinstance(document, Mapping):
        return False
    keys = {NAMESPACE, "plugin", "all", *_SECTIONS, *ROLES}.intersection(document.entries)
    return bool(keys) or any(map(_may_be_group, document.entries.values()))


def _may_be_group(body: Node) -> bool:
    return isinstance(body, Mapping) or (isinstance(body, Scalar) and body.data is None)


class _YamlReader:
    def __init__(self, builder: InventoryBuilder) -> None:
        self.builder, self.report = builder, builder.report

    def top(self, document: Node) -> None:
        if not isinstance(document, Mapping) or not document.entries:
            self.report(document.at, *_missing_groups_problem(document))
            return
        if problem := _foreign_document(document):
            self.report(*problem)
            return
        for name, body in document.entries.items():
            if name == NAMESPACE or (name in _SECTIONS and name not in ROLES):
                self.report(document.key_at(name), f"`{name}` is at the level of the groups", _FIXES[name])
            elif name in SETTINGS and not _may_be_group(body):
                fix = f"put it under `all:`, `vars:`, `{NAMESPACE}:`"
                self.report(document.key_at(name), f"`{name}` is at the level of the groups", fix)
            else:
                self.group(document.keys[name], body)

    def group(self, key: Scalar, body: Node) -> None:
        name = key.text
        if not self.builder.add_group(key):
            return
        sections = self.mapping(body, "group", name, key.at)
        for section, content in sections.entries.items():
            at = sections.key_at(section)
            if section not in _SECTIONS:
                self.report(at, f"unknown key `{printable(section)}` in group `{name}`", _unknown_key_fix(section))
                continue
            getattr(self, f"read_{section}")(name, self.section(section, content, name, at))

    def section(self, section: str, content: Node, group: str, at: Position) -> Mapping:
        if section != "vars" and isinstance(content, Scalar) and isinstance(content.data, str):
            return Mapping({content.text: Scalar(None, content.at)}, content.at, {content.text: content})
        return self.mapping(content, f"`{section}` of group", group, at)

    def mapping(self, node: Node, kind: str, name: str, at: Position) -> Mapping:
        if isinstance(node, Mapping):
            return node
        if not isinstance(node, Scalar) or node.data is not None:
            dashes = ", without dashes" if isinstance(node, Items) else ""
            self.report(node.at, f"{kind} `{printable(name)}` must be a mapping", f"write one `name:` per line{dashes}")
        return Mapping(at=at)

    def read_hosts(self, group: str, content: Mapping) -> None:
        for pattern, body in content.entries.items():
            key = content.keys[pattern]
            self.builder.add_hosts(group, key, self.mapping(body, "host", pattern, key.at))

    def read_children(self, group: str, content: Mapping) -> None:
        for child, body in content.entries.items():
            key = content.keys[child]
            if child in _SECTIONS and child not in ROLES:
                self.report(key.at, f"a group called `{child}`", f"put `{child}:` beside `children:`, not below it")
                continue
            if child != "all":
                self.group(key, body)
            if child in self.builder.groups:
                self.builder.add_child(group, child, key.at)

    def read_vars(self, group: str, content: Mapping) -> None:
        self.builder.set_vars(group, content)


_FIXES = {
    NAMESPACE: "put it under `all:`, `vars:`",
    "hosts": "put it under the name of a group, such as `worker:`",
    "children": "put it under `all:`",
    "vars": "put it under `all:`",
}


def _missing_groups_problem(document: Node) -> tuple[str, str]:
    if isinstance(document, Mapping) or (isinstance(document, Scalar) and document.data is None):
        return "an empty inventory", "start from `tfprov init`"
    first = document.items[0] if isinstance(document, Items) and document.items else None
    if isinstance(first, Mapping) and "hosts" in first.entries:
        return "a playbook where an inventory should be", "play it with `tfprov play FILE -i INVENTORY`"
    return "an inventory must be a mapping of groups", "start from `tfprov init`"


def _foreign_document(document: Mapping) -> tuple[Position, str, str] | None:
    """Return the problem of a document that is no inventory, but a plugin's settings or a script's output."""
    plugin = document.get("plugin")
    if isinstance(plugin, Scalar) and isinstance(plugin.data, str):
        return plugin.at, *plugin_problem(plugin.text)
    if _META in document.entries:
        fix = "make a script of it that prints this, or write it as `ansible-inventory -i SCRIPT --list --yaml` does"
        return document.key_at(_META), f"`{_META}` belongs to the output of an inventory script, not to a file", fix
    return None


def plugin_problem(name: str) -> tuple[str, str]:
    """Return the problem and the fix of a file that configures an inventory plugin."""
    fix = "give what `ansible-inventory -i FILE --list --yaml` prints, or a script that asks Ansible"
    return f"settings of the inventory plugin `{printable(name)}`, which tfprov does not run", fix


def _unknown_key_fix(section: str) -> str:
    if section in ROLES:
        return "put it under `children:`"
    if section in SETTINGS:
        return f"put it under `vars:`, `{NAMESPACE}:`"
    if section == NAMESPACE or section.startswith("ansible_"):
        return "put it under `vars:`"
    return suggest(section, _SECTIONS, "a group has `hosts`, `children` and `vars`")

"""The output of `ansible-inventory` as plain data: every host with its variables, and the tree of groups.

Templates are not rendered. Two things differ from Ansible: the key `tfprov` is merged, and encrypted values are never
decrypted.
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date
from enum import Enum, auto
from typing import Any

from tfprov.model.inventory import NAMESPACE, Group, Inventory, Layer, merge_layers
from tfprov.model.yaml_node import HIDDEN, EncryptedValue, Items, Mapping, Node, Scalar, decrypt_values
from tfprov.vault.redaction import is_masked, public_env_names

_PRIORITY = "ansible_group_priority"
_INTERNAL = frozenset(
    [f"ansible_{name}" for name in (
        "async_path", "collection_name", "config_file", "dependent_role_names", "diff_mode", "facts", "forks",
        "inventory_sources", "limit", "play_batch", "play_hosts", "play_hosts_all", "play_role_names",
        "playbook_python", "role_name", "role_names", "run_tags", "skip_tags", "verbosity", "version",
    )]
    + [f"inventory_{name}" for name in ("dir", "file", "hostname", "hostname_short")]
    + [f"role_{name}" for name in ("name", "names", "path", "uuid")]
    + ["groups", "group_names", "hostvars", "playbook_dir", "play_hosts"]
)  # fmt: skip
"""Variables that Ansible sets itself; a user's variable with such a name is not listed."""


class OutputFormat(Enum):
    """The output formats: JSON of all hosts, JSON of one host, YAML, and lines of text."""

    LIST = auto()
    HOST = auto()
    YAML = auto()
    TEXT = auto()


@dataclass(frozen=True, slots=True)
class VaultValue:
    """An encrypted value, written in YAML with Ansible's tag. PyYAML writes equal ones as aliases, as it is not text."""

    ciphertext: str


class AnsibleOutput:
    """The output for `inventory` in the format `form`.

    With `export`, every group and host has its own variables only, and not all that apply to it. Secrets are masked, unless
    `show_secrets` is set.
    """

    def __init__(self, inventory: Inventory, form: OutputFormat, *, export: bool = False, show_secrets: bool) -> None:
        self.inventory, self.form, self.export, self.show_secrets = inventory, form, export, show_secrets
        self._is_json = form in (OutputFormat.LIST, OutputFormat.HOST)
        self._shared: dict[int, tuple[Node, Any]] = {}

    def host(self, name: str) -> dict[str, Any]:
        """Return the variables of a host."""
        nodes = self._own_variables(name) if self.export else self.inventory.variables(name)
        if self._is_json:  # hosts with equal variables share one object, which is converted once
            known = self._shared.get(id(nodes))
            converted: dict[str, Any] = known[1] if known else self._remember(nodes, self._convert(nodes))
            return converted
        # A group's values are one object for all its hosts, which YAML shows by aliases; a host's are its own.
        own = {id(value) for value in self.inventory.hosts[name].vars.entries.values()}
        return {
            self._key(nodes, key): self._cached(value, key)
            if self.form is OutputFormat.YAML and id(value) not in own
            else self._plain(value, key)
            for key, value in nodes.entries.items()
            if key not in _INTERNAL
        }

    def _convert(self, nodes: Mapping) -> dict[str, Any]:
        return {
            self._key(nodes, key): self._cached(value, key)
            for key, value in nodes.entries.items()
            if key not in _INTERNAL
        }

    def _remember(self, node: Node, plain: Any) -> Any:
        """Cache the plain form of `node`, and `node` itself, so that no other object gets its id."""
        self._shared[id(node)] = node, plain
        return plain

    def _own_variables(self, name: str) -> Mapping:
        return merge_layers(layer for layer in self.inventory.layers(name) if layer.origin in ("host", "host_vars"))

    def group(self, name: str) -> dict[str, Any]:
        """Return the variables of a group."""
        group = self.inventory.groups[name]
        files = (values for beside in self.inventory.vars_files for values in beside.groups.get(name, ()))
        nodes = merge_layers(Layer(name, values) for values in (group.vars, *files))
        variables = {self._key(nodes, key): self._plain(value, key) for key, value in nodes.entries.items()}
        if group.priority != 1:
            variables[_PRIORITY] = group.priority
        return {key: value for key, value in variables.items() if key not in _INTERNAL}

    def as_json(self, hosts: Collection[str]) -> dict[str, Any]:
        """Return `hosts` and all groups in the form that an inventory script prints."""
        selected = frozenset(hosts)
        groups = {name: self._entry(group, selected) for name, group in self._groups_below("all")}
        variables = {name: values for name in hosts if (values := self.host(name))}
        meta = {"hostvars": variables, "profile": "inventory_legacy"}
        return {"_meta": meta} | {name: entry for name, entry in groups.items() if entry}

    def _entry(self, group: Group, hosts: frozenset[str]) -> dict[str, Any]:
        entry = {
            "hosts": [name for name in group.hosts if name in hosts] if group.name != "all" else [],
            "children": list(group.children),
            "vars": self.group(group.name) if self.export else {},
        }
        return {key: value for key, value in entry.items() if value}

    def _groups_below(self, top: str) -> Iterator[tuple[str, Group]]:
        ahead, seen = [top], {top}
        while ahead:
            group = self.inventory.groups[ahead.pop()]
            yield group.name, group
            fresh = [child for child in group.children if child not in seen]
            seen.update(fresh)
            ahead.extend(fresh)

    def as_yaml(self, hosts: Collection[str]) -> dict[str, Any]:
        """Return `hosts` and all groups in the form of a YAML inventory."""
        return self._branch("all", frozenset(hosts), set(), set())

    def _branch(self, name: str, hosts: frozenset[str], listed: set[str], groups: set[str]) -> dict[str, Any]:
        """Return a group with all below it; hosts in `listed` and groups in `groups` are only named."""
        group = self.inventory.groups[name]
        below: dict[str, Any] = {}
        for child in group.children:
            below |= {child: {}} if child in groups else self._branch(child, hosts, listed, groups)
            groups.add(child)
        members = {}
        for host in group.hosts if name != "all" else ():
            if host in hosts:
                members[host] = {} if host in listed else self.host(host)
                listed.add(host)
        entry = {"children": below, "hosts": members, "vars": self.group(name) if self.export else {}}
        kept = {key: value for key, value in entry.items() if value}
        return {name: kept} if kept else {}

    def graph(self, top: str, *, variables: bool = False) -> Iterator[str]:
        """Yield the lines of the tree of groups below `top`."""
        yield from self._graph(self.inventory.groups[top], 0, variables=variables)

    def _graph(self, group: Group, depth: int, *, variables: bool) -> Iterator[str]:
        yield _line(f"@{group.name}:", depth)
        for child in group.children:
            yield from self._graph(self.inventory.groups[child], depth + 1, variables=variables)
        for host in group.hosts if group.name != "all" else ():
            yield _line(host, depth + 1)
            if variables:
                yield from _variable_lines(self.host(host), depth + 2)
        if variables:
            yield from _variable_lines(self.group(group.name), depth + 1)

    def _cached(self, node: Node, name: str) -> Any:
        if isinstance(node, Scalar) or is_masked(name):  # under another name it is not masked
            return self._plain(node, name)
        known = self._shared.get(id(node))
        return known[1] if known else self._remember(node, self._plain(node, name))

    def _plain(self, node: Node, name: str = "", public: frozenset[str] = frozenset()) -> Any:
        """Return the value of the variable or key `name`; an empty name and the names in `public` are never masked.

        What is below the name of a secret is masked, too.
        """
        if isinstance(node, Mapping):
            below = public_env_names(node) if name == NAMESPACE else frozenset()
            # Flags are visible on command lines.
            named = {
                key: "" if name == "flags" or key in public else name if is_masked(name) else key
                for key in node.entries
            }
            return {
                self._key(node, key): self._plain(value, named[key], below if key == "env" else frozenset())
                for key, value in node.entries.items()
            }
        if isinstance(node, Items):
            return [self._plain(item, name if is_masked(name) else "") for item in node.items]
        if isinstance(node.data, EncryptedValue) and not node.data.variable:
            return self._sealed(node, node.data.ciphertext)
        if not self.show_secrets and (node.secret or self._has_secret_name(node, name)):
            return HIDDEN
        if node.literal and self.form is OutputFormat.LIST:
            return {"__ansible_unsafe": node.data}
        if isinstance(node.data, date):  # a copy, because dates are not written as aliases
            return node.data.isoformat() if self._is_json else node.data.replace()
        return node.data

    def _has_secret_name(self, node: Scalar, name: str) -> bool:
        is_reference = isinstance(node.data, str) and node.data.startswith("{{") and not set("'\"") & set(node.data)
        return node.data is not None and is_masked(name) and not is_reference

    def _sealed(self, node: Node, ciphertext: str) -> Any:
        if self._is_json:
            return {"__ansible_vault": ciphertext}
        if self.form is not OutputFormat.YAML:
            return decrypt_values(node).data if self.show_secrets else HIDDEN  # type: ignore[union-attr]
        known = self._shared.get(id(node))  # one object for each value, which YAML shows by aliases
        return known[1] if known else self._remember(node, VaultValue(ciphertext))

    def _key(self, node: Mapping, name: str) -> Any:
        """Return a key with its type in YAML; JSON writes null, booleans and numbers as text."""
        data = node.keys[name].data if name in node.keys else name
        if not self._is_json or isinstance(data, str):
            return data
        return json.dumps(data) if data is None or isinstance(data, bool | int | float) else name


def _line(text: str, depth: int) -> str:
    return "  |" * depth + f"--{text}" if depth else text


def _variable_lines(values: dict[str, Any], depth: int) -> Iterator[str]:
    for name, value in sorted(values.items(), key=lambda pair: str(pair[0])):
        yield _line(f"{{{name} = {value}}}", depth)

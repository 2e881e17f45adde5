"""What `ansible-inventory` prints of an inventory, as plain data: every host with its variables, and the tree of groups.

Templates stay as they are written. Two things are unlike Ansible: the key `tfprov` is merged, and what was encrypted is
never shown decrypted.
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date
from enum import Enum, auto
from typing import Any

from tfprov.model.inventory import NAMESPACE, Group, Inventory, Layer, fold
from tfprov.model.node import HIDDEN, Items, Mapping, Node, Scalar, Sealed, unsealed
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
"""Variables that Ansible sets itself; one of the user's own that is so called is not listed."""


class OutputFormat(Enum):
    """What values are made for: JSON of all hosts, JSON of one host, YAML, or a line of text."""

    LIST = auto()
    HOST = auto()
    YAML = auto()
    TEXT = auto()


@dataclass(frozen=True, slots=True)
class VaultValue:
    """An encrypted value, which YAML shows with Ansible's tag. It is no text to PyYAML, and so has aliases."""

    ciphertext: str


class AnsibleOutput:
    """What can be told of `inventory`, with values as `form` has them.

    `export` tells of every group and host what is stated there, instead of all that applies to a host. Secrets are masked,
    unless `show_secrets` is set.
    """

    def __init__(
        self, inventory: Inventory, form: OutputFormat, *, export: bool = False, show_secrets: bool = False
    ) -> None:
        self.inventory, self.form, self.export, self.show_secrets = inventory, form, export, show_secrets
        self._is_json = form in (OutputFormat.LIST, OutputFormat.HOST)
        self._shared: dict[int, tuple[Node, Any]] = {}

    def host(self, name: str) -> dict[str, Any]:
        """Return the variables of a host."""
        one = self.inventory.hosts[name]
        nodes = self._exported(name) if self.export else self.inventory.variables(name)
        if self._is_json:  # hosts between which nothing differs share one object, which is put into words once
            known = self._shared.get(id(nodes))
            found: dict[str, Any] = known[1] if known else self._kept(nodes, self._listed(nodes))
            return found
        # The values of groups are the same objects for all their hosts, which YAML shows by aliases; a host's are its own.
        own = {id(value) for value in one.vars.entries.values()}
        return {
            self._key(nodes, key): self._once(value, key)
            if self.form is OutputFormat.YAML and id(value) not in own
            else self._plain(value, key)
            for key, value in nodes.entries.items()
            if key not in _INTERNAL
        }

    def _listed(self, nodes: Mapping) -> dict[str, Any]:
        return {
            self._key(nodes, key): self._once(value, key)
            for key, value in nodes.entries.items()
            if key not in _INTERNAL
        }

    def _kept(self, node: Node, plain: Any) -> Any:
        """Remember what became of `node`, and `node` itself: another could get its id."""
        self._shared[id(node)] = node, plain
        return plain

    def _exported(self, name: str) -> Mapping:
        return fold(layer for layer in self.inventory.layers(name) if layer.origin in ("host", "host_vars"))

    def group(self, name: str) -> dict[str, Any]:
        """Return the variables that are stated for a group."""
        one = self.inventory.groups[name]
        files = (values for beside in self.inventory.beside for values in beside.groups.get(name, ()))
        nodes = fold(Layer(name, values) for values in (one.vars, *files))
        found = {self._key(nodes, key): self._plain(value, key) for key, value in nodes.entries.items()}
        if one.priority != 1:
            found[_PRIORITY] = one.priority
        return {key: value for key, value in found.items() if key not in _INTERNAL}

    def as_json(self, hosts: Collection[str]) -> dict[str, Any]:
        """Return `hosts` and all groups in the form of what an inventory script prints."""
        seen = frozenset(hosts)
        found = {name: self._entry(group, seen) for name, group in self._reached("all")}
        variables = {name: values for name in hosts if (values := self.host(name))}
        meta = {"hostvars": variables, "profile": "inventory_legacy"}
        return {"_meta": meta} | {name: entry for name, entry in found.items() if entry}

    def _entry(self, group: Group, hosts: frozenset[str]) -> dict[str, Any]:
        entry = {
            "hosts": [name for name in group.hosts if name in hosts] if group.name != "all" else [],
            "children": list(group.children),
            "vars": self.group(group.name) if self.export else {},
        }
        return {key: value for key, value in entry.items() if value}

    def _reached(self, top: str) -> Iterator[tuple[str, Group]]:
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

    def _branch(self, name: str, hosts: frozenset[str], told: set[str], groups: set[str]) -> dict[str, Any]:
        """Return a group with all that is below it; what was told once, in `told` and `groups`, is only named."""
        group = self.inventory.groups[name]
        below: dict[str, Any] = {}
        for child in group.children:
            below |= {child: {}} if child in groups else self._branch(child, hosts, told, groups)
            groups.add(child)
        members = {}
        for host in group.hosts if name != "all" else ():
            if host in hosts:
                members[host] = {} if host in told else self.host(host)
                told.add(host)
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

    def _once(self, node: Node, name: str) -> Any:
        if isinstance(node, Scalar):
            return self._plain(node, name)
        known = self._shared.get(id(node))
        return known[1] if known else self._kept(node, self._plain(node, name))

    def _plain(self, node: Node, name: str = "", public: frozenset[str] = frozenset()) -> Any:
        """Return the value of the variable or key called `name`; an empty name is no secret's, nor are keys in `public`."""
        if isinstance(node, Mapping):
            below = public_env_names(node) if name == NAMESPACE else frozenset()
            # Flags stand on command lines, where everybody reads them.
            return {
                self._key(node, key): self._plain(
                    value, "" if name == "flags" or key in public else key, below if key == "env" else frozenset()
                )
                for key, value in node.entries.items()
            }
        if isinstance(node, Items):
            return [self._plain(item) for item in node.items]
        if isinstance(node.data, Sealed):
            return self._sealed(node, node.data.ciphertext)
        if not self.show_secrets and (node.secret or self._is_named(node, name)):
            return HIDDEN
        if node.literal and self.form is OutputFormat.LIST:
            return {"__ansible_unsafe": node.data}
        if isinstance(node.data, date):  # in YAML, one of its own: only lists and mappings have aliases
            return node.data.isoformat() if self._is_json else node.data.replace()
        return node.data

    def _is_named(self, node: Scalar, name: str) -> bool:
        is_reference = isinstance(node.data, str) and node.data.startswith("{{") and not set("'\"") & set(node.data)
        return node.data is not None and is_masked(name) and not is_reference

    def _sealed(self, node: Node, ciphertext: str) -> Any:
        if self._is_json:
            return {"__ansible_vault": ciphertext}
        if self.form is not OutputFormat.YAML:
            return unsealed(node).data if self.show_secrets else HIDDEN  # type: ignore[union-attr]
        known = self._shared.get(id(node))  # one value is one object wherever it stands, which YAML shows by aliases
        return known[1] if known else self._kept(node, VaultValue(ciphertext))

    def _key(self, node: Mapping, name: str) -> Any:
        """Return a name as it was meant, which need not be text; JSON has its own way to write one that is not."""
        data = node.keys[name].data if name in node.keys else name
        if not self._is_json or isinstance(data, str):
            return data
        return json.dumps(data) if data is None or isinstance(data, bool | int | float) else name


def _line(text: str, depth: int) -> str:
    return "  |" * depth + f"--{text}" if depth else text


def _variable_lines(values: dict[str, Any], depth: int) -> Iterator[str]:
    for name, value in sorted(values.items(), key=lambda pair: str(pair[0])):
        yield _line(f"{{{name} = {value}}}", depth)

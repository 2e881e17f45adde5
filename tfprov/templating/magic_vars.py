"""Magic variables for templates: those of a host as in Ansible, and those of a task, such as `task.index`."""

import os.path
import re
from collections.abc import Iterator
from collections.abc import Mapping as AbstractMapping
from types import MappingProxyType
from typing import Any

from tfprov.model.inventory import Inventory
from tfprov.model.yaml_node import Items, Mapping, Node, Scalar
from tfprov.templating.host_values import RenderState, TemplateProblems, Variables, render

_ADDRESS_LIKE = re.compile(r"[0-9a-fA-F]*[.:][0-9a-fA-F.:]*")


class HostVars(AbstractMapping[str, Variables]):
    """`hostvars`: the variables of every host, each built when a template first uses them.

    One object serves all hosts of an inventory: it also holds what their templates share.
    """

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self._groups = Groups(inventory)
        self._state = RenderState()
        self._by_host: dict[str, Variables] = {}

    def bind(self, host: str, nodes: Mapping) -> Variables:
        """Return the variables of `host` for templates: `nodes`, which are those of the inventory, and the magic ones."""
        source = os.path.abspath(self.inventory.hosts[host].at.file)  # noqa: PTH100  Ansible's path has no `..` either
        magic = {
            "inventory_hostname": host,
            "inventory_hostname_short": _short_name(host),
            "inventory_file": source,
            "inventory_dir": os.path.dirname(source),  # noqa: PTH120
            "group_names": sorted(name for name in self.inventory.hosts[host].groups if name != "all"),
            "groups": self._groups,
            "hostvars": self,
        }
        return Variables(nodes, magic, self._state, self.inventory.lookup_dirs)

    def __getitem__(self, host: Any) -> Variables:
        if host not in self._by_host:  # KeyError for a host that the inventory does not have
            self._by_host[host] = self.bind(host, self.inventory.variables(host))
        return self._by_host[host]

    def __contains__(self, host: object) -> bool:
        return host in self.inventory.hosts

    def __iter__(self) -> Iterator[str]:
        return iter(self.inventory.hosts)

    def __len__(self) -> int:
        return len(self.inventory.hosts)


class Groups(AbstractMapping[str, list[str]]):
    """`groups`: the hosts of each group. All hosts share the lists, each built when a template first uses it."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._by_name: dict[str, list[str]] = {}

    def __getitem__(self, name: str) -> list[str]:
        if name not in self._by_name:
            if name not in self._inventory.groups:
                raise KeyError(name)
            self._by_name[name] = list(self._inventory.members(name))
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._inventory.groups)

    def __len__(self) -> int:
        return len(self._inventory.groups)


def _short_name(host: str) -> str:
    """Return the name up to the first dot; an address whole."""
    if not _ADDRESS_LIKE.fullmatch(host):
        return host.split(".", maxsplit=1)[0]
    from ipaddress import ip_address  # noqa: PLC0415  slow to import, and few hosts are named like an address

    try:
        ip_address(host)
    except ValueError:
        return host.split(".", maxsplit=1)[0]
    return host


TASK_SETTINGS = ("command", "flags", "env")
"""Settings that may use `task.job`, `task.index`, `checkpoint_dir`, `data_dir` and CLUSTER_VARIABLES."""

CLUSTER_VARIABLES = ("ps_hosts", "worker_hosts", "chief_address", "rank", "world_size")
"""Their variables once all tasks are assigned. An inventory variable with such a name wins."""

_ELSEWHERE = "put it into `env`, or into a file on the host that `mounts` brings"


def add_task_variables(  # noqa: PLR0913  all that is known of a task
    variables: Variables,
    cluster: str,
    task: str,
    directory: str,
    data: str | None,
    *,
    cluster_values: AbstractMapping[str, object] = MappingProxyType({}),
) -> Variables:
    """Return `variables` with those of `task`, such as `worker/1`; `data` is its data directory.

    `cluster_values` has the values of CLUSTER_VARIABLES.
    """
    job, _, index = task.partition("/")
    identity = {"job": job, "index": int(index), "name": task}
    read = {"data_dir": data} if data else {}
    others = {name: value for name, value in cluster_values.items() if name not in variables}
    return variables.with_variables(cluster=cluster, checkpoint_dir=directory, task=identity, **read, **others)


def names_used(node: Node, variables: Variables) -> set[str]:
    """Return the names that the templates in `node` look up, also by way of other variables, and if they fail."""
    with variables.recorded() as names:
        render(node, variables, TemplateProblems())
    return names


def render_task_settings(node: Mapping, variables: Variables, faults: TemplateProblems) -> Mapping:
    """Return the TASK_SETTINGS in `node`, rendered for one task; values not fit for a command line go into `faults`."""
    written = {key: node.entries[key] for key in TASK_SETTINGS if key in node.entries}
    rendered = {key: render(value, variables, faults) for key, value in written.items()}
    for key, value in rendered.items():
        if type(value) is not type(written[key]):  # a whole setting in one template, which is reported elsewhere
            continue
        for name, child, before in _pairs(key, value, written[key]):
            if key != "env" and isinstance(child, Scalar) and child.secret:
                faults.add(child.at, f"`{name}` is secret, and others on the host can read command lines", _ELSEWHERE)
                continue
            if isinstance(before, Scalar) and child is not before and (problem := _argument_problem(name, child)):
                faults.add(child.at, *problem)
    return Mapping(rendered, node.at, node.keys)


def _pairs(key: str, node: Node, written: Node) -> Iterator[tuple[str, Node, Node]]:
    """Yield the name of each child of `node`, the child, and the same child as `written` in the file."""
    after, before = list(_children(key, node)), list(_children(key, written))
    if isinstance(node, Items) and len(after) != len(before):  # an item rendered to `omit`
        before = [
            (name, next((old for _, old in before if old is child), Scalar(None, child.at))) for name, child in after
        ]
    by_name = dict(before)
    for number, (name, child) in enumerate(after):
        yield name, child, before[number][1] if isinstance(node, Items) else by_name[name]


def _children(key: str, node: Node) -> Iterator[tuple[str, Node]]:
    if isinstance(node, Mapping):
        yield from ((f"{key}.{name}", value) for name, value in node.entries.items())
    elif isinstance(node, Items):
        yield from ((key if number else "command[0]", item) for number, item in enumerate(node.items))


def _argument_problem(name: str, node: Node) -> tuple[str, str] | None:
    if not isinstance(node, Scalar):
        return f"`{name}` renders to a list or a mapping", "render it to a single value"
    if node.data is None and not name.startswith("flags."):
        return f"`{name}` renders to nothing", "render it to a text"
    if name == "command[0]" and not str(node.data).strip():
        return "`command` renders to no program", "for example `command: [python, linear.py]`"
    if any(mark in str(node.data) for mark in "\n\r\0"):
        return f"`{name}` renders to several lines", "render it to one line"
    return None

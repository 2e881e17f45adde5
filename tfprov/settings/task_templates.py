"""The settings that are rendered for each task: they may say which task they are for."""

from collections.abc import Iterator
from collections.abc import Mapping as AbstractMapping
from types import MappingProxyType

from tfprov.model.node import Items, Mapping, Node, Scalar
from tfprov.templating.host_values import Faults, Variables, render

TASK_SETTINGS = ("command", "flags", "env")
"""Settings that may use `task.job`, `task.index`, `checkpoint_dir` and `data_dir`, and OF_CLUSTER."""

CLUSTER_VARIABLES = ("ps_hosts", "worker_hosts", "chief_address", "rank", "world_size")
"""What those settings know once all tasks are placed. A variable of the inventory with such a name keeps its meaning."""

_ELSEWHERE = "put it into `env`, or into a file on the host that `mounts` brings"


def add_task_variables(  # noqa: PLR0913  one task, seen from all sides
    variables: Variables,
    cluster: str,
    task: str,
    directory: str,
    data: str | None = None,
    *,
    known_of: AbstractMapping[str, object] = MappingProxyType({}),
) -> Variables:
    """Return `variables` with what is only known for the task called `task`; `data` is where it finds its data.

    `known_of` has values for the names in OF_CLUSTER.
    """
    job, _, index = task.partition("/")
    known = {"job": job, "index": int(index), "name": task}
    read = {"data_dir": data} if data else {}
    others = {name: value for name, value in known_of.items() if name not in variables}
    return variables.with_variables(cluster=cluster, checkpoint_dir=directory, task=known, **read, **others)


def render_task_settings(node: Mapping, variables: Variables, faults: Faults) -> Mapping:
    """Return the late settings in `node` for one task; what cannot stand on a command line goes into `faults`."""
    written = {key: node.entries[key] for key in TASK_SETTINGS if key in node.entries}
    rendered = {key: render(value, variables, faults) for key, value in written.items()}
    for key, value in rendered.items():
        if type(value) is not type(written[key]):  # a whole setting in one template, which is told elsewhere
            continue
        for name, child, before in _pairs(key, value, written[key]):
            if key != "env" and isinstance(child, Scalar) and child.secret:
                faults.add(child.at, f"`{name}` is secret, and others on the host can read command lines", _ELSEWHERE)
                continue
            if isinstance(before, Scalar) and child is not before and (wrong := _unfit(name, child)):
                faults.add(child.at, *wrong)
    return Mapping(rendered, node.at, node.keys)


def _pairs(key: str, node: Node, written: Node) -> Iterator[tuple[str, Node, Node]]:
    """Yield the name of everything in `node`, what it is, and what it was when it was `written`."""
    after, before = list(_children(key, node)), list(_children(key, written))
    if isinstance(node, Items) and len(after) != len(before):  # something in it is `omit`
        before = [
            (name, next((was for _, was in before if was is child), Scalar(None, child.at))) for name, child in after
        ]
    known = dict(before)
    for number, (name, child) in enumerate(after):
        yield name, child, before[number][1] if isinstance(node, Items) else known[name]


def _children(key: str, node: Node) -> Iterator[tuple[str, Node]]:
    if isinstance(node, Mapping):
        yield from ((f"{key}.{name}", value) for name, value in node.entries.items())
    elif isinstance(node, Items):
        yield from ((key if number else "command[0]", item) for number, item in enumerate(node.items))


def _unfit(name: str, node: Node) -> tuple[str, str] | None:
    if not isinstance(node, Scalar):
        return f"`{name}` renders to a list or a mapping", "render it to a single value"
    if node.data is None and not name.startswith("flags."):
        return f"`{name}` renders to nothing", "render it to a text"
    if name == "command[0]" and not str(node.data).strip():
        return "`command` renders to no program", "for example `command: [python, linear.py]`"
    if any(mark in str(node.data) for mark in "\n\r\0"):
        return f"`{name}` renders to several lines", "render it to one line"
    return None

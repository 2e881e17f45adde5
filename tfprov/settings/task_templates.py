"""Renders the settings that are specific to a task: `command`, `flags` and `env`."""

from collections.abc import Iterator
from collections.abc import Mapping as AbstractMapping
from types import MappingProxyType

from tfprov.model.node import Items, Mapping, Node, Scalar
from tfprov.templating.host_values import TemplateProblems, Variables, render

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
    data: str | None = None,
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

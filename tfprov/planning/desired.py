"""Tasks to containers: what should run, in full, so that it can be compared with what runs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfprov.config.late import for_task, render_late
from tfprov.config.settings import RoleSettings
from tfprov.config.templates import Faults
from tfprov.errors import InvalidInput, Problem
from tfprov.model.cluster import Cluster, Task
from tfprov.model.node import Scalar, find, plain
from tfprov.model.state import Container
from tfprov.wiring import to_flags, to_tf_config

_TENSORBOARD = ("tensorboard", "--logdir={dir}", "--host={address}", "--port={port}")


def desired(
    cluster: Cluster,
    roles: Sequence[RoleSettings],
    code: Mapping[tuple[str, str], str],
    checkpoint_dir: Callable[[Task], str],
) -> tuple[Container, ...]:
    """Return the container of every task.

    `code` maps (role, host) to the digest of its code; `checkpoint_dir` says where a task finds its checkpoint directory,
    which depends on the runtime. InvalidInput carries the templates that fail for some task.
    """
    settings = {(role.role, role.host): role for role in roles}
    problems: list[Problem] = []
    containers = []
    for task in cluster.tasks:
        role = settings[task.role, task.host]
        try:
            containers.append(_container(cluster, task, role, code.get((task.role, task.host)), checkpoint_dir(task)))
        except InvalidInput as error:
            problems.extend(error.problems)
    if problems:
        raise InvalidInput(problems)
    return tuple(containers)


def _container(cluster: Cluster, task: Task, role: RoleSettings, code: str | None, directory: str) -> Container:
    values, wiring = role.values, cluster.wiring(task)
    late = _late(cluster, task, role, directory)
    command = [str(word) for word in late["command"]] if late["command"] else _tensorboard(task, directory)
    flags, env = _flags(role, late["flags"]), {name: _text(value) for name, value in late["env"].items()}
    by_flags = values.wiring == "flags" and task.role != "tensorboard"
    told = to_flags(wiring) if by_flags else []
    return Container(
        task=task,
        spec={
            "runtime": values.runtime,
            "code": code,
            "command": command,
            "flags": flags,
            "env": env,
            # A tensorboard is told nothing about the cluster: a worker more or less is no reason to restart it.
            "wiring": _wiring(cluster, task, values.wiring) if task.role != "tensorboard" else {},
            "endpoint": task.endpoint,
        },
        argv=(
            *command,
            *told,
            *(f"--{name}" if value is None else f"--{name}={value}" for name, value in flags.items()),
        ),
        env={
            **env,
            "TF_CONFIG": to_tf_config(wiring),
            "TFPROV_CLUSTER": cluster.name,
            "TFPROV_TASK": task.name,
            "TFPROV_CHECKPOINT_DIR": directory,
        },
        checkpoint_dir=directory,
        restart=values.restart,
        max_restarts=values.max_restarts,
        start_timeout=values.start_timeout,
        stop_grace=values.stop_grace,
        ready=values.ready,
    )


def _wiring(cluster: Cluster, task: Task, style: str) -> dict[str, Any]:
    hosts = {f"{job}_hosts": list(addresses) for job, addresses in cluster.spec.items()}
    return {"style": style, "job_name": task.job, "task_index": task.index, **hosts}


def _late(cluster: Cluster, task: Task, role: RoleSettings, directory: str) -> dict[str, Any]:
    """Return `command`, `flags` and `env`, rendered with what only the task knows."""
    faults = Faults()
    rendered = render_late(role.node, for_task(role.variables, cluster.name, task.name, directory), faults)
    if faults.problems:
        raise InvalidInput(faults.problems)
    values: dict[str, Any] = plain(rendered)
    return {"command": None, "flags": {}, "env": {}} | values


def _flags(role: RoleSettings, flags: Mapping[str, Any]) -> dict[str, str | None]:
    """Return flags as text. A plain number goes out as it was written: `0.10` stays `0.10`."""
    result: dict[str, str | None] = {}
    for name, value in flags.items():
        node, _ = find(role.node, ["flags", name])
        as_written = isinstance(node, Scalar) and not node.quoted and isinstance(value, int | float)
        written = node.text if as_written and not isinstance(value, bool) else ""  # type: ignore[union-attr]
        result[name] = None if value is None else written or _text(value)
    return result


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _tensorboard(task: Task, directory: str) -> list[str]:
    return [word.format(dir=directory, address=task.address, port=task.port) for word in _TENSORBOARD]

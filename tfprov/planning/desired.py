"""Tasks to containers: what should run, in full, so that it can be compared with what runs."""

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfprov.errors import InvalidInput, Problem
from tfprov.model.cluster import Cluster, Task
from tfprov.model.node import Node, Scalar, find, plain
from tfprov.model.secrets import KeyedHash, is_secret_name
from tfprov.model.state import Box, Container, Mount
from tfprov.model.validators import parse_size
from tfprov.planning import task_args
from tfprov.planning.datasets import DatasetPath, data_dir, data_mounts, data_spec, dataset_of
from tfprov.settings.resolve import RoleSettings
from tfprov.settings.role_settings import python_path
from tfprov.settings.task_templates import add_task_variables, render_task_settings
from tfprov.templating.host_values import Faults

_SHORTEST = 8
"""Characters of a secret for which command lines are searched: shorter ones may be ordinary words."""

RoleHost = tuple[str, str]
"""A role and a host."""


@dataclass(frozen=True)
class RoleImage:
    """The image of a role on a host. `reference` is its name there, `label` what it is made from, in a few words.

    `address` is the host's address on which ports are published; `code` is code that is not in the image.
    """

    reference: str
    label: str
    address: str
    code: str | None = None


def _nowhere(_host: str, key: str) -> str:
    return f"/data/{key}"


def desired_containers(  # noqa: PLR0913  what is known of a cluster, from everywhere
    cluster: Cluster,
    roles: Sequence[RoleSettings],
    code: Mapping[RoleHost, str],
    checkpoint_dir: Callable[[Task], str],
    boxes: Mapping[RoleHost, RoleImage] | None = None,
    *,
    hashed: KeyedHash,
    fetched: DatasetPath = _nowhere,
) -> tuple[Container, ...]:
    """Return the container of every task.

    `code` has the digest of the code and, under the docker runtime, `boxes` the image of each role on each host;
    `checkpoint_dir` says where a task finds its checkpoint directory, which depends on the runtime, and `fetched` where
    processes find fetched data. `hashed` makes what stands for secret values in specs.
    InvalidInput carries the templates that fail for some task.
    """
    settings = {(role.role, role.host): role for role in roles}
    problems: list[Problem] = []
    containers = []
    for task in cluster.tasks:
        place = task.role, task.host
        role, boxed = settings[place], (boxes or {}).get(place)
        try:
            directory = checkpoint_dir(task)
            data = data_dir(role, None if boxed else fetched)
            # Other containers cannot reach the chief's volume, unless they share it; processes share a file system.
            linked = directory if boxed else checkpoint_dir(cluster.chief)
            made = _container(
                cluster,
                task,
                role,
                code=code.get(place),
                directory=directory,
                linked=linked,
                data=data,
                boxed=boxed,
                hashed=hashed,
            )
            containers.append(made)
        except InvalidInput as error:
            problems.extend(error.problems)
    if problems:
        raise InvalidInput(problems)
    return tuple(containers)


def _container(  # noqa: PLR0913  one task, seen from all sides
    cluster: Cluster,
    task: Task,
    role: RoleSettings,
    *,
    code: str | None,
    directory: str,
    linked: str,
    data: str | None,
    boxed: RoleImage | None,
    hashed: KeyedHash,
) -> Container:
    values, fetches = role.values, dataset_of(role)
    link = values.checkpoints.link and posixpath.normpath(values.checkpoints.link.strip())
    python = None if boxed else python_path(role)
    late = _late(cluster, task, role, directory, data)
    listens = "0.0.0.0" if boxed else task.address  # noqa: S104  in a container; the host publishes on one address
    stated = [str(word) for word in late["command"] or ()]
    command = stated or task_args.default_command(cluster, task, directory, listens)
    flags, env = _flags(role, late["flags"]), {name: _text(value) for name, value in late["env"].items()}
    secret = late["secret"] | {name for name in env if is_secret_name(name) and name not in values.public_env}
    if problems := list(_repeated(role, stated, flags, {name: env[name] for name in sorted(secret)})):
        raise InvalidInput(problems)
    return Container(
        task=task,
        spec={
            "runtime": values.runtime,
            "code": code,
            "command": command,
            "flags": flags,
            # Labels and records of runs can be read by others.
            "env": {
                name: hashed.of(cluster.name, name, value) if name in secret else value for name, value in env.items()
            },
            "wiring": task_args.wiring_spec(cluster, task, role),
            "endpoint": task.endpoint,
            **({"python": python} if python else {}),
            **({"link": link} if link else {}),
            **({"data": data_spec(role, in_container=boxed is not None)} if role.reads_data else {}),
            **({"reads": cluster.chief.name} if boxed and task.role == "tensorboard" else {}),
            **(_around(role, boxed) if boxed else {}),
        },
        argv=(
            *command,
            *task_args.wiring_flags(cluster, task, role),
            *(f"--{name}" if value is None else f"--{name}={value}" for name, value in flags.items()),
        ),
        env={
            **env,
            **task_args.environment(cluster, task, role, data),
            "TFPROV_CHECKPOINT_DIR": directory,
        },
        secret=frozenset(secret),
        checkpoint_dir=directory,
        restart=values.restart,
        max_restarts=values.max_restarts,
        start_timeout=values.start_timeout,
        stop_grace=values.stop_grace,
        ready=values.ready,
        end_wait=values.end.wait,
        python=python,
        link=(link, linked) if link else None,
        data=fetches.artifact if fetches else None,
        box=_box(cluster, task, role, boxed) if boxed else None,
    )


def _around(role: RoleSettings, boxed: RoleImage) -> dict[str, Any]:
    """Return what a container has besides its program; what is not set is left out, so a new default restarts nothing."""
    values = role.values
    stated = {
        "memory": values.memory,
        "cpus": values.cpus,
        "gpus": values.gpus or None,
        "pids": values.pids,
        "user": None if values.user is None else str(values.user),
        "read_only": values.read_only or None,
        "mounts": [mount.model_dump() for mount in values.mounts] or None,
        "bind": boxed.address,
    }
    return {"image": boxed.label, **{key: value for key, value in stated.items() if value is not None}}


def _box(cluster: Cluster, task: Task, role: RoleSettings, boxed: RoleImage) -> Box:
    values = role.values
    return Box(
        image=boxed.reference,
        code=boxed.code,
        has_code=values.code is not None,
        # An evaluator and a tensorboard work on the chief's files; what the evaluator finds out, it writes beside them.
        files_of=cluster.chief.name if task.reads else None,
        only_reads=task.role == "tensorboard",
        address=boxed.address,
        memory=parse_size(values.memory) if values.memory else None,
        cpus=float(values.cpus) if values.cpus else None,
        gpus=-1 if values.gpus == "all" else values.gpus,
        pids=values.pids,
        user=None if values.user is None else str(values.user),
        read_only=values.read_only,
        data_at=values.data.to if values.data and dataset_of(role) else None,
        mounts=(*data_mounts(role), *(Mount(mount.source, mount.target, mount.read_only) for mount in values.mounts)),
    )


def _late(cluster: Cluster, task: Task, role: RoleSettings, directory: str, data: str | None) -> dict[str, Any]:
    """Return `command`, `flags` and `env`, rendered with what only the task knows, and which names in `env` are secret."""
    faults = Faults()
    cluster_values = task_args.cluster_variables(cluster, task)
    variables = add_task_variables(
        role.variables, cluster.name, task.name, directory, data, cluster_values=cluster_values
    )
    rendered = render_task_settings(role.node, variables, faults)
    if faults.problems:
        raise InvalidInput(faults.problems)
    values: dict[str, Any] = plain(rendered)
    found = {"command": None, "flags": {}, "env": {}} | values
    return found | {"secret": {name for name in found["env"] if _is_secret(find(rendered, ["env", name])[0])}}


def _is_secret(node: Node) -> bool:
    return isinstance(node, Scalar) and node.secret


def _repeated(
    role: RoleSettings, command: Sequence[str], flags: Mapping[str, str | None], secrets: Mapping[str, str]
) -> Iterator[Problem]:
    """Yield a problem for each argument in which the value of a secret variable is written out."""
    words: list[tuple[str, str | int, str]] = [("command", number, word) for number, word in enumerate(command)]
    words += [("flags", name, value or "") for name, value in flags.items()]
    for setting, key, word in words:
        for name, value in secrets.items():
            if len(value) >= _SHORTEST and value in word:
                where = f"{setting}.{key}" if setting == "flags" else setting
                what = (
                    f"`{where}` has the value of the secret `env.{name}`, and others on the host can read command lines"
                )
                yield Problem(find(role.node, [setting, key])[1], what, "have the program read the variable")


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

"""Turns tasks into desired containers, to be compared with the observed ones."""

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfprov.errors import InvalidInput, Problem
from tfprov.model.cluster import Cluster, Task
from tfprov.model.state import Container, DockerOptions
from tfprov.model.validators import parse_size
from tfprov.model.yaml_node import Node, Scalar, find, plain
from tfprov.planning import task_args
from tfprov.settings.resolve import RoleSettings
from tfprov.settings.role_settings import (
    DatasetPath,
    data_dir,
    data_mounts,
    data_spec,
    dataset_of,
    python_path,
    setting_mounts,
)
from tfprov.templating.host_values import TemplateProblems
from tfprov.templating.magic_vars import add_task_variables, render_task_settings
from tfprov.vault.redaction import KeyedHash, is_secret_name

_MIN_SECRET = 8
"""Minimum characters of a secret to search for in command lines: shorter ones may be ordinary words."""

RoleHost = tuple[str, str]
"""A role and a host."""


@dataclass(frozen=True)
class RoleImage:
    """The image of a role on a host: its name there (`reference`), and a `label` that says what it is made from.

    Ports are published on `address`; `code` is the digest of code that is not in the image.
    """

    reference: str
    label: str
    address: str
    code: str | None = None


def _placeholder(_host: str, key: str) -> str:
    return f"/data/{key}"


def desired_containers(  # noqa: PLR0913  all inputs of a cluster
    cluster: Cluster,
    roles: Sequence[RoleSettings],
    code: Mapping[RoleHost, str],
    checkpoint_dir: Callable[[Task], str],
    images: Mapping[RoleHost, RoleImage] | None = None,
    *,
    hashed: KeyedHash,
    fetched: DatasetPath = _placeholder,
) -> tuple[Container, ...]:
    """Return the container of every task.

    `code` has the digests of the code, and `images` the images under the docker runtime, by role and host.
    `checkpoint_dir` returns the checkpoint directory of a task, which depends on the runtime, and `fetched` the directory
    of fetched data for processes. `hashed` hashes secret values for specs. InvalidInput carries the templates that fail
    for some task.
    """
    settings = {(role.role, role.host): role for role in roles}
    problems: list[Problem] = []
    containers = []
    for task in cluster.tasks:
        role_host = task.role, task.host
        role, image = settings[role_host], (images or {}).get(role_host)
        try:
            directory = checkpoint_dir(task)
            data = data_dir(role, None if image else fetched)
            # Other containers cannot reach the chief's volume, unless they share it; processes share a file system.
            linked = directory if image else checkpoint_dir(cluster.chief)
            container = _container(
                cluster,
                task,
                role,
                code=code.get(role_host),
                directory=directory,
                linked=linked,
                data=data,
                image=image,
                hashed=hashed,
            )
            containers.append(container)
        except InvalidInput as error:
            problems.extend(error.problems)
    if problems:
        raise InvalidInput(problems)
    return tuple(containers)


def _container(  # noqa: PLR0913  all inputs of a task
    cluster: Cluster,
    task: Task,
    role: RoleSettings,
    *,
    code: str | None,
    directory: str,
    linked: str,
    data: str | None,
    image: RoleImage | None,
    hashed: KeyedHash,
) -> Container:
    values, fetches = role.values, dataset_of(role)
    link = values.checkpoints.link and posixpath.normpath(values.checkpoints.link.strip())
    remote = values.checkpoints.remote if task == cluster.chief else None
    python = None if image else python_path(role)
    rendered = _render(cluster, task, role, directory, data)
    listen_on = "0.0.0.0" if image else task.address  # noqa: S104  in a container; the host publishes on one address
    own_command = [str(word) for word in rendered["command"] or ()]
    command = own_command or task_args.default_command(cluster, task, role, directory, listen_on)
    flags, env = _flags(role, rendered["flags"]), {name: _text(value) for name, value in rendered["env"].items()}
    secret = rendered["secret"] | {name for name in env if is_secret_name(name) and name not in values.public_env}
    if problems := list(_exposed_secrets(role, own_command, flags, {name: env[name] for name in sorted(secret)})):
        raise InvalidInput(problems)
    return Container(
        task=task,
        spec={
            "runtime": values.runtime,
            "code": code,
            "command": command,
            "flags": flags,
            # Others can read labels and records of runs.
            "env": {
                name: hashed.of(cluster.name, name, value) if name in secret else value for name, value in env.items()
            },
            "wiring": task_args.wiring_spec(cluster, task, role),
            "endpoint": task.endpoint,
            **({"python": python} if python else {}),
            **({"link": link} if link else {}),
            **({"mirror": remote} if remote else {}),
            **({"data": data_spec(role, in_container=image is not None)} if role.reads_data else {}),
            **({"reads": cluster.chief.name} if image and task.is_web else {}),
            **(_docker_spec(role, image) if image else {}),
        },
        argv=(
            *(task_args.mirror_command(command, in_container=image is not None) if remote else ()),
            *command,
            *task_args.wiring_flags(cluster, task, role),
            *(f"--{name}" if value is None else f"--{name}={value}" for name, value in flags.items()),
        ),
        env={
            **env,
            **task_args.environment(cluster, task, role, data),
            "TFPROV_CHECKPOINT_DIR": directory,
            **({task_args.CHECKPOINT_URL: remote} if remote else {}),
        },
        secret=frozenset(secret),
        checkpoint_dir=directory,
        restart=values.restart,
        max_restarts=values.max_restarts,
        restart_on=tuple(values.restart_on),
        no_restart_on=tuple(values.no_restart_on),
        start_timeout=values.start_timeout,
        stop_grace=values.stop_grace,
        ready=values.ready,
        end_wait=values.end.wait,
        python=python,
        link=(link, linked) if link else None,
        data=fetches.artifact if fetches else None,
        docker=_box(cluster, task, role, image) if image else None,
        remote=remote,
    )


def _docker_spec(role: RoleSettings, image: RoleImage) -> dict[str, Any]:
    """Return the Docker options in the spec; unset ones are left out, so that a new default restarts nothing."""
    values = role.values
    options = {
        "memory": values.memory,
        "cpus": values.cpus,
        "gpus": values.gpus or None,
        "pids": values.pids,
        "user": None if values.user is None else str(values.user),
        "read_only": values.read_only or None,
        "mounts": [mount.model_dump(exclude_none=True) for mount in values.mounts] or None,
        "bind": image.address,
    }
    return {"image": image.label, **{key: value for key, value in options.items() if value is not None}}


def _box(cluster: Cluster, task: Task, role: RoleSettings, image: RoleImage) -> DockerOptions:
    values = role.values
    return DockerOptions(
        image=image.reference,
        code=image.code,
        has_code=values.code is not None,
        # Readers mount the chief's checkpoints; an evaluator writes its results beside them.
        files_of=cluster.chief.name if task.reads else None,
        only_reads=task.is_web,
        address=image.address,
        memory=parse_size(values.memory) if values.memory else None,
        cpus=float(values.cpus) if values.cpus else None,
        gpus=-1 if values.gpus == "all" else values.gpus,
        pids=values.pids,
        user=None if values.user is None else str(values.user),
        read_only=values.read_only,
        data_at=values.data.to if values.data and dataset_of(role) else None,
        mounts=(*data_mounts(role), *setting_mounts(role)),
    )


def _render(cluster: Cluster, task: Task, role: RoleSettings, directory: str, data: str | None) -> dict[str, Any]:
    """Return `command`, `flags` and `env`, rendered for the task, and the `secret` names in `env`."""
    faults = TemplateProblems()
    cluster_values = task_args.cluster_variables(cluster, task)
    variables = add_task_variables(
        role.variables, cluster.name, task.name, directory, data, cluster_values=cluster_values
    )
    rendered = render_task_settings(role.node, variables, faults)
    if faults.problems:
        raise InvalidInput(faults.problems)
    values: dict[str, Any] = plain(rendered)
    settings = {"command": None, "flags": {}, "env": {}} | values
    return settings | {"secret": {name for name in settings["env"] if _is_secret(find(rendered, ["env", name])[0])}}


def _is_secret(node: Node) -> bool:
    return isinstance(node, Scalar) and node.secret


def _exposed_secrets(
    role: RoleSettings, command: Sequence[str], flags: Mapping[str, str | None], secrets: Mapping[str, str]
) -> Iterator[Problem]:
    """Yield a problem for each argument that contains the value of a secret variable."""
    words: list[tuple[str, str | int, str]] = [("command", number, word) for number, word in enumerate(command)]
    words += [("flags", name, value or "") for name, value in flags.items()]
    for setting, key, word in words:
        for name, value in secrets.items():
            if len(value) >= _MIN_SECRET and value in word:
                path = f"{setting}.{key}" if setting == "flags" else setting
                what = (
                    f"`{path}` has the value of the secret `env.{name}`, and others on the host can read command lines"
                )
                yield Problem(find(role.node, [setting, key])[1], what, "have the program read the variable")


def _flags(role: RoleSettings, flags: Mapping[str, Any]) -> dict[str, str | None]:
    """Return flags as text. An unquoted number keeps its spelling: `0.10` stays `0.10`."""
    texts: dict[str, str | None] = {}
    for name, value in flags.items():
        node, _ = find(role.node, ["flags", name])
        is_number = isinstance(node, Scalar) and not node.quoted and isinstance(value, int | float)
        spelling = node.text if is_number and not isinstance(value, bool) else ""  # type: ignore[union-attr]
        texts[name] = None if value is None else spelling or _text(value)
    return texts


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

"""Turns tasks into desired containers, to be compared with the observed ones."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfprov.errors import InvalidInput, Problem
from tfprov.model.cluster import Cluster, Task
from tfprov.model.state import Container, DockerOptions
from tfprov.model.validators import parse_size
from tfprov.planning import task_args
from tfprov.planning.task_program import RoleImage, TaskInputs, TaskProgram, render_program
from tfprov.settings.resolve import RoleSettings
from tfprov.settings.role_settings import (
    DatasetPath,
    data_dir,
    data_mounts,
    data_spec,
    dataset_of,
    setting_mounts,
)
from tfprov.vault.redaction import KeyedHash

RoleHost = tuple[str, str]
"""A role and a host."""


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
            # Other containers cannot reach the chief's volume, unless they share it; processes share a file system.
            linked = directory if image else checkpoint_dir(cluster.chief)
            data = data_dir(role, None if image else fetched)
            inputs = TaskInputs(cluster, task, role, code.get(role_host), image, directory, linked, data)
            containers.append(_container(inputs, hashed))
        except InvalidInput as error:
            problems.extend(error.problems)
    if problems:
        raise InvalidInput(problems)
    return tuple(containers)


def _container(of: TaskInputs, hashed: KeyedHash) -> Container:
    """Return a task's container. Raises InvalidInput for templates that fail, and for secrets in the command line."""
    values, program = of.role.values, render_program(of)
    fetches = dataset_of(of.role)
    return Container(
        task=of.task,
        spec=_spec(of, program, hashed),
        argv=_argv(of, program),
        env=_environment(of, program),
        secret=program.secret,
        checkpoint_dir=of.directory,
        restart=values.restart,
        max_restarts=values.max_restarts,
        restart_on=tuple(values.restart_on),
        no_restart_on=tuple(values.no_restart_on),
        start_timeout=values.start_timeout,
        stop_grace=values.stop_grace,
        ready=values.ready,
        end_wait=values.end.wait,
        python=of.python,
        link=(of.link, of.linked) if of.link else None,
        data=fetches.artifact if fetches else None,
        docker=_box(of.cluster, of.task, of.role, of.image) if of.image else None,
        remote=of.remote,
    )


def _spec(of: TaskInputs, program: TaskProgram, hashed: KeyedHash) -> dict[str, Any]:
    """Return what a container is compared by: a change of it restarts the task. Unset options are left out."""

    def shown(name: str, value: str) -> str:
        # Others can read labels and records of runs.
        return hashed.of(of.cluster.name, name, value) if name in program.secret else value

    role, in_container = of.role, of.image is not None
    return {
        "runtime": role.values.runtime,
        "code": of.code,
        "command": program.command,
        "flags": program.flags,
        "env": {name: shown(name, value) for name, value in program.env.items()},
        "wiring": task_args.wiring_spec(of.cluster, of.task, role),
        "endpoint": of.task.endpoint,
        **({"python": of.python} if of.python else {}),
        **({"link": of.link} if of.link else {}),
        **({"mirror": of.remote} if of.remote else {}),
        **({"data": data_spec(role, in_container=in_container)} if role.reads_data else {}),
        **(_restart_spec(role) if in_container else {}),
        **({"reads": of.cluster.chief.name} if in_container and of.task.is_web else {}),
        **(_docker_spec(role, of.image) if of.image else {}),
    }


def _restart_spec(role: RoleSettings) -> dict[str, Any]:
    """Return the exit codes in a container's command line, which change with a restart only."""
    codes = {"only": role.values.restart_on, "never": role.values.no_restart_on}
    return {"restart_codes": codes} if any(codes.values()) else {}


def _argv(of: TaskInputs, program: TaskProgram) -> tuple[str, ...]:
    """Return the command line: first that of the gate for restarts and of the mirror, which start the program."""
    values = of.role.values
    gate = task_args.gate_command(program.command, values.restart_on, values.no_restart_on) if of.image else ()
    mirror = task_args.mirror_command(program.command, in_container=of.image is not None) if of.remote else ()
    flags = (f"--{name}" if value is None else f"--{name}={value}" for name, value in program.flags.items())
    return *gate, *mirror, *program.command, *task_args.wiring_flags(of.cluster, of.task, of.role), *flags


def _environment(of: TaskInputs, program: TaskProgram) -> dict[str, str]:
    return {
        **program.env,
        **task_args.environment(of.cluster, of.task, of.role, of.data),
        "TFPROV_CHECKPOINT_DIR": of.directory,
        **({task_args.CHECKPOINT_URL: of.remote} if of.remote else {}),
    }


def _docker_spec(role: RoleSettings, image: RoleImage) -> dict[str, Any]:
    """Return the Docker options in the spec; unset ones are left out, so that a new default restarts nothing."""
    values = role.values
    options = {
        "memory": values.memory,
        "shm_size": values.shm_size,
        "cpus": values.cpus,
        "gpus": values.gpus or None,
        "devices": list(values.devices) or None,
        "pids": values.pids,
        "ulimits": dict(values.ulimits) or None,
        "user": None if values.user is None else str(values.user),
        "read_only": values.read_only or None,
        "mounts": [mount.model_dump(exclude_none=True) for mount in values.mounts] or None,
        "network": None if values.network == "bridge" else values.network,
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
        shm_size=parse_size(values.shm_size) if values.shm_size else None,
        cpus=float(values.cpus) if values.cpus else None,
        gpus=-1 if values.gpus == "all" else values.gpus,
        devices=tuple(values.devices),
        pids=values.pids,
        ulimits=values.ulimits,
        user=None if values.user is None else str(values.user),
        read_only=values.read_only,
        network=values.network,
        data_at=values.data.to if values.data and dataset_of(role) else None,
        mounts=(*data_mounts(role), *setting_mounts(role)),
    )

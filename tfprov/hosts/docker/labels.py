"""Names, labels and configuration of tfprov's containers. Labels are the only state."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from tfprov.hosts.docker import secret_files
from tfprov.hosts.docker.engine_api.sdk import docker
from tfprov.hosts.process.spec import RUN as RUN_VARIABLE
from tfprov.model.field_types import parse_uid
from tfprov.model.state import Container, DockerOptions, Mount, dataset_key

CLUSTER, TASK, HOST = "tfprov.cluster", "tfprov.task", "tfprov.host"
SPEC, RUN, DIRECTORY = "tfprov.spec", "tfprov.run", "tfprov.checkpoints"

PORT = "tfprov.port"
"""The port of a container in its host's network, where the engine lists none."""

DELIVERED = "tfprov.delivered"
"""Name and id of a container's image: `tfprov/linear:3f2a…@sha256:…`."""

DATA = "tfprov.data"
"""The key of fetched data, on its volumes and containers."""

STOPPED = "-stopped"
"""Suffix of the name of a container that tfprov stopped: the engine does not record who did, and labels cannot change."""

CHECKPOINTS = "-checkpoints"
"""Suffix of the name of the volume of a task's checkpoints."""

CODE = "/code"
"""The directory of the code in a container."""

HOST_NETWORK = "host"
"""The engine's name for the network of its host."""

TEMPORARY = "/tmp"  # noqa: S108  of the container
"""The writable directory of a read-only container."""

_KEY = 12
"""Hex digits that tell two volumes of a task apart."""
_LOG_OPTIONS = {"max-size": "10m", "max-file": "2"}
"""The same limits as the process runtime's."""


def container_name(cluster: str, task: str) -> str:
    """Return the name of a task's container: `tfprov-linear-worker-0`."""
    return f"tfprov-{cluster}-{task.replace('/', '-')}"


def volume_name(cluster: str, task: str) -> str:
    """Return the name of the volume of a task's checkpoints, which outlives the container."""
    return f"{container_name(cluster, task)}{CHECKPOINTS}"


def data_volume_name(cluster: str, key: str) -> str:
    """Return the name of the volume of data set `key`, shared by all tasks of a host."""
    return f"tfprov-{cluster}-data-{key}"


def container_labels(container: Container, cluster: str, run: str) -> dict[str, str]:
    """Return the labels that identify a container of tfprov and hold its state."""
    task = container.task
    spec = json.dumps(container.spec, sort_keys=True)
    details = {SPEC: spec, RUN: run, DIRECTORY: container.checkpoint_dir}
    if container.docker is not None and container.docker.network == HOST_NETWORK and task.serves:
        details[PORT] = str(task.port)
    return {CLUSTER: cluster, TASK: task.name, HOST: task.host, **details}


def home_variable(options: DockerOptions) -> dict[str, str]:
    """Return HOME for a container whose user has no home directory or cannot write to it."""
    return {"HOME": TEMPORARY} if options.read_only or parse_uid(options.user) else {}


def container_config(  # noqa: PLR0913, PLR0917  all aspects of a container
    api: "docker.APIClient",
    container: Container,
    options: DockerOptions,
    cluster: str,
    run: str,
    image_id: str,
    entry: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the SDK's arguments for creating `container`, from the image's id, as a tag can be moved.

    `entry` is the entry point that exports its secrets.
    """
    task = container.task
    public = {name: value for name, value in container.env.items() if name not in container.secret}
    ports = [task.port] if task.serves and options.network != HOST_NETWORK else []
    return {
        "image": image_id,
        "command": list(container.argv),
        "entrypoint": list(entry),  # the image's entry point would get the program as arguments
        "environment": {"PYTHONUNBUFFERED": "1", **home_variable(options), **public, RUN_VARIABLE: run},
        **({"user": options.user} if options.user else {}),
        "name": container_name(cluster, task.name),
        "hostname": task.name.replace("/", "-"),
        "labels": {**container_labels(container, cluster, run), DELIVERED: f"{options.image}@{image_id}"},
        "stop_timeout": container.stop_grace,
        **({"working_dir": CODE} if options.code else {}),
        "ports": ports,
        "host_config": _host_config(api, container, options, cluster, ports),
    }


def _host_config(
    api: "docker.APIClient", container: Container, options: DockerOptions, cluster: str, ports: Sequence[int]
) -> dict[str, Any]:
    task = container.task
    policy: dict[str, str | int] = {"Name": "no"}
    if container.restart == "on-failure":
        policy = {"Name": "on-failure", "MaximumRetryCount": container.max_restarts}
    volume = volume_name(cluster, options.files_of or task.name)
    mounts = [docker.types.Mount(container.checkpoint_dir, volume, type="volume", read_only=options.only_reads)]
    if container.data and options.data_at:
        data = data_volume_name(cluster, dataset_key(container.data))
        mounts.append(docker.types.Mount(options.data_at, data, type="volume", read_only=True, no_copy=True))
    if options.read_only and options.has_code:
        # The engine copies the image's code into this anonymous volume, which is removed with the container.
        mounts.append(docker.types.Mount(CODE, None, type="volume"))
    mounts += [_mount(mount, cluster, task.name) for mount in options.mounts]
    config: dict[str, Any] = api.create_host_config(
        # On the cluster's address only: a TensorFlow port allows running code.
        port_bindings=dict.fromkeys(ports, (options.address, task.port)),
        network_mode=HOST_NETWORK if options.network == HOST_NETWORK else None,
        mounts=mounts,
        binds=[secret_files.bind_mount(container_name(cluster, task.name))] if container.secret else None,
        restart_policy=policy,
        init=True,  # a PID 1 that ignores SIGTERM would use up the grace period
        log_config=docker.types.LogConfig(type="json-file", config=_LOG_OPTIONS),
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        pids_limit=options.pids,
        ulimits=[docker.types.Ulimit(name=name, soft=limit, hard=limit) for name, limit in options.ulimits.items()],
        devices=[f"{path}:{path}:rwm" for path in options.devices],
        read_only=options.read_only,
        tmpfs={TEMPORARY: "rw,nosuid,nodev,mode=1777"} if options.read_only else None,
        mem_limit=options.memory,
        shm_size=options.shm_size,
        nano_cpus=int(options.cpus * 1e9) if options.cpus else None,
        device_requests=[docker.types.DeviceRequest(count=options.gpus, capabilities=[["gpu"]])]
        if options.gpus
        else None,
    )
    return config


def _mount(mount: Mount, cluster: str, task: str) -> "docker.types.Mount":
    if not mount.volume_options:
        return docker.types.Mount(mount.target, mount.source, type="bind", read_only=mount.read_only)
    # Options of a volume cannot change: others make another volume. `remove` finds all of a task by their labels.
    key = hashlib.sha256(json.dumps([mount.target, mount.volume_options]).encode()).hexdigest()[:_KEY]
    return docker.types.Mount(
        mount.target,
        f"{container_name(cluster, task)}-mount-{key}",
        type="volume",
        read_only=mount.read_only,
        no_copy=True,
        labels={CLUSTER: cluster, TASK: task},
        driver_config=docker.types.DriverConfig("local", dict(mount.volume_options)),
    )

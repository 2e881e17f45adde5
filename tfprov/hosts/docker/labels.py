"""What a container of ours is called and labelled, and how it is made: labels are the only state there is."""

import json
from collections.abc import Sequence
from typing import Any

import docker

from tfprov.hosts.docker import secret_files
from tfprov.hosts.process.spec import RUN as RUN_VARIABLE
from tfprov.model.field_types import parse_uid
from tfprov.model.state import Box, Container, dataset_key

CLUSTER, TASK, HOST = "tfprov.cluster", "tfprov.task", "tfprov.host"
SPEC, RUN, DIRECTORY = "tfprov.spec", "tfprov.run", "tfprov.checkpoints"

DELIVERED = "tfprov.delivered"
"""The name and the id of the image that a container is made from: `tfprov/linear:3f2a…@sha256:…`."""

DATA = "tfprov.data"
"""On what belongs to fetched data: its key."""

STOPPED = "-stopped"
"""Ends the name of a container that tfprov stopped: the engine keeps no trace of who ended a task, and labels are fixed."""

CODE = "/code"
"""Where the code of a container lies, be it in its image or put there."""

TEMPORARY = "/tmp"  # noqa: S108  of the container
"""Where a container without a writable file system may write."""

_LOG = {"max-size": "10m", "max-file": "2"}
"""As much as the process runtime keeps."""


def container_name(cluster: str, task: str) -> str:
    """Return the name of a task's container: `tfprov-linear-worker-0`."""
    return f"tfprov-{cluster}-{task.replace('/', '-')}"


def volume_name(cluster: str, task: str) -> str:
    """Return the name of the volume with the task's checkpoints; it outlives the container."""
    return f"{container_name(cluster, task)}-checkpoints"


def data_name(cluster: str, key: str) -> str:
    """Return the name of the volume with the data set with `key`, which all tasks of a host share."""
    return f"tfprov-{cluster}-data-{key}"


def labels(container: Container, cluster: str, run: str) -> dict[str, str]:
    """Return the labels that make a container ours, and from which it is read back."""
    task = container.task
    spec = json.dumps(container.spec, sort_keys=True)
    told = {SPEC: spec, RUN: run, DIRECTORY: container.checkpoint_dir}
    return {CLUSTER: cluster, TASK: task.name, HOST: task.host, **told}


def home(box: Box) -> dict[str, str]:
    """Return where the user of a container may write, for one who has no directory of their own or cannot write there."""
    return {"HOME": TEMPORARY} if box.read_only or parse_uid(box.user) else {}


def creation(  # noqa: PLR0913, PLR0917  one container, seen from all sides
    api: docker.APIClient,
    container: Container,
    box: Box,
    cluster: str,
    run: str,
    image_id: str,
    entry: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the arguments with which the SDK creates `container`, by the id of its image: a tag can be moved.

    `entry` exports its secrets before its command runs.
    """
    task = container.task
    public = {name: value for name, value in container.env.items() if name not in container.secret}
    ports = [task.port] if task.serves else []
    return {
        "image": image_id,
        "command": list(container.argv),
        "entrypoint": list(entry),  # an image's own entry point would get the program as its arguments
        "environment": {"PYTHONUNBUFFERED": "1", **home(box), **public, RUN_VARIABLE: run},
        **({"user": box.user} if box.user else {}),
        "name": container_name(cluster, task.name),
        "hostname": task.name.replace("/", "-"),
        "labels": {**labels(container, cluster, run), DELIVERED: f"{box.image}@{image_id}"},
        "stop_timeout": container.stop_grace,
        **({"working_dir": CODE} if box.code else {}),
        "ports": ports,
        "host_config": _host_config(api, container, box, cluster),
    }


def _host_config(api: docker.APIClient, container: Container, box: Box, cluster: str) -> dict[str, Any]:
    task = container.task
    policy: dict[str, str | int] = {"Name": "no"}
    if container.restart == "on-failure":
        policy = {"Name": "on-failure", "MaximumRetryCount": container.max_restarts}
    volume = volume_name(cluster, box.files_of or task.name)
    mounts = [docker.types.Mount(container.checkpoint_dir, volume, type="volume", read_only=box.only_reads)]
    if container.data and box.data_at:
        data = data_name(cluster, dataset_key(container.data))
        mounts.append(docker.types.Mount(box.data_at, data, type="volume", read_only=True, no_copy=True))
    if box.read_only and box.has_code:
        # The engine copies what the image has there into a volume without a name, which goes with the container.
        mounts.append(docker.types.Mount(CODE, None, type="volume"))
    mounts += [docker.types.Mount(m.target, m.source, type="bind", read_only=m.read_only) for m in box.mounts]
    made: dict[str, Any] = api.create_host_config(
        # On the address of the cluster only: whoever reaches a TensorFlow port can run code.
        port_bindings={task.port: (box.address, task.port)} if task.serves else {},
        mounts=mounts,
        binds=[secret_files.bind(container_name(cluster, task.name))] if container.secret else None,
        restart_policy=policy,
        init=True,  # PID 1 that ignores SIGTERM would cost the whole grace
        log_config=docker.types.LogConfig(type="json-file", config=_LOG),
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        pids_limit=box.pids,
        read_only=box.read_only,
        tmpfs={TEMPORARY: "rw,nosuid,nodev,mode=1777"} if box.read_only else None,
        mem_limit=box.memory,
        nano_cpus=int(box.cpus * 1e9) if box.cpus else None,
        device_requests=[docker.types.DeviceRequest(count=box.gpus, capabilities=[["gpu"]])] if box.gpus else None,
    )
    return made

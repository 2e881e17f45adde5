"""What is looked at, and made, on an engine before a container of a task starts there."""

import posixpath
from collections.abc import Sequence
from typing import Any

import docker

from tfprov.errors import HostError, Unreachable
from tfprov.hosts import docker_archive, docker_files, docker_secrets
from tfprov.hosts.docker_images import Deliveries, is_delivered
from tfprov.hosts.docker_labels import CLUSTER, CODE, TASK, container_name, volume_name
from tfprov.hosts.docker_taken import foreign_name, foreign_volume, obstacles
from tfprov.hosts.engine_api import Engine
from tfprov.hosts.survey import present
from tfprov.hosts.system import Run, read_listeners
from tfprov.model.state import Container, not_delivered


def taken(engine: Engine, cluster: str, run: Run, starting: Sequence[Container]) -> list[HostError]:
    """Return an error for each thing of others that `starting` would run into. Raises HostError.

    Who listens besides containers is only known where the host itself runs commands.
    """
    with engine.errors():
        there = [present(one) for one in engine.api.containers(all=True)]
        volumes = engine.api.volumes(filters={"name": f"tfprov-{cluster}-"}).get("Volumes") or ()
    try:
        listeners = read_listeners(run)
    except Unreachable:
        raise
    except HostError:
        listeners = ()
    found = obstacles(cluster, starting, there, volumes, listeners)
    return [HostError(engine.host, what, fix) for what, fix in dict.fromkeys(found)]


def check_name(engine: Engine, cluster: str, name: str) -> None:
    """Raise HostError when a container has a name of ours and not our labels: it is somebody's, and not touched."""
    with engine.errors():
        same = engine.api.containers(all=True, filters={"name": f"^/{name}$"})
    for one in map(present, same):
        if one.cluster != cluster:
            raise HostError(engine.host, *foreign_name(one))


def image_id(engine: Engine, deliveries: Deliveries, reference: str) -> str:
    """Return the id of the image `reference`. HostError when it is not the one that was delivered."""
    with engine.errors():
        facts: dict[str, Any] = engine.api.inspect_image(reference)  # type: ignore[no-untyped-call]
    found = str(facts["Id"])
    if not is_delivered(deliveries, reference, found):
        raise HostError(engine.host, not_delivered(reference), "run this again, which delivers it")
    deliveries.note(reference, found)
    return found


def volume(engine: Engine, cluster: str, task: str) -> str:
    """Have the volume of a task's checkpoints there, and return its name; HostError when it is somebody else's."""
    name = volume_name(cluster, task)
    with engine.errors():  # one that was there before is returned as it is
        made = engine.api.create_volume(name, labels={CLUSTER: cluster, TASK: task})
    if (made.get("Labels") or {}).get(CLUSTER) != cluster:
        raise HostError(engine.host, *foreign_volume(name))
    return name


def secrets(engine: Engine, cluster: str, container: Container, image: str) -> list[str]:
    """Put the secrets of a container where it will find them; return its entry point, which exports them."""
    if not container.secret:
        return []
    values = {name: container.env[name] for name in sorted(container.secret)}
    with engine.errors():
        name, user = container_name(cluster, container.task.name), container.box.user if container.box else None
        return docker_secrets.place(engine, name, image, container.argv, values, user)


def writable(engine: Engine, container: Container, volume: str, image: str, made: str) -> None:
    """Make the checkpoint directory of the container `made` writable for any user; a fresh volume belongs to root.

    The engine puts nothing into a container whose file system is read-only but into its volumes, and cannot change those
    themselves there: for one of these, another container that is never started has the volume.
    """
    archive, directory = docker_archive.directory_for_all(container.checkpoint_dir), container.checkpoint_dir
    if container.box is None or not container.box.read_only:
        engine.api.put_archive(made, "/", archive)
        return
    mounts = [docker.types.Mount(directory, volume, type="volume")]
    config = engine.api.create_host_config(mounts=mounts, network_mode="none", cap_drop=["ALL"])
    helper: str = engine.api.create_container(image, entrypoint=[], command=["true"], host_config=config)["Id"]
    try:
        engine.api.put_archive(helper, "/", archive)
    finally:
        engine.api.remove_container(helper, force=True)


def put_code(engine: Engine, made: str, code: bytes, *, read_only: bool) -> None:
    """Put the archive `code`, with names below /code, into a container; under `read_only` into its volume there."""
    engine.api.put_archive(made, CODE if read_only else "/", docker_archive.below(code, CODE) if read_only else code)


def link(engine: Engine, container: str, name: str, target: str) -> None:
    """Make `name`, below the working directory of a container, lead to its directory `target`."""
    with engine.errors():
        facts = engine.api.inspect_container(container)
    path = posixpath.join(facts["Config"].get("WorkingDir") or "/", name)
    if docker_files.exists(engine, container, path):
        fix = "choose another name for `checkpoints.link`, or remove it from the image"
        raise HostError(engine.host, f"the image has {path} already", fix)
    with engine.errors():
        in_code = facts["HostConfig"].get("ReadonlyRootfs") and path.startswith(f"{CODE}/")
        root = CODE if in_code else "/"
        engine.api.put_archive(container, root, docker_archive.link(path.removeprefix(root), target))

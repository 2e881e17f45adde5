"""What is looked at, and made, on an engine before a container of a task starts there."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import docker

from tfprov.errors import HostError, Unreachable
from tfprov.hosts.docker import archive as docker_archive
from tfprov.hosts.docker import files as docker_files
from tfprov.hosts.docker import secret_files
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.image_contents import Deliveries, is_delivered
from tfprov.hosts.docker.labels import CLUSTER, CODE, TASK, container_name, volume_name
from tfprov.hosts.facts import Listener, Present, Run, owner_of, publisher, read_listeners
from tfprov.hosts.survey import present
from tfprov.model.state import Container, not_delivered

Obstacle = tuple[str, str]
"""What is in the way, with its owner where that is known; and the fix."""


def foreign_name(container: Present) -> Obstacle:
    """Say that a container that has the name of a task's is somebody else's."""
    what = f"the container {container.name} ({container.id[:12]}) is not ours"
    return what, "rename it, or choose another `cluster`"


def foreign_volume(name: str) -> Obstacle:
    """Say that a volume that has the name of a task's is somebody else's."""
    return f"the volume {name} is not ours", f"remove it (`docker volume rm {name}`), or choose another `cluster`"


def taken_port(port: int, task: str, owner: str) -> Obstacle:
    """Say who has the port of a task."""
    return f"port {port} for {task} is taken by {owner}", "stop it, or choose another `port`"


def obstacles(
    cluster: str,
    starting: Sequence[Container],
    present: Sequence[Present],
    volumes: Sequence[Mapping[str, Any]],
    listeners: Sequence[Listener],
) -> Iterator[Obstacle]:
    """Yield what of all that is on their host is in the way of `starting`: containers, `volumes` and `listeners`.

    What the cluster's own containers have is theirs: the plan stops them first where that is needed.
    """
    names = {one.name: one for one in present if one.cluster != cluster}
    foreign = {str(one["Name"]) for one in volumes if (one.get("Labels") or {}).get(CLUSTER) != cluster}
    running = [one for one in present if one.running]
    theirs = [one for one in running if one.cluster != cluster]
    ours = {port for one in running if one.cluster == cluster for _, port in one.published}
    for container in starting:
        task, box = container.task, container.box
        assert box is not None, "a container of the docker runtime has an image"
        if found := names.get(container_name(cluster, task.name)):
            yield foreign_name(found)
        volume = volume_name(cluster, box.files_of or task.name)
        if volume in foreign:
            yield foreign_volume(volume)
        if not task.serves:
            continue
        if holder := publisher(theirs, box.address, task.port):
            yield taken_port(task.port, task.name, f"the container {holder.name} ({holder.id[:12]})")
        elif task.port not in ours and (owner := owner_of(listeners, box.address, task.port)):
            yield taken_port(task.port, task.name, owner)


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
        return secret_files.place(engine, name, image, container.argv, values, user)


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

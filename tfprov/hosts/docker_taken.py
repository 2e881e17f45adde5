"""What of others on a host is in the way of containers that are about to start: names, volumes and ports. Pure.

tfprov makes no network of its own, so none can be in the way.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfprov.hosts.docker_labels import CLUSTER, container_name, volume_name
from tfprov.hosts.facts import Listener, Present, publisher
from tfprov.hosts.system import owner_of
from tfprov.model.state import Container

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

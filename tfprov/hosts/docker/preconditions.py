"""Check for conflicts on an engine, and create a task's volume and its container with secrets, before it starts.

What the engine refuses takes nothing away, and leaves nothing. Removes containers, and volumes that are left without one.
"""

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from tfprov.errors import HostError, Unreachable
from tfprov.hosts.collect_facts import container_summary
from tfprov.hosts.docker import secret_files
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_api.paths import VOLUME_USAGE, containers_path, volumes_path
from tfprov.hosts.docker.engine_api.sdk import docker
from tfprov.hosts.docker.exec import HELPER
from tfprov.hosts.docker.image_contents import Deliveries, is_delivered
from tfprov.hosts.docker.labels import CLUSTER, STOPPED, TASK, container_config, container_name, volume_name
from tfprov.hosts.facts import ContainerSummary, Listener, RunCommand, owner_of, publisher, read_listeners
from tfprov.model.state import Container, undelivered_image

Conflict = tuple[str, str]
"""The problem, naming the owner if known, and the fix."""
_CONFLICT = 409
_TRIES, _PAUSE = 20, 0.05
"""How often, and with how many seconds in between, an engine is asked to remove a volume that is in use."""
_MARK = "tfprov.created-by"
"""Label of a volume with a token of the start that created it."""


def foreign_container(container: ContainerSummary) -> Conflict:
    """Return the conflict with a foreign container that has the name of a task's."""
    problem = f"the container {container.name} ({container.id[:12]}) is not ours"
    return problem, "rename it, or choose another `cluster`"


def foreign_volume(name: str) -> Conflict:
    """Return the conflict with a foreign volume that has the name of a task's."""
    return f"the volume {name} is not ours", f"remove it (`docker volume rm {name}`), or choose another `cluster`"


def taken_port(port: int, task: str, owner: str, remedy: str = "stop it") -> Conflict:
    """Return the conflict with `owner`, which has the port of a task."""
    return f"port {port} for {task} is taken by {owner}", f"{remedy}, or choose another `port`"


def _publishing(holder: ContainerSummary) -> tuple[str, str]:
    """Return the words for a container that has a port, and how to free it: `docker rm` leaves checkpoints behind."""
    name = f"the container {holder.name} ({holder.id[:12]})"
    of_cluster = f"{name} of cluster {holder.cluster}", f"take down {holder.cluster} with `tfprov down`"
    return of_cluster if holder.cluster else (name, "stop it")


def find_conflicts(
    cluster: str,
    starting: Sequence[Container],
    containers: Sequence[ContainerSummary],
    volumes: Sequence[Mapping[str, Any]],
    listeners: Sequence[Listener],
) -> Iterator[Conflict]:
    """Yield the conflicts of `starting` with the containers, volumes and listeners of their host.

    The cluster's own containers are no conflict: the plan stops them first if needed.
    """
    names = {item.name: item for item in containers if item.cluster != cluster}
    foreign_volumes = {str(item["Name"]) for item in volumes if (item.get("Labels") or {}).get(CLUSTER) != cluster}
    running = [item for item in containers if item.running]
    foreign = [item for item in running if item.cluster != cluster]
    published = {port for item in running if item.cluster == cluster for _, port in item.published}
    for container in starting:
        task, options = container.task, container.docker
        assert options is not None, "a container of the docker runtime has an image"
        if match := names.get(container_name(cluster, task.name)):
            yield foreign_container(match)
        volume = volume_name(cluster, options.files_of or task.name)
        if volume in foreign_volumes:
            yield foreign_volume(volume)
        if not task.serves:
            continue
        if holder := publisher(foreign, options.address, task.port):
            yield taken_port(task.port, task.name, *_publishing(holder))
        elif task.port not in published and (owner := owner_of(listeners, options.address, task.port)):
            yield taken_port(task.port, task.name, owner)


def conflict_errors(engine: Engine, cluster: str, run: RunCommand, starting: Sequence[Container]) -> list[HostError]:
    """Return an error for each conflict of `starting` with something foreign on the host. Raises HostError.

    Listeners other than containers are known only if the host runs commands.
    """
    listed, answer = engine.ask(containers_path(), volumes_path(name=[f"tfprov-{cluster}-"]))
    containers, volumes = [container_summary(item) for item in listed], answer.get("Volumes") or ()
    listeners = _listeners(run)
    conflicts = list(find_conflicts(cluster, starting, containers, volumes, listeners))
    if conflicts and listeners:  # the owners are only looked up for a message
        conflicts = list(find_conflicts(cluster, starting, containers, volumes, _listeners(run, owners=True)))
    return [HostError(engine.host, problem, fix) for problem, fix in dict.fromkeys(conflicts)]


def _listeners(run: RunCommand, *, owners: bool = False) -> Sequence[Listener]:
    try:
        return read_listeners(run, owners=owners)
    except Unreachable:
        raise
    except HostError:
        return ()


def check_name(engine: Engine, cluster: str, name: str) -> None:
    """Raise HostError if a foreign container, one without tfprov's labels, has the name."""
    with engine.errors():
        same = engine.api.containers(all=True, filters={"name": f"^/{name}$"})
    for item in map(container_summary, same):
        if item.cluster != cluster:
            raise HostError(engine.host, *foreign_container(item))


def delivered_image_id(engine: Engine, deliveries: Deliveries, reference: str) -> str:
    """Return the id of the image `reference`. Raises HostError if it is not the delivered one."""
    with engine.errors():
        facts: dict[str, Any] = engine.api.inspect_image(reference)  # type: ignore[no-untyped-call]
    image_id = str(facts["Id"])
    if not is_delivered(deliveries, reference, image_id):
        raise HostError(engine.host, undelivered_image(reference), "run this again, which delivers it")
    deliveries.record(reference, image_id)
    return image_id


@contextmanager
def task_volume(engine: Engine, cluster: str, task: str) -> Iterator[str]:
    """Yield the name of the volume of a task's checkpoints, which is created unless it exists; translates errors.

    After an error, a new volume is removed, unless a container has it. Raises HostError for a foreign volume.
    """
    name, token = volume_name(cluster, task), secrets.token_hex(8)
    with engine.errors():  # returns an existing volume unchanged
        volume = engine.api.create_volume(name, labels={CLUSTER: cluster, TASK: task, _MARK: token})
    labels = volume.get("Labels") or {}
    if labels.get(CLUSTER) != cluster:
        raise HostError(engine.host, *foreign_volume(name))
    try:
        with engine.errors():
            yield name
    except BaseException:
        if labels.get(_MARK) == token:
            with suppress(HostError), engine.errors():
                engine.api.remove_volume(name)
        raise


def remove_containers(engine: Engine, cluster: str, task: str, facts: Mapping[str, Any], older: Sequence[str]) -> None:
    """Remove the container of a task, its `older` ones, and its secrets."""
    if secret_files.has_secrets(facts):
        secret_files.remove_secrets(engine, container_name(cluster, task), facts["Image"])
    for container in (*older, facts["Id"]):
        engine.api.remove_container(container, v=True)


def remove_volume(engine: Engine, name: str) -> None:
    """Remove a volume, and helper containers that a killed run has left with it; raises the SDK's errors."""
    try:
        engine.api.remove_volume(name)
    except docker.errors.APIError as error:
        if error.status_code != _CONFLICT:
            raise
        left = engine.api.containers(all=True, filters={"volume": name, "label": HELPER})
        ended = [one["Id"] for one in left if one.get("State") != "running"]
        for helper in ended:
            engine.api.remove_container(helper, force=True)
        _remove_released(engine, name, 1 if len(left) > len(ended) else _TRIES)


def _remove_released(engine: Engine, name: str, tries: int) -> None:
    """Remove a volume that its last container may not have released yet: the engine has taken that from its list before."""
    for left in reversed(range(tries)):
        try:
            engine.api.remove_volume(name)
        except docker.errors.APIError as error:
            if not left or error.status_code != _CONFLICT:
                raise
            time.sleep(_PAUSE)
        else:
            return


def remove_orphans(engine: Engine, cluster: str, *, discard: bool) -> None:
    """Remove volumes of tasks without a container. Raises HostError for those that may have checkpoints, unless `discard`.

    tfprov removes a container with its volumes; somebody else removed these, as with `docker rm` or `container prune`.
    """
    if not (orphans := _orphans(engine, cluster)):
        return
    with engine.errors():
        kept = [name for name, task in orphans.items() if _may_save(task) and not discard]
        empty = _empty_volumes(engine) if kept else frozenset()
        kept = [name for name in kept if name not in empty]
        for name in orphans.keys() - kept:
            remove_volume(engine, name)
    if kept:
        which = f"the volume {kept[0]} has" if len(kept) == 1 else f"the volumes {', '.join(kept)} have"
        what = f"{which} files of a task whose container somebody removed"
        raise HostError(engine.host, what, "`tfprov up` starts it with them; or remove them: `tfprov down --discard`")


def orphaned_volume(engine: Engine, cluster: str, task: str) -> str:
    """Return the name of the volume with files of a task whose container somebody removed; empty if there is none."""
    orphans = [name for name, of in _orphans(engine, cluster).items() if of == task]
    if not orphans:
        return ""
    return orphans[0] if orphans[0] not in _empty_volumes(engine) else ""


def _orphans(engine: Engine, cluster: str) -> dict[str, str]:
    """Return the task of each volume that no container has, by the name of the volume."""
    listed, answer = engine.ask(containers_path(), volumes_path(label=[f"{CLUSTER}={cluster}", TASK]))
    lasting = [item for item in listed if HELPER not in (item.get("Labels") or {})]
    mounted = {mount.get("Name") for item in lasting for mount in item.get("Mounts") or ()}
    volumes = answer.get("Volumes") or ()
    return {str(item["Name"]): str(item["Labels"][TASK]) for item in volumes if item["Name"] not in mounted}


def _empty_volumes(engine: Engine) -> frozenset[str]:
    """Return the names of the volumes that are known to be empty: later versions of the API list them in another way."""
    (usage,) = engine.ask(VOLUME_USAGE, newest="1.52")
    listed = usage.get("Volumes") or ()
    return frozenset(item["Name"] for item in listed if (item.get("UsageData") or {}).get("Size") == 0)


def _may_save(task: str) -> bool:
    """Whether a task may be one that saves checkpoints: a chief, or a ps with its shards."""
    return task == "worker/0" or task.partition("/")[0] in ("chief", "ps")


def create_container(  # noqa: PLR0913  what a container consists of
    engine: Engine,
    cluster: str,
    container: Container,
    run: str,
    image: str,
    *,
    previous: Mapping[str, Any] | None = None,
    older: Sequence[str] = (),
) -> str:
    """Create a container of the image with the id `image`, in the place of `previous` and of `older` ones; return its id.

    If the engine refuses it, `previous` stays: without a container, nothing knows of the task's checkpoints.
    """
    options = container.docker
    assert options is not None, "a container of the docker runtime has an image"
    entry = _place_secrets(engine, cluster, container, image)
    config = container_config(engine.api, container, options, cluster, run, image, entry)
    try:
        return _replace(engine.api, previous, older, config)
    except BaseException:
        if previous is None and container.secret:
            with suppress(HostError):
                secret_files.remove_secrets(engine, config["name"], image)
        raise


def _replace(
    api: "docker.APIClient", previous: Mapping[str, Any] | None, older: Sequence[str], config: Mapping[str, Any]
) -> str:
    for container in older:
        api.remove_container(container, v=True)
    name = config["name"]
    in_the_way = previous["Id"] if previous is not None and previous["Name"].lstrip("/") == name else None
    if in_the_way:
        api.rename(in_the_way, name + STOPPED)
    try:
        created: str = api.create_container(**config)["Id"]
    except BaseException:
        if in_the_way:
            with suppress(docker.errors.APIError):  # it stays under the other name
                api.rename(in_the_way, name)
        raise
    if previous is not None:
        api.remove_container(previous["Id"], v=True)  # v: with the anonymous code volume of a read-only one
    return created


def _place_secrets(engine: Engine, cluster: str, container: Container, image: str) -> list[str]:
    """Store the secrets of a container on the host; return its entry point, which exports them."""
    if not container.secret:
        return []
    values = {name: container.env[name] for name in sorted(container.secret)}
    with engine.errors():
        name, user = container_name(cluster, container.task.name), container.docker.user if container.docker else None
        return secret_files.put_secrets(engine, name, image, container.argv, values, user)

"""Asks a host with a Docker engine for everything that `check` judges. Nothing on the host is changed."""

from collections.abc import Collection, Mapping
from typing import Any

import docker

from tfprov.errors import HostError, Unreachable
from tfprov.hosts.docker_labels import CLUSTER, TASK
from tfprov.hosts.engine_api import Engine
from tfprov.hosts.facts import EngineFacts, HostFacts, Present
from tfprov.hosts.listener import CHECK
from tfprov.hosts.machine import Machine, Remote
from tfprov.hosts.system import read_clock, read_system

_IN_CONTAINERD = "io.containerd.snapshotter"
"""Begins the driver's type of an engine that keeps its images in containerd, which has a directory of its own."""
_CONTAINERD = "/var/lib/containerd"


def survey(machine: Machine, images: Collection[str]) -> HostFacts:
    """Return the facts of a host, and which of `images` it has; what it does not tell is None.

    HostError, or Unreachable, when it does not run commands as they are sent.
    """
    if isinstance(machine, Remote):
        machine.ssh.try_account()  # first of all, so that connecting does not count as the clock's way, either
    clock = read_clock(machine.run)
    engine, trouble = _asked(machine.engine, images)
    system = read_system(machine.run, engine.disk if engine else "")
    return HostFacts(machine.host, _way(machine), system, clock, engine, trouble)


def _way(machine: Machine) -> str:
    if not isinstance(machine, Remote):
        return "this machine itself"
    sudo = ", root by sudo" if machine.ssh.target.become else ""
    return f"SSH as {machine.ssh.user}{sudo}"


def _asked(engine: Engine, images: Collection[str]) -> tuple[EngineFacts | None, str]:
    try:
        return engine_facts(engine, images), ""
    except Unreachable:
        raise
    except HostError as error:
        return None, error.reason


def engine_facts(engine: Engine, images: Collection[str]) -> EngineFacts:
    """Return the facts of an engine, and the platform of those of `images` that it has. Raises HostError."""
    with engine.errors():
        info: dict[str, Any] = engine.api.info()
        version: dict[str, Any] = engine.api.version()
        containers = engine.api.containers(all=True)
    return EngineFacts(
        version=str(version.get("Version")),
        api=str(version.get("ApiVersion")),
        platform=f"{version.get('Os')}/{version.get('Arch')}",
        driver=str(info.get("Driver")),
        disk=_disk(info),
        memory=int(info.get("MemTotal") or 0),
        cpus=int(info.get("NCPU") or 0),
        rootless=any("rootless" in option for option in info.get("SecurityOptions") or ()),
        limits_memory=bool(info.get("MemoryLimit", True)),
        limits_cpus=bool(info.get("CpuCfsQuota", True)),
        gives_gpus="nvidia" in str((info.get("Runtimes"), info.get("DiscoveredDevices"))),
        images=images_there(engine, images),
        containers=tuple(map(present, containers)),
    )


def images_there(engine: Engine, images: Collection[str]) -> dict[str, str]:
    """Return the platform of each of `images` that an engine has. Raises HostError."""
    found = {name: _platform(engine, name) for name in images}
    return {name: platform for name, platform in found.items() if platform is not None}


def _platform(engine: Engine, image: str) -> str | None:
    with engine.errors():
        try:
            facts: dict[str, Any] = engine.api.inspect_image(image)  # type: ignore[no-untyped-call]
        except docker.errors.ImageNotFound:
            return None
    return f"{facts.get('Os')}/{facts.get('Architecture')}"


def _disk(info: Mapping[str, Any]) -> str:
    root = str(info.get("DockerRootDir") or "")
    is_systems = root == "/var/lib/docker"
    return _CONTAINERD if is_systems and _IN_CONTAINERD in str(info.get("DriverStatus")) else root


def present(listed: Mapping[str, Any]) -> Present:
    """Return a container as the engine's list describes it."""
    labels: Mapping[str, str] = listed.get("Labels") or {}
    published = [it for it in listed.get("Ports") or () if it.get("PublicPort")]
    ports = {(str(it.get("IP") or ""), int(it["PublicPort"])) for it in published}
    return Present(
        id=listed["Id"],
        name=str((listed.get("Names") or [listed["Id"][:12]])[0]).lstrip("/"),
        running=listed.get("State") == "running",
        cluster=labels.get(CLUSTER, ""),
        task=labels.get(TASK, ""),
        check=labels.get(CHECK, ""),
        published=tuple(sorted(ports)),
    )

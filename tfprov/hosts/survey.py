"""Asks a host with a Docker engine for everything that `check` judges. Nothing on the host is changed."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import docker

from tfprov.errors import HostError, Unreachable
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.image_contents import Deliveries, Unrecorded, is_delivered
from tfprov.hosts.docker.labels import CLUSTER, TASK
from tfprov.hosts.docker.reachability_probe import CHECK
from tfprov.hosts.facts import (
    EngineFacts,
    HostFacts,
    Present,
    read_clock,
    read_system,
)
from tfprov.hosts.machine import Machine, Remote

_IN_CONTAINERD = "io.containerd.snapshotter"
"""Begins the driver's type of an engine that keeps its images in containerd, which has a directory of its own."""
_CONTAINERD = "/var/lib/containerd"


_UNRECORDED = Unrecorded()


@dataclass
class Images:
    """Which of the wanted images an engine has. See EngineFacts for each."""

    images: dict[str, str] = field(default_factory=dict)
    image_ids: dict[str, str] = field(default_factory=dict)
    moved: frozenset[str] = frozenset()


def survey(machine: Machine, images: Collection[str], deliveries: Deliveries = _UNRECORDED) -> HostFacts:
    """Return the facts of a host, and which of `images` it has as delivered; what it does not tell is None.

    HostError, or Unreachable, when it does not run commands as they are sent.
    """
    if isinstance(machine, Remote):
        machine.ssh.try_account()  # first of all, so that connecting does not count as the clock's way, either
    clock = read_clock(machine.run)
    engine, trouble = _asked(machine.engine, images, deliveries)
    system = read_system(machine.run, engine.disk if engine else "")
    return HostFacts(machine.host, _way(machine), system, clock, engine, trouble)


def _way(machine: Machine) -> str:
    if not isinstance(machine, Remote):
        return "this machine itself"
    sudo = ", root by sudo" if machine.ssh.target.become else ""
    return f"SSH as {machine.ssh.user}{sudo}"


def _asked(engine: Engine, images: Collection[str], deliveries: Deliveries) -> tuple[EngineFacts | None, str]:
    try:
        return engine_facts(engine, images, deliveries), ""
    except Unreachable:
        raise
    except HostError as error:
        return None, error.reason


def engine_facts(engine: Engine, images: Collection[str], deliveries: Deliveries = _UNRECORDED) -> EngineFacts:
    """Return the facts of an engine, and of those of `images` that it has as delivered. Raises HostError."""
    with engine.errors():
        info: dict[str, Any] = engine.api.info()
        version: dict[str, Any] = engine.api.version()
        containers = engine.api.containers(all=True)
    there = images_there(engine, images, deliveries)
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
        images=there.images,
        image_ids=there.image_ids,
        moved=there.moved,
        containers=tuple(map(present, containers)),
    )


def images_there(engine: Engine, images: Collection[str], deliveries: Deliveries = _UNRECORDED) -> Images:
    """Return which of `images` an engine has, and which of these names stand for others. Raises HostError."""
    there = Images()
    for name in images:
        with engine.errors():
            try:
                facts: dict[str, Any] = engine.api.inspect_image(name)  # type: ignore[no-untyped-call]
            except docker.errors.ImageNotFound:
                continue
        if is_delivered(deliveries, name, str(facts["Id"])):
            there.images[name] = f"{facts.get('Os')}/{facts.get('Architecture')}"
            there.image_ids[name] = str(facts["Id"])
        else:
            there.moved |= {name}
    return there


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

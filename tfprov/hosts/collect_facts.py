"""Collect the facts of a host with a Docker engine for `check`, without changing anything."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from tfprov.errors import HostError, Unreachable
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_api.sdk import docker
from tfprov.hosts.docker.image_contents import Deliveries, NoDeliveries, image_directory, is_delivered
from tfprov.hosts.docker.labels import CLUSTER, PORT, TASK
from tfprov.hosts.docker.reachability_probe import CHECK
from tfprov.hosts.facts import (
    EVERYWHERE,
    ContainerSummary,
    EngineFacts,
    HostFacts,
    read_clock,
    read_system,
)
from tfprov.hosts.machine import Machine, SSHMachine

_PORT = re.compile(r"[0-9]{1,5}")

_NO_DELIVERIES = NoDeliveries()


@dataclass
class AvailableImages:
    """Which of the required images an engine has. See EngineFacts."""

    images: dict[str, str] = field(default_factory=dict)
    image_ids: dict[str, str] = field(default_factory=dict)
    moved: frozenset[str] = frozenset()


def survey(machine: Machine, images: Collection[str], deliveries: Deliveries = _NO_DELIVERIES) -> HostFacts:
    """Return the facts of a host, and which of `images` it has as delivered. Unknown facts are None.

    Raises HostError if the account does not run commands.
    """
    if isinstance(machine, SSHMachine):
        machine.ssh.check_account()  # first, so that connecting does not count into the round-trip time
    clock = read_clock(machine.run)
    engine, engine_error = _engine_facts_or_error(machine.engine, images, deliveries)
    system = read_system(machine.run, engine.disk if engine else "")
    return HostFacts(machine.host, _access(machine), system, clock, engine, engine_error)


def _access(machine: Machine) -> str:
    if not isinstance(machine, SSHMachine):
        return "this machine itself"
    sudo = ", root by sudo" if machine.ssh.target.become else ""
    return f"SSH as {machine.ssh.user}{sudo}"


def _engine_facts_or_error(
    engine: Engine, images: Collection[str], deliveries: Deliveries
) -> tuple[EngineFacts | None, str]:
    try:
        return engine_facts(engine, images, deliveries), ""
    except Unreachable:
        raise
    except HostError as error:
        return None, error.reason


def engine_facts(engine: Engine, images: Collection[str], deliveries: Deliveries = _NO_DELIVERIES) -> EngineFacts:
    """Return the facts of an engine, with those of `images` that it has as delivered. Raises HostError."""
    with engine.errors():
        info: dict[str, Any] = engine.api.info()
        version: dict[str, Any] = engine.api.version()
        containers = engine.api.containers(all=True)
    available = available_images(engine, images, deliveries)
    return EngineFacts(
        version=str(version.get("Version")),
        api=str(version.get("ApiVersion")),
        platform=f"{version.get('Os')}/{version.get('Arch')}",
        driver=str(info.get("Driver")),
        disk=image_directory(info),
        memory=int(info.get("MemTotal") or 0),
        cpus=int(info.get("NCPU") or 0),
        rootless=any("rootless" in option for option in info.get("SecurityOptions") or ()),
        limits_memory=bool(info.get("MemoryLimit", True)),
        limits_cpus=bool(info.get("CpuCfsQuota", True)),
        gives_gpus="nvidia" in str((info.get("Runtimes"), info.get("DiscoveredDevices"))),
        images=available.images,
        image_ids=available.image_ids,
        moved=available.moved,
        containers=tuple(map(container_summary, containers)),
    )


def available_images(
    engine: Engine, images: Collection[str], deliveries: Deliveries = _NO_DELIVERIES
) -> AvailableImages:
    """Return which of `images` an engine has, and which names refer to other images. Raises HostError."""
    available = AvailableImages()
    for name in images:
        with engine.errors():
            try:
                facts: dict[str, Any] = engine.api.inspect_image(name)  # type: ignore[no-untyped-call]
            except docker.errors.ImageNotFound:
                continue
        if is_delivered(deliveries, name, str(facts["Id"])):
            available.images[name] = f"{facts.get('Os')}/{facts.get('Architecture')}"
            available.image_ids[name] = str(facts["Id"])
        else:
            available.moved |= {name}
    return available


def container_summary(listed: Mapping[str, Any]) -> ContainerSummary:
    """Return the summary of a container from the engine's list."""
    labels: Mapping[str, str] = listed.get("Labels") or {}
    published = [port for port in listed.get("Ports") or () if port.get("PublicPort")]
    ports = {(str(port.get("IP") or ""), int(port["PublicPort"])) for port in published}
    ports |= {(EVERYWHERE, int(port)) for port in [labels.get(PORT, "")] if _PORT.fullmatch(port)}
    return ContainerSummary(
        id=listed["Id"],
        name=str((listed.get("Names") or [listed["Id"][:12]])[0]).lstrip("/"),
        running=listed.get("State") in ("running", "paused"),  # a paused one keeps its ports
        cluster=labels.get(CLUSTER, ""),
        task=labels.get(TASK, ""),
        check=labels.get(CHECK, ""),
        published=tuple(sorted(ports)),
    )

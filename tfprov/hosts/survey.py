"""Collect the facts of a host with a Docker engine for `check`, without changing anything."""

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import docker

from tfprov.errors import HostError, Unreachable
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.image_contents import Deliveries, NoDeliveries, is_delivered
from tfprov.hosts.docker.labels import CLUSTER, TASK
from tfprov.hosts.docker.reachability_probe import CHECK
from tfprov.hosts.facts import EVERYWHERE, ClockOffset, ContainerSummary, EngineFacts, HostFacts, Listener, System
from tfprov.hosts.machine import Machine, SSHMachine

RunCommand = Callable[[Sequence[str]], tuple[int, str]]
"""Runs a program on the host; returns its exit code and output."""

_FACTS_SCRIPT = r"""exec 2>/dev/null
LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
export LC_ALL PATH
echo @kind; uname -m
echo @flags; grep -m1 '^flags' /proc/cpuinfo
echo @addresses; ip -o -4 addr show || cat /proc/net/fib_trie
echo @free; [ -z "$1" ] || df -Pk -- "$1"
echo @memory; grep '^MemAvailable:' /proc/meminfo
echo @listeners; ss -ltnp || cat /proc/net/tcp /proc/net/tcp6
echo @gpus; ls -d /proc/driver/nvidia/gpus/*
echo @gpu_tools; command -v nvidia-container-runtime-hook || command -v nvidia-container-runtime
exit 0
"""
"""Every section may be empty: without `ip` or `ss` /proc is used, and other kernels have neither."""

_IP_ADDRESS = re.compile(r"\sinet (\d+\.\d+\.\d+\.\d+)/")
_TRIE_ADDRESS = re.compile(r"\|-- (\d+\.\d+\.\d+\.\d+)\s+/32 host LOCAL")
_DF_LINE = re.compile(r"\s\d+\s+-?\d+\s+(-?\d+)\s+\d+%\s")
_SS_LINE = re.compile(r"^LISTEN\s+\d+\s+\d+\s+(\S+):(\d+)\s+\S+(?:\s+users:\(\(\"([^\"]*)\",pid=(\d+))?", re.MULTILINE)
_PROC_LINE = re.compile(r"^\s*\d+: ([0-9A-F]{8}(?:[0-9A-F]{24})?):([0-9A-F]{4}) \S+ 0A ", re.MULTILINE)


def read_system(run: RunCommand, disk: str = "") -> System:
    """Return the facts of a machine; `disk` is the directory whose free space is measured. Raises the errors of `run`."""
    _, output = run(["sh", "-c", _FACTS_SCRIPT, "sh", disk])
    return parse_system(output)


def parse_system(output: str) -> System:
    """Parse the output of the script, which may be any text."""
    parts = dict(_parse_sections(output))
    free, memory = _DF_LINE.search(f"{parts.get('free', '')} "), re.search(r"(\d+) kB", parts.get("memory", ""))
    flags = parts.get("flags", "").partition(":")[2].split()
    return System(
        kind=parts.get("kind", "").strip(),
        flags=frozenset(flags) if flags else None,
        addresses=_parse_addresses(parts.get("addresses", "")),
        free=max(0, int(free[1])) * 1024 if free else None,
        memory=int(memory[1]) * 1024 if memory else None,
        listeners=parse_listeners(parts.get("listeners", "")),
        gpus=len(parts.get("gpus", "").split()) or None,
        gpu_tools=bool(parts.get("gpu_tools", "").strip()),
    )


def _parse_sections(output: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^@", output, flags=re.MULTILINE)[1:]:
        name, _, text = part.partition("\n")
        yield name, text


def _parse_addresses(text: str) -> tuple[str, ...] | None:
    matches = _IP_ADDRESS.findall(text) or _TRIE_ADDRESS.findall(text)
    return tuple(dict.fromkeys(matches)) or None


def parse_listeners(text: str) -> tuple[Listener, ...] | None:
    """Parse listeners from `ss -ltnp` or from /proc/net/tcp and tcp6; None for other text."""
    if "Local Address" in text:
        matches = (_parse_ss(*match.groups()) for match in _SS_LINE.finditer(text))
    elif "local_address" in text:
        matches = (_parse_proc(*match.groups()) for match in _PROC_LINE.finditer(text))
    else:
        return None
    return tuple(listener for listener in matches if ":" not in listener.address)


def _parse_ss(address: str, port: str, program: str | None, pid: str | None) -> Listener:
    stripped = address.partition("%")[0].strip("[]").removeprefix("::ffff:")
    owner = f"{program} (pid {pid})" if program else ""
    return Listener("*" if stripped == EVERYWHERE else stripped, int(port), owner)


def _parse_proc(address: str, port: str) -> Listener:
    """Parse a line of /proc/net/tcp: the words of an address are in the machine's byte order, assumed little-endian."""
    words = [bytes.fromhex(address[at : at + 8])[::-1] for at in range(0, len(address), 8)]
    packed = b"".join(words)
    if not any(packed):  # IPv6 wildcard sockets also accept IPv4 unless IPV6_V6ONLY is set
        return Listener("*", int(port, 16))
    is_mapped = len(packed) == 16 and packed[:12] == bytes(10) + b"\xff\xff"
    unmapped = packed[12:] if is_mapped else packed
    return Listener(".".join(map(str, unmapped)) if len(unmapped) == 4 else "::", int(port, 16))


def read_clock(run: RunCommand, now: Callable[[], float] = time.time) -> ClockOffset | None:
    """Measure a host's clock, assuming that its answer is half of the round-trip time old."""
    before = now()
    _, output = run(["date", "+%s.%N"])
    after = now()
    match = re.match(r"(\d+)(?:\.(\d+))?", output)
    if match is None:
        return None
    has_fraction = match[2] is not None  # some `date` commands have no fractions
    host_time = float(f"{match[1]}.{match[2]}") if has_fraction else int(match[1]) + 0.5
    return ClockOffset(host_time - (before + after) / 2, (after - before) / 2 + (0 if has_fraction else 0.5))


def read_listeners(run: RunCommand) -> tuple[Listener, ...]:
    """Return the listeners of a machine; empty if unknown."""
    _, output = run(["sh", "-c", "PATH=$PATH:/usr/sbin:/sbin; ss -ltnp 2>&- || cat /proc/net/tcp /proc/net/tcp6"])
    return parse_listeners(output) or ()


def owner_of(listeners: Sequence[Listener], address: str, port: int) -> str | None:
    """Return the program that listens at `address:port`, "another program" if unknown, None if there is none."""
    owners = [listener.owner for listener in listeners if listener.takes(address, port)]
    return next(filter(None, owners), "another program") if owners else None


_CONTAINERD_DRIVER = "io.containerd.snapshotter"
"""Driver type of an engine that stores images in containerd, which has its own directory."""
_CONTAINERD_ROOT = "/var/lib/containerd"


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
        disk=_image_directory(info),
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


def _image_directory(info: Mapping[str, Any]) -> str:
    root = str(info.get("DockerRootDir") or "")
    is_default = root == "/var/lib/docker"
    return _CONTAINERD_ROOT if is_default and _CONTAINERD_DRIVER in str(info.get("DriverStatus")) else root


def container_summary(listed: Mapping[str, Any]) -> ContainerSummary:
    """Return the summary of a container from the engine's list."""
    labels: Mapping[str, str] = listed.get("Labels") or {}
    published = [port for port in listed.get("Ports") or () if port.get("PublicPort")]
    ports = {(str(port.get("IP") or ""), int(port["PublicPort"])) for port in published}
    return ContainerSummary(
        id=listed["Id"],
        name=str((listed.get("Names") or [listed["Id"][:12]])[0]).lstrip("/"),
        running=listed.get("State") == "running",
        cluster=labels.get(CLUSTER, ""),
        task=labels.get(TASK, ""),
        check=labels.get(CHECK, ""),
        published=tuple(sorted(ports)),
    )

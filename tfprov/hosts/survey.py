"""Asks a host with a Docker engine for everything that `check` judges. Nothing on the host is changed."""

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
from tfprov.hosts.facts import EVERYWHERE, Clock, ContainerSummary, EngineFacts, HostFacts, Listener, System
from tfprov.hosts.machine import Machine, Remote

Run = Callable[[Sequence[str]], tuple[int, str]]
"""Runs a program on the host; returns its exit code and what it printed."""

_SCRIPT = r"""exec 2>/dev/null
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
"""Every part may be missing: a machine without `ip` or `ss` says the same in /proc, and another kernel nothing at all."""

_BY_IP = re.compile(r"\sinet (\d+\.\d+\.\d+\.\d+)/")
_BY_TRIE = re.compile(r"\|-- (\d+\.\d+\.\d+\.\d+)\s+/32 host LOCAL")
_DF = re.compile(r"\s\d+\s+-?\d+\s+(-?\d+)\s+\d+%\s")
_SS = re.compile(r"^LISTEN\s+\d+\s+\d+\s+(\S+):(\d+)\s+\S+(?:\s+users:\(\(\"([^\"]*)\",pid=(\d+))?", re.MULTILINE)
_PROC = re.compile(r"^\s*\d+: ([0-9A-F]{8}(?:[0-9A-F]{24})?):([0-9A-F]{4}) \S+ 0A ", re.MULTILINE)


def read_system(run: Run, disk: str = "") -> System:
    """Ask a machine for its facts; `disk` is the directory whose room is meant. Raises what `run` raises."""
    _, output = run(["sh", "-c", _SCRIPT, "sh", disk])
    return parse_system(output)


def parse_system(output: str) -> System:
    """Return what the script printed, as facts; any text can be read."""
    parts = dict(_sections(output))
    free, memory = _DF.search(f"{parts.get('free', '')} "), re.search(r"(\d+) kB", parts.get("memory", ""))
    flags = parts.get("flags", "").partition(":")[2].split()
    return System(
        kind=parts.get("kind", "").strip(),
        flags=frozenset(flags) if flags else None,
        addresses=_addresses(parts.get("addresses", "")),
        free=max(0, int(free[1])) * 1024 if free else None,
        memory=int(memory[1]) * 1024 if memory else None,
        listeners=parse_listeners(parts.get("listeners", "")),
        gpus=len(parts.get("gpus", "").split()) or None,
        gpu_tools=bool(parts.get("gpu_tools", "").strip()),
    )


def _sections(output: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^@", output, flags=re.MULTILINE)[1:]:
        name, _, text = part.partition("\n")
        yield name, text


def _addresses(text: str) -> tuple[str, ...] | None:
    found = _BY_IP.findall(text) or _BY_TRIE.findall(text)
    return tuple(dict.fromkeys(found)) or None


def parse_listeners(text: str) -> tuple[Listener, ...] | None:
    """Return who listens, from the output of `ss -ltnp` or the text of /proc/net/tcp and tcp6; None from neither."""
    if "Local Address" in text:
        found = (_of_ss(*match.groups()) for match in _SS.finditer(text))
    elif "local_address" in text:
        found = (_of_proc(*match.groups()) for match in _PROC.finditer(text))
    else:
        return None
    return tuple(listener for listener in found if ":" not in listener.address)


def _of_ss(address: str, port: str, program: str | None, pid: str | None) -> Listener:
    bare = address.partition("%")[0].strip("[]").removeprefix("::ffff:")
    owner = f"{program} (pid {pid})" if program else ""
    return Listener("*" if bare == EVERYWHERE else bare, int(port), owner)


def _of_proc(address: str, port: str) -> Listener:
    """Read a kernel's line: the bytes of each word of an address are in the order of the machine, and all we know swap."""
    words = [bytes.fromhex(address[at : at + 8])[::-1] for at in range(0, len(address), 8)]
    whole = b"".join(words)
    if not any(whole):  # also of IPv6, which takes IPv4's port along unless the program says otherwise
        return Listener("*", int(port, 16))
    is_mapped = len(whole) == 16 and whole[:12] == bytes(10) + b"\xff\xff"
    short = whole[12:] if is_mapped else whole
    return Listener(".".join(map(str, short)) if len(short) == 4 else "::", int(port, 16))


def read_clock(run: Run, now: Callable[[], float] = time.time) -> Clock | None:
    """Return how far a host's clock is off; the answer is taken to be as old as half of its way here and back."""
    before = now()
    _, output = run(["date", "+%s.%N"])
    after = now()
    found = re.match(r"(\d+)(?:\.(\d+))?", output)
    if found is None:
        return None
    exact = found[2] is not None  # some `date`s know no parts of a second
    there = float(f"{found[1]}.{found[2]}") if exact else int(found[1]) + 0.5
    return Clock(there - (before + after) / 2, (after - before) / 2 + (0 if exact else 0.5))


def read_listeners(run: Run) -> tuple[Listener, ...]:
    """Return who listens on a machine; nothing where it does not say so."""
    _, output = run(["sh", "-c", "PATH=$PATH:/usr/sbin:/sbin; ss -ltnp 2>&- || cat /proc/net/tcp /proc/net/tcp6"])
    return parse_listeners(output) or ()


def owner_of(listeners: Sequence[Listener], address: str, port: int) -> str | None:
    """Return who listens at `address:port`, as far as it is told; None when nobody does."""
    found = [listener.owner for listener in listeners if listener.takes(address, port)]
    return next(filter(None, found), "another program") if found else None


_IN_CONTAINERD = "io.containerd.snapshotter"
"""Begins the driver's type of an engine that keeps its images in containerd, which has a directory of its own."""
_CONTAINERD = "/var/lib/containerd"


_UNRECORDED = NoDeliveries()


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
        machine.ssh.check_account()  # first of all, so that connecting does not count as the clock's way, either
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
        containers=tuple(map(container_summary, containers)),
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


def container_summary(listed: Mapping[str, Any]) -> ContainerSummary:
    """Return a container as the engine's list describes it."""
    labels: Mapping[str, str] = listed.get("Labels") or {}
    published = [it for it in listed.get("Ports") or () if it.get("PublicPort")]
    ports = {(str(it.get("IP") or ""), int(it["PublicPort"])) for it in published}
    return ContainerSummary(
        id=listed["Id"],
        name=str((listed.get("Names") or [listed["Id"][:12]])[0]).lstrip("/"),
        running=listed.get("State") == "running",
        cluster=labels.get(CLUSTER, ""),
        task=labels.get(TASK, ""),
        check=labels.get(CHECK, ""),
        published=tuple(sorted(ports)),
    )

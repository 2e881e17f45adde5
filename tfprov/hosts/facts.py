"""Facts about hosts and engines as plain values. None means unknown."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ClockOffset:
    """A host's clock relative to the controller's: `offset` in seconds, positive if ahead, plus or minus `doubt`."""

    offset: float
    doubt: float


@dataclass(frozen=True)
class Listener:
    """A listening TCP port at `address`, `*` for all addresses. `owner` is the program, "" if unknown."""

    address: str
    port: int
    owner: str = ""

    def takes(self, address: str, port: int) -> bool:
        """Whether this keeps others from listening at `address:port`."""
        return self.port == port and (self.address in ("*", address) or address == EVERYWHERE)


EVERYWHERE = "0.0.0.0"  # noqa: S104  it is compared, not bound
"""The address that publishes a port in all networks of a host."""


@dataclass(frozen=True)
class System:
    """The machine. `kind` is the output of `uname -m`, `flags` the CPU's, `addresses` the IPv4 addresses.

    `free` is the space on the requested disk, `memory` the available memory, both in bytes. `gpus` is the number of NVIDIA
    GPUs, `gpu_tools` whether the tools that pass them to containers are installed. `devices` are the paths below /dev.
    """

    kind: str = ""
    flags: frozenset[str] | None = None
    addresses: tuple[str, ...] | None = None
    free: int | None = None
    memory: int | None = None
    listeners: tuple[Listener, ...] | None = None
    gpus: int | None = None
    gpu_tools: bool = False
    devices: frozenset[str] | None = None


@dataclass(frozen=True)
class ContainerSummary:
    """Any container on an engine. `published` are the host's addresses and ports that lead to it."""

    id: str
    name: str
    running: bool
    cluster: str = ""
    task: str = ""
    check: str = ""
    published: tuple[tuple[str, int], ...] = ()


def publisher(containers: Iterable[ContainerSummary], address: str, port: int) -> ContainerSummary | None:
    """Return the container that keeps others from publishing `port` on `address`, or None."""
    wildcards = (EVERYWHERE, "::", "")
    return next(
        (
            container
            for container in containers
            for published_at, number in container.published
            if number == port and (published_at in (address, *wildcards) or address in wildcards)
        ),
        None,
    )


@dataclass(frozen=True)
class EngineFacts:
    """A Docker engine. `platform` is the platform of its images, as `linux/amd64`.

    `disk` is the directory of its images, `memory` is in bytes. `limits_memory` and `limits_cpus`: whether the kernel
    supports these limits. `gives_gpus`: whether it is configured for GPUs.
    """

    version: str
    api: str
    platform: str
    driver: str
    disk: str
    memory: int
    cpus: int
    rootless: bool = False
    limits_memory: bool = True
    limits_cpus: bool = True
    gives_gpus: bool = False
    images: Mapping[str, str] = field(default_factory=dict)
    """The platform of each required image that it has, by name; moved names do not count."""
    image_ids: Mapping[str, str] = field(default_factory=dict)
    """The ids of the same images; containers are created by id, as names can be moved at any time."""
    moved: frozenset[str] = frozenset()
    """The required names that refer to other images than the delivered ones."""
    containers: tuple[ContainerSummary, ...] = ()


@dataclass(frozen=True)
class HostFacts:
    """One host. `access` describes the connection to it; without an `engine`, `engine_error` is the reason."""

    host: str
    access: str
    system: System
    clock: ClockOffset | None = None
    engine: EngineFacts | None = None
    engine_error: str = ""


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
echo @devices; find /dev -xdev
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
        devices=frozenset(parts.get("devices", "").splitlines()) or None,
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


def read_listeners(run: RunCommand, *, owners: bool = False) -> tuple[Listener, ...]:
    """Return the listeners of a machine; empty if unknown. `owners`: with programs, for which ss reads all of /proc."""
    options = "-ltnp" if owners else "-ltn"
    _, output = run(["sh", "-c", f"PATH=$PATH:/usr/sbin:/sbin; ss {options} 2>&- || cat /proc/net/tcp /proc/net/tcp6"])
    return parse_listeners(output) or ()


def owner_of(listeners: Sequence[Listener], address: str, port: int) -> str | None:
    """Return the program that listens at `address:port`, "another program" if unknown, None if there is none."""
    owners = [listener.owner for listener in listeners if listener.takes(address, port)]
    return next(filter(None, owners), "another program") if owners else None

"""What a host says of itself, as plain values; what is None could not be found out."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Clock:
    """A host's clock against the controller's: `offset` in seconds, ahead where it is positive, give or take `doubt`."""

    offset: float
    doubt: float


@dataclass(frozen=True)
class Listener:
    """A TCP port that is listened on, at `address` or, for `*`, at all of the host's; `owner` is a program, or empty."""

    address: str
    port: int
    owner: str = ""

    def takes(self, address: str, port: int) -> bool:
        """Whether nobody else can listen at `address:port`."""
        return self.port == port and (self.address in ("*", address) or address == EVERYWHERE)


EVERYWHERE = "0.0.0.0"  # noqa: S104  it is compared, not bound
"""What a port is published on to be reached in all networks of a host."""


@dataclass(frozen=True)
class System:
    """The machine itself. `kind` is what `uname -m` says, `flags` are the CPU's, `addresses` the IPv4 ones.

    `free` is on the disk that was asked about, `memory` what programs may still take: both in bytes. `gpus` is how many
    NVIDIA GPUs the driver shows, and `gpu_tools` whether containers can be given them.
    """

    kind: str = ""
    flags: frozenset[str] | None = None
    addresses: tuple[str, ...] | None = None
    free: int | None = None
    memory: int | None = None
    listeners: tuple[Listener, ...] | None = None
    gpus: int | None = None
    gpu_tools: bool = False


@dataclass(frozen=True)
class Present:
    """A container that is there, whoever made it. `published` are addresses and ports of the host that lead to it."""

    id: str
    name: str
    running: bool
    cluster: str = ""
    task: str = ""
    check: str = ""
    published: tuple[tuple[str, int], ...] = ()


def publisher(containers: Iterable[Present], address: str, port: int) -> Present | None:
    """Return the container that keeps others from publishing `port` on `address`; None where there is none."""
    wide = (EVERYWHERE, "::", "")
    return next(
        (
            it
            for it in containers
            for where, number in it.published
            if number == port and (where in (address, *wide) or address in wide)
        ),
        None,
    )


@dataclass(frozen=True)
class EngineFacts:
    """A Docker engine. `platform` is what its images are for, as `linux/amd64`; `images` the wanted ones that it has.

    `disk` is the directory its images lie in, `memory` in bytes. `limits_memory` and `limits_cpus` say whether the kernel
    lets it, and `gives_gpus` whether it is set up for GPUs.
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
    """The platform of each wanted image that is there, by its name. One that somebody moved to another does not count."""
    image_ids: Mapping[str, str] = field(default_factory=dict)
    """The ids of the same images: what is made of one is made by its id, because names can be moved at any moment."""
    moved: frozenset[str] = frozenset()
    """The wanted names that stand for another image than was delivered."""
    containers: tuple[Present, ...] = ()


@dataclass(frozen=True)
class HostFacts:
    """One host. `way` says how it was reached; without an `engine`, `trouble` says why there is none to speak to."""

    host: str
    way: str
    system: System
    clock: Clock | None = None
    engine: EngineFacts | None = None
    trouble: str = ""


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

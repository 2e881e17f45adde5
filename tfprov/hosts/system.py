"""What a machine's own programs say of it: one script, because every command costs a round trip, and how it is read."""

import re
import time
from collections.abc import Callable, Iterator, Sequence

from tfprov.hosts.facts import EVERYWHERE, Clock, Listener, System

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

"""What `check` makes of the facts of a machine: a verdict on each thing that can be in the way of its tasks. Pure.

Facts that could not be had are told as such, and count neither for nor against a machine.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tfprov.delivery.room import amount
from tfprov.hosts.facts import Clock, Listener, System
from tfprov.hosts.system import owner_of

CHECKS = (
    "reach", "engine", "architecture", "cpu", "clock", "disk", "memory", "cpus", "gpus", "address", "ports",
    "containers", "image", "command", "tensorflow", "lock", "network",
)  # fmt: skip
"""In the order in which they are told."""

GIB = 1 << 30
APART = 5.0
"""Seconds a clock may be off. Nothing is decided by it; but the times in event files and logs would not fit together."""


class Verdict(StrEnum):
    """What a finding means for the cluster."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing, and nothing is wrong; also for what could not be checked."""
    WARNING = "warning"
    FAILED = "failed"
    """As it is, tasks of this host will not start, or not reach each other."""


@dataclass(frozen=True)
class Finding:
    """One verdict: what was found, and for a bad one what to do about it."""

    check: str
    verdict: Verdict
    what: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.what}; {self.fix}" if self.fix else self.what


Judge = Callable[..., Finding]


def _finding(verdict: Verdict) -> Judge:
    return lambda check, what, fix="": Finding(check, verdict, what, fix)


ok, note, warning, failed = map(_finding, Verdict)


def cpu(system: System) -> Finding:
    """Judge whether the CPU runs TensorFlow's wheels: those for x86-64 need AVX, those for others nothing special."""
    if system.kind not in ("x86_64", "amd64"):
        return ok("cpu", system.kind) if system.kind else note("cpu", "not checked: the host does not say what it is")
    if system.flags is None:
        return note("cpu", f"{system.kind}; whether it has AVX was not checked: there is no /proc/cpuinfo")
    if "avx" in system.flags:
        return ok("cpu", f"{system.kind} with AVX")
    what = f"{system.kind} without AVX: TensorFlow's wheels end with `Illegal instruction`"
    return failed(
        "cpu", what, "use another host (or CPU type of the virtual machine), or a TensorFlow built without AVX"
    )


def clock(found: Clock | None) -> Finding:
    """Judge a host's clock; what the way there and back may have cost counts in its favour."""
    if found is None:
        return note("clock", "not checked: `date` does not say the time in seconds")
    off = abs(found.offset)
    if off - found.doubt <= 1:
        return ok("clock", "in step")
    what = f"{off:.0f} s {'ahead of' if found.offset > 0 else 'behind'} this machine"
    if off - found.doubt <= APART:
        return ok("clock", what)
    return warning("clock", what, "set it there, for example with `timedatectl set-ntp true`")


def free_ports(
    taken_by: Callable[[str, int], str | None], own: Callable[[str, int], str | None], wanted: Sequence[tuple[str, int]]
) -> Iterator[Finding]:
    """Judge ports: each of `wanted` must be free, or held by a task of this cluster, whose name `own` returns."""
    held, free = [], []
    for address, port in wanted:
        if task := own(address, port):
            held.append(f"{port} held by {task}")
        elif owner := taken_by(address, port):
            yield failed("ports", f"{address}:{port} is taken by {owner}", "stop it, or choose another `port`")
        else:
            free.append(str(port))
    if held or free:
        yield ok("ports", ", ".join([*held, *([f"{', '.join(free)} free"] if free else [])]))


def local(
    system: System, home: str, own: Callable[[str, int], str | None], wanted: Sequence[tuple[str, int]]
) -> Iterator[Finding]:
    """Judge this machine for tasks that are processes of it; their state lies in `home`."""
    yield cpu(system)
    yield room("disk", system.free, f"free in {home}", GIB, "free some: checkpoints are saved there")
    yield room("memory", system.memory, "free", GIB, "end other programs, or use fewer tasks")
    listeners: Sequence[Listener] | None = system.listeners
    if listeners is None:
        yield note("ports", "not checked: neither `ss` nor /proc says who listens")
    else:
        found = listeners
        yield from free_ports(lambda address, port: owner_of(found, address, port), own, wanted)


def room(check: str, size: int | None, where: str, little: int, fix: str) -> Finding:
    """Judge `size` bytes that are there against how much is `little`."""
    if size is None:
        return note(check, "not checked: the host does not say how much there is")
    what = f"{amount(size)} {where}"
    return ok(check, what) if size >= little else warning(check, f"only {what}", fix)

"""Judges the facts of a machine: a verdict on everything that can prevent its tasks from running. Pure.

Unknown facts are reported as unknown, and count neither for nor against a machine.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tfprov.engine.command_checks import Fault, Programs, tasks_by_program
from tfprov.errors import printable
from tfprov.hosts.facts import ClockOffset, Listener, System, owner_of
from tfprov.hosts.process.spec import environment
from tfprov.hosts.program_checks import ImportResult, try_import_locally
from tfprov.images.preflight import format_size
from tfprov.model.state import Container

CHECKS = (
    "reach", "engine", "architecture", "cpu", "clock", "disk", "memory", "cpus", "gpus", "devices", "address", "ports",
    "containers", "image", "command", "tensorflow", "checkpoints", "data", "lock", "network",
)  # fmt: skip
"""The checks, in the order of the report."""

GIB = 1 << 30
APART = 5.0
"""Seconds a clock may be off. tfprov does not depend on it, but times in event files and logs would not match."""


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
    """The result of one check, and its fix if it did not pass."""

    check: str
    verdict: Verdict
    what: str
    fix: str

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


def clock(reading: ClockOffset | None) -> Finding:
    """Judge a host's clock; the doubt of the measurement counts in its favour."""
    if reading is None:
        return note("clock", "not checked: `date` does not say the time in seconds")
    off = abs(reading.offset)
    if off - reading.doubt <= 1:
        return ok("clock", "in step")
    what = f"{off:.0f} s {'ahead of' if reading.offset > 0 else 'behind'} this machine"
    if off - reading.doubt <= APART:
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
        open_ports = listeners
        yield from free_ports(lambda address, port: owner_of(open_ports, address, port), own, wanted)


def room(check: str, size: int | None, where: str, little: int, fix: str) -> Finding:
    """Judge `size` bytes that are there against how much is `little`."""
    if size is None:
        return note(check, "not checked: the host does not say how much there is")
    what = f"{format_size(size)} {where}"
    return ok(check, what) if size >= little else warning(check, f"only {what}", fix)


Import = Callable[[Container, str], ImportResult]
"""Imports TensorFlow as a task would, with the Python that is named."""


def of_processes(programs: Programs, wanted: list[Container], try_import: Import | None = None) -> list[Finding]:
    """Judge the programs of tasks that are processes of this machine."""
    findings: list[Finding] = []
    imported: dict[str, ImportResult] = {}
    try_import = try_import or _import_locally
    for container, tasks in tasks_by_program(wanted):
        fault = programs.fault(container)
        findings += command(container, tasks, fault)
        python = programs.python(container)
        path = programs.which(container, python) if python and fault is None else None
        if path is None or programs.uses_tensorflow(container) is False:
            continue
        if path not in imported:
            imported[path] = try_import(container, path)
        fix = f"`{path} -m pip install 'tfprov[tensorflow]'`"
        findings.append(tensorflow(imported[path], path, fix, is_sure=bool(programs.uses_tensorflow(container))))
    return list(dict.fromkeys(findings))


def _import_locally(container: Container, python: str) -> ImportResult:
    return try_import_locally(python, environment(container))


def command(container: Container, tasks: list[str], fault: Fault | None) -> Iterator[Finding]:
    """Judge the command that some tasks of one host start."""
    if words := container.spec.get("command"):
        if fault is not None:
            yield failed("command", f"{', '.join(tasks)}: {fault.what}", fault.fix)
        else:
            yield ok("command", printable(" ".join(words)))


def undelivered(container: Container) -> Iterator[Finding]:
    """Yield a note that the command of a task cannot be checked before its image is delivered."""
    if words := container.spec.get("command"):
        yield note("command", f"{printable(' '.join(words))}: not known until the image is there")


def tensorflow(imported: ImportResult, python: str, fix: str, *, is_sure: bool) -> Finding:
    """Judge an import of TensorFlow; unless it `is_sure` that the program imports it, its absence is only a warning."""
    if imported.version:
        return ok("tensorflow", f"TensorFlow {imported.version}, imported by {python} in {imported.seconds:.1f} s")
    if imported.late:
        return warning(
            "tensorflow", f"its import by {python} is {imported.error}", "look at the disk and the load there"
        )
    judge = failed if is_sure else warning
    if imported.absent:
        return judge("tensorflow", f"{python} has no TensorFlow", f"install it: {fix}")
    return judge("tensorflow", f"{python} cannot import it: {imported.error}", f"mend it, for example with {fix}")


IMPORTING = "importing TensorFlow with the tasks' Python"
"""What `check` waits for, in the last line of a terminal."""
IN_IMAGE = "`RUN pip install tensorflow` in the image's Dockerfile"
"""The fix for an image without TensorFlow."""

"""The report of `check`, and the checks of the process runtime."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tfprov.engine.checks.host_rules import (
    CHECKS,
    IMPORTING,
    Finding,
    Verdict,
    failed,
    local,
    of_processes,
    ok,
    warning,
)
from tfprov.engine.checks.reachability import NOT_FROM_HOST, OK, Cell, judge
from tfprov.engine.command_checks import Programs
from tfprov.engine.context import Context
from tfprov.errors import HostError, TfprovError, Unreachable
from tfprov.hosts.base import Runtime
from tfprov.hosts.facts import read_system
from tfprov.model.state import State

REACH = "reach"


@dataclass(frozen=True)
class CheckReport:
    """The findings of every host, in the order of the inventory, and the `cells` of the reachability matrix.

    `unreachable` are the hosts of the inventory that could not be examined.
    """

    cluster: str
    hosts: Mapping[str, tuple[Finding, ...]]
    cells: tuple[Cell, ...] = ()
    unreachable: frozenset[str] = frozenset()

    @property
    def verdicts(self) -> list[Verdict]:
        """Return all verdicts, those on pairs of hosts included."""
        of_pairs = [judged.verdict for cell in self.cells if (judged := judge(cell)) is not None]
        return [finding.verdict for findings in self.hosts.values() for finding in findings] + of_pairs

    @property
    def exit_code(self) -> int:
        """0 when nothing failed, 4 when a host cannot be reached, else 1."""
        if self.unreachable:
            return Unreachable.exit_code
        return HostError.exit_code if Verdict.FAILED in self.verdicts else 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for `check --json`."""
        return {
            "cluster": self.cluster,
            "hosts": {
                host: [
                    {"check": it.check, "verdict": str(it.verdict), "what": it.what, "fix": it.fix} for it in findings
                ]
                for host, findings in self.hosts.items()
            },
            "matrix": [cell.to_dict() for cell in self.cells],
        }


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings in the order of the report."""
    return tuple(sorted(findings, key=lambda finding: CHECKS.index(finding.check)))


def split_error(error: TfprovError, host: str = "") -> tuple[str, str]:
    """Return an error's message without the host's name, and its fix."""
    name = error.host if isinstance(error, HostError) and not host else host
    what, _, fix = str(error).removeprefix(f"{name}: ").partition("; ")
    return what, fix


def lost(host: str, error: HostError) -> Finding:
    """Return the only finding of an unreachable host: the connection's error, and its fix."""
    return failed(REACH, *split_error(error, host))


def gone(host: str, error: HostError) -> Finding:
    """Return the only finding of an unreachable host that left the inventory."""
    what, fix = split_error(error, host)
    return warning(REACH, f"left the inventory, and what runs there cannot be seen: {what}", fix)


def check_processes(context: Context) -> CheckReport:
    """Check whether this machine can run the tasks as processes."""
    runtimes = [runtime for host, runtime in context.runtimes.items() if context.allows(host)]
    here = [runtime for runtime in runtimes if runtime.host not in context.left]
    return CheckReport(context.cluster.name, {runtime.host: _of_processes(context, runtime) for runtime in here})


def _of_processes(context: Context, runtime: Runtime) -> tuple[Finding, ...]:
    home = next((path for path in (context.home, *context.home.parents) if path.is_dir()), context.home)
    state = runtime.observe()
    held = {str(it.spec.get("endpoint")): it.task for it in state.containers if it.state is State.RUNNING}
    wanted = [c.task for c in context.wanted if c.task.host == runtime.host and c.task.serves]
    findings = local(
        read_system(runtime.command, str(home)),
        str(home),
        lambda address, port: held.get(f"{address}:{port}"),
        [(task.address, task.port) for task in wanted],
    )
    containers = [container for container in context.wanted if container.task.host == runtime.host]
    context.report.awaiting(IMPORTING)
    programs = of_processes(Programs.of(context), containers)
    context.report.awaiting("")
    remote = _remote_directories(context, runtime.host)
    return in_order([*findings, *programs, *remote, *_outside_service(context)])


def _remote_directories(context: Context, host: str) -> Iterator[Finding]:
    if (chief := context.container(context.cluster.chief.name)) is not None and chief.remote is not None:
        from tfprov.engine.checks.remote_dirs import of_host  # noqa: PLC0415  the docker SDK comes with it

        yield from of_host(context, host)
    if any(fetched.data.remote for fetched in context.data.values()):
        from tfprov.engine.checks import remote_data  # noqa: PLC0415  the same

        yield from remote_data.of_host(context, host)


def _outside_service(context: Context) -> Iterator[Finding]:
    from tfprov.hosts.machine import is_listening  # noqa: PLC0415  the docker SDK, for this alone

    if service := context.cluster.outside_service:
        outcome = OK if is_listening(service.address, service.port) else NOT_FROM_HOST
        yield judge(Cell(service.host, service, outcome)) or ok(
            "network", f"data_service at {service.endpoint} answers"
        )

"""The reachability matrix: which host reaches which task, and the fix for pairs that fail. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfprov.engine.checks.host_rules import Finding, failed, note
from tfprov.model.cluster import Task

OK, UNTRIED = "ok", "-"
NOT_FROM_HOST = "nothing"
"""The outcome of a failed try without a container, whose cause is unknown."""


@dataclass(frozen=True)
class Reason:
    """Why something cannot be tried; `host` is the host with the problem, or empty."""

    text: str
    host: str = ""

    def __str__(self) -> str:
        return f"{self.host}: {self.text}" if self.host else self.text


@dataclass(frozen=True)
class Cell:
    """One try: from `host` to the address of `task`. `outcome` is that of `probe`, or UNTRIED for the reason `why`."""

    host: str
    task: Task
    outcome: str
    why: Reason | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for `check --json`."""
        finding = judge(self)
        return {
            "from": self.host,
            "task": self.task.name,
            "host": self.task.host,
            "address": self.task.endpoint,
            "outcome": self.outcome,
            "verdict": str(finding.verdict) if finding else "ok",
            "what": finding.what if finding else "",
            "fix": finding.fix if finding else "",
        }


def table(cells: Sequence[Cell]) -> list[tuple[str, ...]]:
    """Return the rows of a table, the first of them its head: a row for each host, a column for each task."""
    tasks = list(dict.fromkeys(cell.task.name for cell in cells))
    outcomes = {(cell.host, cell.task.name): cell.outcome.partition(":")[0] for cell in cells}
    hosts = dict.fromkeys(cell.host for cell in cells)
    return [("FROM", *tasks), *((host, *(outcomes.get((host, task), UNTRIED) for task in tasks)) for host in hosts)]


def is_whole(cells: Sequence[Cell]) -> bool:
    """Whether each task has a cell for every host."""
    return len(cells) == len({cell.host for cell in cells}) * len({cell.task.name for cell in cells})


def summary(cells: Sequence[Cell]) -> str:
    """Return a line on `cells` of a cluster that is too large for all pairs, in place of the table."""
    tasks, hosts = len({cell.task.name for cell in cells}), len({cell.host for cell in cells})
    reached = sum(cell.outcome == OK for cell in cells)
    return (
        f"addresses of {tasks:,} tasks from {hosts:,} hosts: {reached:,} of {len(cells):,} pairs connect; only those of "
        "the strategy and of neighbours were tried"
    )


def failures(cells: Sequence[Cell]) -> list[tuple[list[str], Finding]]:
    """Return each failure with the hosts that have it."""
    same: dict[tuple[str, Finding], list[str]] = {}
    for cell in cells:
        if cell.outcome != UNTRIED and (finding := judge(cell)) is not None:
            same.setdefault((cell.task.name, finding), []).append(cell.host)
    return [(hosts, finding) for (_, finding), hosts in same.items()]


def reasons(cells: Sequence[Cell]) -> dict[str, list[str]]:
    """Return why some pairs were not tried, with the hosts that have the problem."""
    hosts: dict[str, list[str]] = {}
    for why in dict.fromkeys(cell.why for cell in cells if cell.why is not None):
        hosts.setdefault(why.text, []).extend([why.host] if why.host else [])
    return hosts


def judge(cell: Cell) -> Finding | None:
    """Return the finding of one try, to be printed after the name of its host; None for a success."""
    if cell.outcome == OK:
        return None
    if cell.outcome == UNTRIED:
        return note("network", f"{cell.task.name} was not tried: {cell.why}")
    what, fix = _why(cell)
    return failed("network", f"{cell.task.name} at {cell.task.endpoint}: {what}", fix)


def _why(cell: Cell) -> tuple[str, str]:
    task, own = cell.task, cell.host == cell.task.host
    if task.role == "data_service":
        what = cell.outcome if cell.outcome != NOT_FROM_HOST else "nothing answers there"
        return what.removeprefix("error: "), "start the service, open its port, or correct `data_service.address`"
    open_port = (
        f"let its own containers (docker0) in at port {task.port}" if own else f"open port {task.port} on {task.host}"
    )
    address = f"correct `address` of {task.host}"
    words = {
        "refused": ("refused", f"{open_port}, or {address}"),
        "no answer": ("no answer", f"a firewall drops it: {open_port}; or {address}"),
        "no route": ("no route to host", f"{address}, or look at the network; a firewall may say so, too: {open_port}"),
        "no address": ("no address inside a container", f"use an IPv4 address as `address` of {task.host}"),
        "closed": ("closed at once", f"look at the engine of {task.host}: the port does not lead to its container"),
        "silent": ("connected, and nothing comes back", f"look at the MTU of the network that leads to {task.host}"),
        "other": ("something else answers there", address),
        NOT_FROM_HOST: ("nothing serves there", f"{open_port}, or {address}"),
    }
    return words.get(cell.outcome, (cell.outcome.removeprefix("error: "), address))

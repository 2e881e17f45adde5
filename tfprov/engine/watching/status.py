"""What `status` says: every task that should be there or is, and how far the chief has got."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tfprov.engine.context import Context
from tfprov.engine.observe import needs, observe
from tfprov.engine.watching.progress import read_progress
from tfprov.errors import HostError
from tfprov.events import Progress
from tfprov.model.state import Observed, State


@dataclass(frozen=True)
class Row:
    """One task. `uptime` is in seconds, and None unless it runs; `id` is the pid under the process runtime."""

    task: str
    host: str
    state: str
    address: str | None = None
    id: str = ""
    uptime: float | None = None
    restarts: int = 0
    exit_code: int | None = None
    detail: str = ""


@dataclass(frozen=True)
class Status:
    """All tasks of a cluster, and the progress of its chief; `unreachable` are the hosts of which nothing is known."""

    cluster: str
    chief: str
    rows: tuple[Row, ...]
    progress: Progress | None = None
    unreachable: Mapping[str, HostError] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain data for `status --json`."""
        return {
            "cluster": self.cluster,
            "chief": self.chief,
            "tasks": [asdict(row) for row in self.rows],
            "progress": asdict(self.progress) if self.progress else None,
            "unreachable": {host: error.reason for host, error in self.unreachable.items()},
        }


def status(context: Context, now: float) -> Status:
    """Return the state of every task at `now`, in seconds since the epoch."""
    seen = observe(context, tolerant=True)
    unreachable = {h: e for h, e in seen.unreachable.items() if needs(context, h) and context.allows(h)}
    rows = []
    wanted = {container.task.name: container.task for container in context.wanted}
    for name, task in wanted.items():
        found = next((c for c in seen.containers() if (c.task, c.host) == (name, task.host)), None)
        address = task.endpoint if task.serves else None
        state = "unreachable" if task.host in seen.unreachable else "absent"
        rows.append(_row(found, now, address) if found else Row(name, task.host, state, address))
    strays = [c for c in seen.containers() if c.task not in wanted or wanted[c.task].host != c.host]
    rows.extend(_row(stray, now, None, "not in the inventory") for stray in strays)
    shown = tuple(row for row in rows if context.allows(row.host))
    progress = read_progress(context, seen)
    return Status(context.cluster.name, context.cluster.chief.name, shown, progress, unreachable)


def _row(observed: Observed, now: float, address: str | None, detail: str = "") -> Row:
    runs = observed.state is State.RUNNING
    uptime = max(0.0, now - observed.started_at) if runs and observed.started_at else None
    state = "finished" if observed.finished else "stopped" if observed.stopped and not runs else observed.state.value
    if state == "exited":
        state = "failed"
        detail = detail or observed.ending
    return Row(
        observed.task,
        observed.host,
        state,
        address,
        observed.id if runs else "",
        uptime,
        observed.restarts,
        observed.exit_code,
        detail,
    )

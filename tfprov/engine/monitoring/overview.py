"""What the live view of a cluster shows: its status, what each task uses, and the chief's last line."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tfprov.engine.concurrency import pool
from tfprov.engine.context import Context
from tfprov.engine.monitoring.status import Status
from tfprov.errors import HostError
from tfprov.hosts.usage import Usage


@dataclass(frozen=True)
class Overview:
    """A cluster at one moment. `usage` is by task; `last_line` is the chief's, empty while it has printed nothing."""

    title: str
    status: Status
    usage: Mapping[str, Usage] = field(default_factory=dict)
    last_line: str = ""


def read_overview(context: Context, title: str, status: Status) -> Overview:
    """Return the overview for a status; one request after the other on each host, and hosts at the same time."""
    hosts = sorted({row.host for row in status.rows if row.state in ("running", "restarting")})
    hosts = [host for host in hosts if host in context.runtimes and host not in status.unreachable]
    with pool(min(context.forks, max(1, len(hosts)))) as executor:
        readings = list(executor.map(lambda host: _usage(context, host), hosts))
    usage = {task: used for reading in readings for task, used in reading.items()}
    return Overview(title, status, usage, _last_line(context, status))


def _usage(context: Context, host: str) -> Mapping[str, Usage]:
    try:
        return context.runtimes[host].usage()
    except HostError:  # the next status shows it as unreachable
        return {}


def _last_line(context: Context, status: Status) -> str:
    chief = next((row for row in status.rows if row.task == status.chief), None)
    if chief is None or chief.host not in context.runtimes or chief.host in status.unreachable:
        return ""
    try:
        return next(iter(context.runtimes[chief.host].logs(chief.task, tail=1)), "")
    except HostError:
        return ""

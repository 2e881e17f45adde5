"""A plan as text, one line per task, and the formatting of sizes, durations and lists."""

from collections.abc import Mapping, Sequence

from tfprov.model.cluster import Cluster, job_counts
from tfprov.model.plan import Action, ActionKind, Plan
from tfprov.model.state import Container
from tfprov.planning.reconcile import describe_artifact

NOTHING = "nothing to do"


def summary(cluster: Cluster) -> str:
    """Return the cluster in one line: `linear: 1 ps, 2 workers on 1 host`."""
    counts = ", ".join(
        f"{count} {job.replace('_', ' ')}{'s' if count > 1 and job != 'ps' else ''}"
        for job, count in job_counts(cluster).items()
    )
    hosts = len({task.host for task in cluster.tasks})
    return f"{cluster.name}: {counts} on {hosts} host{'s' if hosts > 1 else ''}"


def plan_lines(plan: Plan, wanted: Sequence[Container] = ()) -> list[str]:
    """Return the plan, a line per task and host: a stop that belongs to a restart or a removal has none."""
    if not plan:
        return [NOTHING]
    endpoints = {container.task.name: container.task.endpoint for container in wanted if container.task.serves}
    of_kind = {
        kind: {(a.subject, a.host) for a in plan.actions if a.kind == kind}
        for kind in (ActionKind.STOP, ActionKind.REMOVE, ActionKind.START)
    }
    rows = []
    for action in plan.actions:
        task_host = action.subject, action.host
        if action.kind == ActionKind.STOP and task_host in of_kind[ActionKind.START] | of_kind[ActionKind.REMOVE]:
            continue
        is_restart = action.kind == ActionKind.START and task_host in of_kind[ActionKind.STOP]
        rows.append(_row(action, "restart" if is_restart else action.kind, endpoints))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)).rstrip() for row in rows
    ]


def _row(action: Action, verb: str, endpoints: Mapping[str, str]) -> tuple[str, str, str, str]:
    if action.kind in (ActionKind.BUILD, ActionKind.DELIVER, ActionKind.FETCH):
        where = "" if action.kind == ActionKind.BUILD else f"to {action.host}"
        return verb, describe_artifact(action.subject), where, _because(action)
    endpoint = endpoints.get(action.subject, "") if action.kind == ActionKind.START else ""
    return verb, action.subject, f"on {action.host} {endpoint}".rstrip(), _because(action)


def _because(action: Action) -> str:
    return f"({', '.join(action.causes)})"


def format_size(size: float) -> str:
    """Return a number of bytes with the unit that leaves one to three digits before the point."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def format_duration(seconds: float) -> str:
    """Return a duration, rounded down: `40 s`, `14 min`, `3 h`, `2 d`."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length:.0f} {unit}"
    return f"{seconds:.0f} s"


def format_span(seconds: float) -> str:
    """Return a time span in its two largest units: `40s`, `14m 3s`, `3h 10m`, `2d 1h`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d {hours}h"
    if hours:
        return f"{hours}h {minutes}m"
    return f"{minutes}m {rest}s" if minutes else f"{rest}s"


def join_names(names: Sequence[str], limit: int) -> str:
    """Return at most `limit` names, and the number of the others: `ps/0, worker/0 and 3 more`."""
    left = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {left} more" if left > 0 else "")


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 tensor`, `3 tensors`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"

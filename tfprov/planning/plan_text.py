"""A plan as text, one line per task, and the formatting of sizes, durations and lists."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from tfprov.model.cluster import Cluster, job_counts
from tfprov.model.plan import Action, ActionKind, Plan
from tfprov.model.state import Container
from tfprov.planning.name_ranges import host_names, ranges
from tfprov.planning.reconcile import describe_artifact

NOTHING = "nothing to do"
_ALIKE = 8
"""Actions that are alike, and still have a line each in a folded plan."""
_RANGES = 4
"""Ranges of task indexes in a folded line, which counts the rest."""
_OF_ARTIFACTS = (ActionKind.BUILD, ActionKind.DELIVER, ActionKind.FETCH)
_Cells = tuple[str, str, str, str]
"""A line of a plan: the verb, what it is done to, where, and why."""


def summary(cluster: Cluster) -> str:
    """Return the cluster in one line: `linear: 1 ps, 2 workers on 1 host`."""
    counts = ", ".join(
        f"{count} {job.replace('_', ' ')}{'s' if count > 1 and job != 'ps' else ''}"
        for job, count in job_counts(cluster).items()
    )
    hosts = len({task.host for task in cluster.tasks})
    return f"{cluster.name}: {counts} on {hosts} host{'s' if hosts > 1 else ''}"


def plan_lines(plan: Plan, wanted: Sequence[Container] = (), *, fold: bool = False) -> list[str]:
    """Return the plan, a line per task and host: a stop that belongs to a restart or a removal has none.

    With `fold`, more than eight actions that are alike (the same verb, job or artifact, and causes) have one line for all:
    `start  worker/0-499  on node[1:500]  (not there)`.
    """
    if not plan:
        return [NOTHING]
    endpoints = {container.task.name: container.task.endpoint for container in wanted if container.task.serves}
    entries = list(_entries(plan))
    groups: defaultdict[tuple[str, ...], list[Action]] = defaultdict(list)
    for verb, action in entries if fold else ():
        groups[_likeness(verb, action)].append(action)
    rows = []
    for verb, action in entries:
        alike: Sequence[Action] = groups[_likeness(verb, action)] if fold else ()
        if len(alike) <= _ALIKE:
            rows.append(_row(action, verb, endpoints))
        elif action is alike[0]:
            rows.append(_folded_row(alike, verb))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return ["  ".join([*map(str.ljust, row, widths), row[-1]]) for row in rows]  # without blanks behind the last column


def _entries(plan: Plan) -> Iterator[tuple[str, Action]]:
    """Yield the actions that are shown, each with its verb."""
    of_kind = {
        kind: {(a.subject, a.host) for a in plan.actions if a.kind == kind}
        for kind in (ActionKind.STOP, ActionKind.REMOVE, ActionKind.START)
    }
    shown_otherwise = of_kind[ActionKind.START] | of_kind[ActionKind.REMOVE]
    for action in plan.actions:
        task_host = action.subject, action.host
        if action.kind == ActionKind.STOP and task_host in shown_otherwise:
            continue
        is_restart = action.kind == ActionKind.START and task_host in of_kind[ActionKind.STOP]
        yield "restart" if is_restart else action.kind, action


def _likeness(verb: str, action: Action) -> tuple[str, ...]:
    subject = action.subject if action.kind in _OF_ARTIFACTS else action.subject.partition("/")[0]
    return verb, subject, *action.causes


def _folded_row(alike: Sequence[Action], verb: str) -> _Cells:
    first, hosts = alike[0], host_names(action.host for action in alike)
    if first.kind in _OF_ARTIFACTS:
        return verb, describe_artifact(first.subject), f"to {hosts}", _because(first)
    job = first.subject.partition("/")[0]
    indexes = ranges((action.subject.partition("/")[2] for action in alike), limit=_RANGES)
    return verb, f"{job}/{indexes}", f"on {hosts}", _because(first)


def _row(action: Action, verb: str, endpoints: Mapping[str, str]) -> _Cells:
    if action.kind in _OF_ARTIFACTS:
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

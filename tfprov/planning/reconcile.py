"""What should run and what runs, to a plan. Pure: the same two values always give the same plan."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tfprov.model.inventory import ROLES
from tfprov.model.plan import CONTROLLER, KINDS, Action, Plan
from tfprov.model.state import Container, Observation, Observed, State

_STOP_ORDER = ("chief", "evaluator", "tensorboard", "worker", "ps")
"""The chief saves when it is stopped, and needs its ps for that."""


def reconcile(cluster: str, wanted: Sequence[Container], seen: Observation) -> Plan:
    """Return the plan after which `seen` is what is `wanted`; an empty one when it already is."""
    actions = [*_removals(wanted, seen), *_starts(wanted, seen)]
    starting = {action.subject for action in actions if action.kind == "start"}
    deliveries = list(_deliveries([c for c in wanted if c.task.name in starting], seen))
    return Plan(cluster, _ordered([*deliveries, *actions]))


def teardown(cluster: str, seen: Observation, chosen: Callable[[Observed], bool], *, remove: bool) -> Plan:
    """Return the plan that stops the `chosen` containers in draining order and, with `remove`, removes them."""
    cause = ("taking the cluster down",)
    actions = []
    for container in filter(chosen, seen.containers()):
        if container.state is State.RUNNING:
            actions.append(Action("stop", container.host, container.task, cause))
        if remove:
            actions.append(Action("remove", container.host, container.task, cause))
    return Plan(cluster, _ordered(actions))


def differences(running: Mapping[str, Any], wanted: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return the dotted names of the fields that differ, each with both values where they are short and no secret."""
    found = []
    for key in dict.fromkeys([*wanted, *running]):
        name, before, after = f"{prefix}{key}", running.get(key), wanted.get(key)
        if before == after and (key in running) == (key in wanted):
            continue
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            found.extend(differences(before, after, f"{name}."))
        else:
            found.append(name + _change(name, before, after))
    return found


def _change(name: str, before: Any, after: Any) -> str:
    if name.startswith("env.") or isinstance(before, list | Mapping) or isinstance(after, list | Mapping):
        return ""  # an environment often holds secrets, and a list of hosts says less than its name
    if name == "code":
        return f": {short(before)} -> {short(after)}"
    return f": {'(not set)' if before is None else before} -> {'(not set)' if after is None else after}"


def short(digest: str | None) -> str:
    """Return the first 12 hex digits of a digest, as Docker shows them."""
    return "none" if digest is None else digest.removeprefix("sha256:")[:12]


def _job(task: str) -> str:
    return task.partition("/")[0]


def _removals(wanted: Sequence[Container], seen: Observation) -> Iterator[Action]:
    """Stop and remove what no task of the inventory accounts for: a task that is gone, or that moved to another host."""
    places = {(container.task.name, container.task.host) for container in wanted}
    hosts = {container.task.name: container.task.host for container in wanted}
    for container in seen.containers():
        if (container.task, container.host) in places:
            continue
        moved = hosts.get(container.task)
        cause = f"moved to {moved}" if moved else "not in the inventory"
        if container.state is State.RUNNING:
            yield Action("stop", container.host, container.task, (cause,))
        yield Action("remove", container.host, container.task, (cause,))


def _starts(wanted: Sequence[Container], seen: Observation) -> Iterator[Action]:
    running = {(container.task, container.host): container for container in seen.containers()}
    over = _is_over(wanted, running)
    for container in wanted:
        task = container.task
        current = running.get((task.name, task.host))
        causes = _causes(container, current, over=over)
        if causes and current is not None and current.state is State.RUNNING:
            yield Action("stop", task.host, task.name, causes)
        if causes:
            yield Action("start", task.host, task.name, causes)


def _is_over(wanted: Sequence[Container], running: Mapping[tuple[str, str], Observed]) -> bool:
    """Whether the training that is wanted has been done: then nobody is started again to wait for a chief that left."""
    chief = next((c for c in wanted if c.task.name == "chief/0"), None) or next(
        (c for c in wanted if c.task.name == "worker/0"), None
    )
    current = running.get((chief.task.name, chief.task.host)) if chief else None
    return chief is not None and current is not None and current.finished and current.spec == chief.spec


def _causes(container: Container, current: Observed | None, *, over: bool) -> tuple[str, ...]:
    changed = tuple(differences(current.spec, container.spec)) if current else ()
    if over and not changed:
        return ()
    if current is None:
        return ("not there",)
    if current.state is State.RUNNING or current.finished:
        return changed
    return (current.ending, *changed)


def _deliveries(starting: Sequence[Container], seen: Observation) -> Iterator[Action]:
    for digest in dict.fromkeys(container.code for container in starting if container.code):
        if digest not in seen.built:
            yield Action("build", CONTROLLER, digest, ("not packed yet",))
        for host in dict.fromkeys(container.task.host for container in starting if container.code == digest):
            if host not in seen.hosts or digest not in seen.hosts[host].codes:
                yield Action("deliver", host, digest, ("not there",))


def _ordered(actions: Sequence[Action]) -> tuple[Action, ...]:
    """Sort the actions so that they can be done in turn, and say which of them each one waits for."""

    def rank(action: Action) -> tuple[int, int]:
        order = _STOP_ORDER if action.kind in ("stop", "remove") else ROLES
        job = _job(action.subject)
        return KINDS.index(action.kind), order.index(job) if job in order else 0

    ordered = sorted(actions, key=rank)
    return tuple(Action(a.kind, a.host, a.subject, a.causes, _needs(a, ordered)) for a in ordered)


def _needs(action: Action, others: Sequence[Action]) -> tuple[str, ...]:
    return tuple(other.id for other in others if other is not action and _waits(action, other))


def _waits(action: Action, other: Action) -> bool:
    same_task = other.subject == action.subject
    job, other_job = _job(action.subject), _job(other.subject)
    match action.kind, other.kind:
        case "deliver", "build":
            return same_task
        case "stop", "stop":  # the ps outlives everyone who still trains through it
            return job == "ps" and other_job != "ps"
        case "remove", "stop":
            return same_task and other.host == action.host
        case "start", ("stop" | "remove"):
            # A task is never in two places; and a ps that restarts is stopped before anyone new talks to it.
            return same_task or other_job == "ps"
        case "start", "deliver":
            return other.host == action.host
        case "start", "start":  # a worker without its ps would wait in silence
            return job != "ps" and other_job == "ps"
    return False

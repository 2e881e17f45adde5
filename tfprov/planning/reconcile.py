"""Compares desired and observed containers, and returns the plan. Pure."""

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfprov.model.plan import CONTROLLER, Action, ActionKind, Plan
from tfprov.model.state import DATA_PREFIX as DATA
from tfprov.model.state import Container, Observation, Observed, State
from tfprov.model.validators import parse_size
from tfprov.planning.order import order_actions
from tfprov.vault.redaction import hashed_with_other_key
from tfprov.wiring import DRIVEN_BY_CHIEF

_TaskHost = tuple[str, str]
"""A task's name and a host."""


class _NotSet:
    """The value of a field that is absent on one side; None is a flag without a value."""

    def __str__(self) -> str:
        return "(not set)"


_NOT_SET = _NotSet()


def reconcile(cluster: str, wanted: Sequence[Container], seen: Observation) -> Plan:
    """Return the plan that turns `seen` into `wanted`; an empty one if they agree."""
    actions = [*_removals(wanted, seen), *_starts(wanted, seen)]
    starting = {action.subject for action in actions if action.kind == ActionKind.START}
    deliveries = list(_deliveries([c for c in wanted if c.task.name in starting], seen))
    endpoints = _endpoints(actions, wanted, seen)
    return Plan(cluster, order_actions([*deliveries, *actions], endpoints, servers_of_chief(seen)))


def plan_teardown(cluster: str, seen: Observation, selects: Callable[[Observed], bool], *, remove: bool) -> Plan:
    """Return the plan that stops the selected containers in draining order and, with `remove`, removes them."""
    cause = ("taking the cluster down",)
    actions = []
    for container in filter(selects, seen.containers()):
        if container.state is State.RUNNING:
            actions.append(Action(ActionKind.STOP, container.host, container.task, cause))
        if remove:
            actions.append(Action(ActionKind.REMOVE, container.host, container.task, cause))
    return Plan(cluster, order_actions(actions, {}, servers_of_chief(seen)))


def servers_of_chief(seen: Observation) -> frozenset[str]:
    """Return the workers that run as servers of the chief, which alone knows when to stop and what to save."""
    return frozenset(
        container.task
        for container in seen.containers()
        if container.task.startswith("worker/") and container.strategy in DRIVEN_BY_CHIEF
    )


def plan_deliveries(cluster: str, wanted: Sequence[Container], seen: Observation) -> Plan:
    """Return the plan that delivers to every host what its tasks need, also if none starts."""
    return Plan(cluster, order_actions(list(_deliveries(wanted, seen)), {}))


def differences(running: Mapping[str, Any], wanted: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return the dotted names of the fields that differ, with both values if they are short and not secret."""
    changes = []
    for key in dict.fromkeys([*wanted, *running]):
        name, before, after = f"{prefix}{key}", running.get(key, _NOT_SET), wanted.get(key, _NOT_SET)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            changes.extend(differences(before, after, f"{name}."))
        elif not is_same(name, before, after) and not hashed_with_other_key(before, after):
            changes.append(name + _change(name, before, after))
    return changes


def is_same(name: str, before: Any, after: Any) -> bool:
    """Whether two values of the spec's field `name` have the same effect: `64m` and `65536k`, `/data` and `/data/`.

    Specs keep the user's spelling: containers of an earlier tfprov have it in their labels, too.
    """
    if before == after:
        return True
    canonical = _CANONICAL.get(name)
    try:  # labels of containers can hold anything
        return canonical is not None and bool(canonical(before) == canonical(after))
    except (ValueError, TypeError, AttributeError):
        return False


def _path(path: str) -> str:
    return posixpath.normpath(f"/{path.lstrip('/')}")


def _mounts(mounts: Any) -> list[Any]:
    """Return mounts in the order of their targets: the engine mounts outer ones first, whatever their order."""
    plain = [{key: _mount_value(key, value) for key, value in mount.items()} for mount in mounts]
    return sorted(plain, key=lambda mount: str(mount.get("target")))


def _mount_value(key: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _mount_value(name, below) for name, below in value.items()}
    return _path(value) if key in ("source", "target", "path") else value


_CANONICAL: Mapping[str, Callable[[Any], Any]] = {
    "memory": parse_size,
    "shm_size": parse_size,
    "devices": set,
    "mounts": _mounts,
    "data.to": _path,
    "restart_codes.only": set,
    "restart_codes.never": set,
}


def incomparable_secrets(wanted: Sequence[Container], seen: Observation) -> list[str]:
    """Return the secret variables, as `env.NAME of TASK`, that another controller hashed: they cannot be compared."""
    observed = {(container.task, container.host): container for container in seen.containers()}
    return [
        f"env.{name} of {container.task.name}"
        for container in wanted
        if (current := observed.get((container.task.name, container.task.host))) is not None
        for name, value in container.spec.get("env", {}).items()
        if hashed_with_other_key((current.spec.get("env") or {}).get(name), value)
    ]


def _change(name: str, before: Any, after: Any) -> str:
    if name.startswith("env.") or any(isinstance(value, list | Mapping) for value in (before, after)):
        return ""  # environments often hold secrets, and a list of hosts is too long
    if name in ("code", "data.fetch"):
        return f": {short_digest(before)} -> {short_digest(after)}"
    return f": {_shown(before)} -> {_shown(after)}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()  # as YAML has it
    return "(no value)" if value is None else str(value)


def short_digest(digest: str | None) -> str:
    """Return the first 12 hex digits of a digest, or of an image's tag, as Docker shows them."""
    return digest.rpartition(":")[2][:12] if isinstance(digest, str) else "none"


_CODE = "sha256:"
"""Prefix of code artifacts; images begin with their repository."""


def describe_artifact(artifact: str) -> str:
    """Return an artifact in words: `code 3f2a9c01d2e4`, `data …` or `image …`."""
    kind = "code" if artifact.startswith(_CODE) else "data" if artifact.startswith(DATA) else "image"
    return f"{kind} {short_digest(artifact)}"


def _removals(wanted: Sequence[Container], seen: Observation) -> Iterator[Action]:
    """Stop and remove containers whose task left the inventory or moved to another host."""
    hosts = {container.task.name: container.task.host for container in wanted}
    for container in seen.containers():
        host = hosts.get(container.task)
        if host == container.host:
            continue
        cause = f"moved to {host}" if host else "not in the inventory"
        if container.state is State.RUNNING:
            yield Action(ActionKind.STOP, container.host, container.task, (cause,))
        yield Action(ActionKind.REMOVE, container.host, container.task, (cause,))


@dataclass(frozen=True)
class _Training:
    """The state of the training as a whole.

    `over`: its chief has finished, so no task is restarted to wait for it. `again`: its chief starts anew and needs all
    tasks, also finished ones, or starts again and takes each step with them.
    """

    over: bool
    again: bool


def _training(wanted: Sequence[Container], running: Mapping[_TaskHost, Observed]) -> _Training:
    by_name = {container.task.name: container for container in wanted}
    chief = by_name.get("chief/0") or by_name.get("worker/0")
    current = _current(chief, running) if chief else None
    if current is None or not current.finished:
        together = chief is not None and chief.strategy == "multi_worker_mirrored"
        return _Training(over=False, again=current is None or (together and current.state is not State.RUNNING))
    unchanged = all(_is_unchanged(container, running) for container in wanted if container.task.trains)
    return _Training(over=unchanged, again=not unchanged)


def _current(container: Container, running: Mapping[_TaskHost, Observed]) -> Observed | None:
    return running.get((container.task.name, container.task.host))


def _is_unchanged(container: Container, running: Mapping[_TaskHost, Observed]) -> bool:
    current = _current(container, running)
    return current is None or not _changes(container, current)


def _starts(wanted: Sequence[Container], seen: Observation) -> Iterator[Action]:
    running = {(container.task, container.host): container for container in seen.containers()}
    elsewhere = {container.task: container.host for container in seen.containers()}
    training = _training(wanted, running)
    for container in wanted:
        task = container.task
        current = _current(container, running)
        if current is None:
            causes = _causes_of_absence(container, elsewhere.get(task.name), training)
        else:
            causes = _causes(container, current, training)
        if causes and current is not None and current.state is State.RUNNING:
            yield Action(ActionKind.STOP, task.host, task.name, causes)
        if causes:
            yield Action(ActionKind.START, task.host, task.name, causes)


def _causes_of_absence(container: Container, elsewhere: str | None, training: _Training) -> tuple[str, ...]:
    if training.over and not container.task.reads:
        return ()
    return (f"moved from {elsewhere}" if elsewhere else "not there",)


def _causes(container: Container, current: Observed, training: _Training) -> tuple[str, ...]:
    changed = _changes(container, current)
    if current.state is State.RUNNING:
        return changed
    if current.finished:
        return changed or (("the training starts again",) if training.again else ())
    return () if training.over and not container.task.reads else (current.ending, *changed)


def _changes(container: Container, current: Observed) -> tuple[str, ...]:
    if not current.spec:
        return ("nothing says how it was started",)
    other = (current.other_image,) if current.other_image else ()
    return (*other, *differences(current.spec, container.spec))


def _deliveries(starting: Sequence[Container], seen: Observation) -> Iterator[Action]:
    """Deliver images, code and data to the hosts that lack them; only what must be delivered is built."""
    for artifact in dict.fromkeys(container.artifact for container in starting if container.artifact):
        hosts = dict.fromkeys(container.task.host for container in starting if container.artifact == artifact)
        lacking = [host for host in hosts if not _has(seen, host, artifact)]
        if lacking and artifact not in seen.built:
            cause = "not packed yet" if artifact.startswith(_CODE) else "not built yet"
            yield Action(ActionKind.BUILD, CONTROLLER, artifact, (cause,))
        yield from (
            Action(ActionKind.DELIVER, host, artifact, (_cause_of_delivery(seen, host, artifact),)) for host in lacking
        )
    reading = dict.fromkeys((container.task.host, container.data) for container in starting if container.data)
    for host, data in reading:
        if not _has(seen, host, data):
            yield Action(ActionKind.FETCH, host, data, ("not there",))


def _cause_of_delivery(seen: Observation, host: str, artifact: str) -> str:
    is_moved = host in seen.hosts and artifact in seen.hosts[host].moved
    return f"the image of this name on {host} is not the one that was delivered" if is_moved else "not there"


def _has(seen: Observation, host: str, artifact: str) -> bool:
    return host in seen.hosts and artifact in seen.hosts[host].delivered


def _endpoints(actions: Sequence[Action], wanted: Sequence[Container], seen: Observation) -> dict[str, str]:
    """Return, by action id, the `address:port` that a stop frees and a start takes.

    Several hosts of an inventory can be one machine, under one address.
    """
    takes = {(container.task.name, container.task.host): container.task.endpoint for container in wanted}
    frees = {
        (container.task, container.host): str(container.spec.get("endpoint", "")) for container in seen.containers()
    }
    of_kind = {ActionKind.STOP: frees, ActionKind.START: takes}
    return {
        action.id: of_kind[action.kind][action.subject, action.host] for action in actions if action.kind in of_kind
    }

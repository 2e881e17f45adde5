"""Rolls back a start that failed: removes the tasks it started, and keeps the earlier ones. Cleans hosts without tasks."""

from collections.abc import Collection, Iterable
from dataclasses import replace as with_fields

from tfprov.engine.concurrency import pool
from tfprov.engine.context import Context
from tfprov.engine.execute import execute
from tfprov.engine.monitoring.kept_logs import KeptLogs
from tfprov.engine.observe import observe, plan
from tfprov.errors import HostError
from tfprov.formats.checkpoint import checkpoints, model_files
from tfprov.model.plan import Action, ActionKind, Plan
from tfprov.model.state import Observation, Observed, State
from tfprov.planning.order import order_actions
from tfprov.planning.reconcile import servers_of_chief

TaskOnHost = tuple[str, str]
"""A task's name and a host."""


def plan_rollback(cluster: str, before: Observation, after: Observation, started: Collection[TaskOnHost]) -> Plan:
    """Return the plan that takes back the tasks `started` between `before` and `after`. Pure.

    New containers are stopped and removed; earlier ones that were restarted are stopped, and keep their files.
    """
    was = {(container.task, container.host): container for container in before.containers()}
    cause = ("the cluster did not come up",)
    actions = []
    for now in after.containers():
        place = now.task, now.host
        if place not in started:
            continue
        if _runs_anew(was.get(place), now):
            actions.append(Action(ActionKind.STOP, now.host, now.task, cause))
        if place not in was:
            actions.append(Action(ActionKind.REMOVE, now.host, now.task, cause))
    return Plan(cluster, order_actions(actions, {}, servers_of_chief(after)))


def _runs_anew(was: Observed | None, now: Observed) -> bool:
    same = was is not None and was.state is State.RUNNING and was.id == now.id
    return now.state is State.RUNNING and not same


def take_back(context: Context, before: Observation) -> None:
    """Take back what was started since `before` on reachable hosts, and report it.

    Containers with files of a checkpoint or a model are stopped and kept: these may be older than the container, and a
    chief may save once more when it is stopped.
    """
    started = {_place(action) for action in plan(context, before).actions if action.kind == ActionKind.START}
    after = observe(context, tolerant=True)
    logs = KeptLogs(context, after)
    context = with_fields(context, before_remove=logs.keep)
    whole = plan_rollback(context.cluster.name, before, after, started)
    stops = execute(context, whole.only(lambda action: action.kind == ActionKind.STOP))
    running = {place for place in _places(whole, "stop") if place not in map(_place, stops.done)}
    held = {place for place in _places(whole, "remove") if place not in running and _has_model(context, place)}
    execute(context, whole.only(lambda a: a.kind == ActionKind.REMOVE and _place(a) not in running | held))
    context.forget_empty(observe(context, tolerant=True))
    logs.report()
    if stops.done:
        context.report.note(f"nothing was left half-started: stopped {_names(map(_place, stops.done))}")
    if held:
        context.report.note(f"kept, because of the checkpoints or models there: {_names(held)}")
    if unsure := {host for _, host in started if host in after.unreachable}:
        context.report.note(f"{', '.join(sorted(unsure))} cannot be reached: what was started there stays")


def _place(action: Action) -> TaskOnHost:
    return action.subject, action.host


def _places(plan: Plan, kind: str) -> list[TaskOnHost]:
    return [_place(action) for action in plan.actions if action.kind == kind]


def _names(places: Iterable[TaskOnHost]) -> str:
    return ", ".join(sorted(task for task, _ in places))


def _has_model(context: Context, place: TaskOnHost) -> bool:
    """Whether a container has files of a checkpoint or a model; True if its host does not answer."""
    task, host = place
    try:
        files = context.runtimes[host].files(task)
        return bool(checkpoints(files) or model_files(files))
    except HostError:
        return True


def clean(context: Context, observation: Observation, *, discard: bool = False) -> list[HostError]:
    """Clean the hosts without tasks, all at the same time; return the errors. See Runtime.clean."""

    def clean_host(host: str) -> HostError | None:
        try:
            context.runtimes[host].clean(context.wants(host), discard=discard)
        except HostError as error:
            return error
        return None

    hosts = [host for host in context.runtimes if context.allows(host) and host not in observation.unreachable]
    with pool(min(context.forks, len(hosts))) as executor:
        errors = [error for error in executor.map(clean_host, hosts) if error is not None]
    context.forget_empty(observe(context))
    return errors

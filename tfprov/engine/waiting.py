"""Wait until every task serves, and say at once when one of them never will."""

import time
from collections.abc import Sequence

from tfprov.engine.context import Context
from tfprov.engine.observe import observe
from tfprov.errors import TaskFailed
from tfprov.model.state import Container, Observation, Observed, State

POLL = 0.1
"""Seconds between two looks."""
LOG_LINES = 20
"""Lines of a failed task's log that come with its failure."""


def wait_serving(context: Context, timeout: float | None = None) -> None:
    """Return when every task that has a port answers on it; TaskFailed for the first that ends badly or is too slow.

    `timeout` in seconds replaces each task's own `start_timeout`. A task that has finished counts as served, and so does
    a training that is over.
    """
    pending = [container for container in context.wanted if context.allows(container.task.host)]
    begin = time.monotonic()
    while True:
        seen = observe(context)
        pending = [container for container in pending if not _is_up(context, container, seen)]
        chief = context.chief(seen)
        if not pending or (chief is not None and chief.finished):
            return
        for container in pending:
            if time.monotonic() - begin > (timeout or container.start_timeout):
                raise _too_slow(context, container, timeout or container.start_timeout)
        time.sleep(POLL)


def _is_up(context: Context, container: Container, seen: Observation) -> bool:
    task = container.task
    observed = context.observed(task.name, seen)
    if observed is None:
        raise TaskFailed(task.name, f"is not there on {task.host}; start it with `tfprov up`")
    if observed.state is not State.RUNNING and not observed.finished:
        raise failure(context, observed)
    if observed.finished or not needs_port(context, container):
        return True
    up = context.runtimes[task.host].serves(task)
    if up:
        context.report.note(f"{task.name} serves on {task.endpoint}")
    return up


def needs_port(context: Context, container: Container) -> bool:
    """Whether a task must listen before it counts as up: one that trains alone starts no server."""
    alone = sum(len(addresses) for addresses in context.cluster.spec.values()) == 1
    in_cluster = container.task.job in context.cluster.spec
    return container.ready == "port" and container.task.serves and not (alone and in_cluster)


def _too_slow(context: Context, container: Container, seconds: float) -> TaskFailed:
    task = container.task
    log = last_log(context, task.name, task.host)
    return TaskFailed(task.name, f"does not serve on {task.endpoint} after {seconds:g} s", log)


def failure(context: Context, observed: Observed) -> TaskFailed:
    """Return the error for a task that ended badly, with the last lines of its log."""
    is_chief = observed.task == context.cluster.chief.name
    code = observed.exit_code if is_chief and observed.exit_code else 1
    return TaskFailed(observed.task, observed.ending, last_log(context, observed.task, observed.host), code)


def last_log(context: Context, task: str, host: str) -> Sequence[str]:
    """Return the last lines a task printed."""
    return list(context.runtimes[host].logs(task, tail=LOG_LINES))

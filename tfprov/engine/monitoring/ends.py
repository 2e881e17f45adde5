"""Waits for workers and evaluators that still run when the chief is done."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from tfprov.engine.context import Context
from tfprov.engine.monitoring.chief_progress import MOST, tail_of
from tfprov.engine.monitoring.task_progress import read_pace
from tfprov.engine.observe import needs
from tfprov.errors import HostError
from tfprov.formats.checkpoint import CheckpointFiles, checkpoints
from tfprov.formats.event_file import progress
from tfprov.model.state import Container, HostState, Observation, State
from tfprov.planning.plan_text import join_names

_SETTLE = 1.0
"""Seconds that workers have to notice the end of the training before they are reported."""
_POLL = 1.0
"""Seconds between two observations of the tasks that are waited for."""
_NAMED = 3
"""Tasks that are named when many still run."""
_SERVING = ("in_graph", "parameter_server")
"""Strategies whose workers only serve: they train nothing once the chief is done."""


def wait_for_ends(
    context: Context,
    observation: Observation,
    look: Callable[[], Observation],
    known: Mapping[str, HostState] | None = None,
) -> None:
    """Wait for workers and evaluators that still run when the chief is done, and report those that run on.

    Each has the seconds of its `end.wait`. `look` returns a new observation. `known` has earlier states of hosts: those
    that do not answer now count as they were, and what was never observed there counts as running.
    """
    begin = context.clock.now()
    last = _with_known(context, observation, known or {})
    busy = _busy(context, last)
    try:
        while waited := [c for c in busy if context.clock.now() - begin < max(_SETTLE, c.end_wait)]:
            context.report.awaiting(f"waiting for {join_names([c.task.name for c in waited], _NAMED)} to end")
            context.clock.sleep(_POLL)
            observation = look()
            last = _with_known(context, observation, last.hosts)
            busy = _busy(context, last)
    finally:
        context.report.awaiting("")
    _report_unknown(context, busy, observation)
    busy = [container for container in busy if not _silent_hosts(context, container, observation)]
    _report_running(context, [c for c in busy if c.task.trains], observation)
    for evaluator in (c for c in busy if not c.task.trains):
        with suppress(HostError):
            if reason := _unevaluated(context, observation):
                context.report.note(f"{context.cluster.chief.name} is done, and {evaluator.task.name} {reason}")


def _with_known(context: Context, observation: Observation, known: Mapping[str, HostState]) -> Observation:
    """Return `observation` with the `known` states of hosts that do not answer now, but are asked again."""
    lost = {host: state for host, state in known.items() if host not in observation.hosts and needs(context, host)}
    return replace(observation, hosts={**observation.hosts, **lost})


def _busy(context: Context, observation: Observation) -> list[Container]:
    """Return the running workers, and the evaluators that have not evaluated the last checkpoint.

    `observation` has the last states of hosts; what is not known of a host that may still answer counts as busy.
    """
    busy = []
    for container in context.wanted:
        task = container.task
        if task == context.cluster.chief or not _may_run(context, container, observation):
            continue
        trains = task.trains and task.job != "ps" and container.strategy not in _SERVING
        if trains or (task.job == "evaluator" and _may_be_unevaluated(context, observation)):
            busy.append(container)
    return busy


def _may_run(context: Context, container: Container, observation: Observation) -> bool:
    observed = context.observed(container.task.name, observation)
    if observed is None:
        return container.task.host not in observation.hosts and needs(context, container.task.host)
    return observed.state is State.RUNNING


def _may_be_unevaluated(context: Context, observation: Observation) -> bool:
    try:
        return context.cluster.chief.host in observation.unreachable or bool(_unevaluated(context, observation))
    except HostError:  # a lost connection, or a file that is removed after the listing: another look may succeed
        return True


def _silent_hosts(context: Context, container: Container, observation: Observation) -> list[str]:
    """Return the hosts that do not answer and are needed to know whether a task is done."""
    hosts = [container.task.host] if container.task.trains else [container.task.host, context.cluster.chief.host]
    return [host for host in dict.fromkeys(hosts) if host not in observation.hosts]


def _report_unknown(context: Context, busy: Sequence[Container], observation: Observation) -> None:
    """Report the hosts that did not answer to the end of the time that their tasks have."""
    tasks: dict[str, list[str]] = {}
    for container in (one for one in busy if one.end_wait):
        for host in _silent_hosts(context, container, observation):
            tasks.setdefault(host, []).append(container.task.name)
    for host, names in tasks.items():
        undecided = f"{join_names(names, _NAMED)} may not be done"
        context.report.note(f"{context.cluster.chief.name} is done, and {host} does not answer: {undecided}")


def _report_running(context: Context, workers: Sequence[Container], observation: Observation) -> None:
    if not workers:
        return
    names = []
    for container in workers:
        name, observed = container.task.name, context.observed(container.task.name, observation)
        pace = read_pace(context.runtimes[observed.host], observed) if observed else None
        names.append(f"{name} (at step {pace.step:,})" if pace else name)
    longest = max(container.end_wait for container in workers)
    fix = (
        f", for longer than `end: {{wait: {longest}}}` allows" if longest else "; `end: {wait: 60}` would wait for that"
    )
    verb = "still runs" if len(names) == 1 else "still run"
    context.report.note(f"{context.cluster.chief.name} is done, and {join_names(names, _NAMED)} {verb}{fix}")


def _unevaluated(context: Context, observation: Observation) -> str:
    """Return that the evaluator has not evaluated the last checkpoint, as text; empty if it has, or if there is none.

    Raises HostError if the chief's files cannot be read.
    """
    chief = context.chief(observation)
    if chief is None:
        return ""
    runtime = context.runtimes[chief.host]
    files = runtime.files(chief.task)
    whole = [one for one in checkpoints(files) if one.whole and one.step >= 0]
    events = [name for name in files if ".tfevents." in name and "eval" in name.rpartition("/")[0]]
    if not whole:
        return ""
    read = [progress(tail_of(runtime, chief.task, name, files[name].size), MOST) for name in events]
    return _behind(max(whole, key=lambda one: one.step), [one.step for one in read if one is not None])


def _behind(last: CheckpointFiles, evaluated: Sequence[int]) -> str:
    if not evaluated:
        return (
            f"has written no event file that says it evaluated {last.prefix}; `end: {{wait: 60}}` would wait for that"
        )
    if max(evaluated) >= last.step:
        return ""
    return f"has not evaluated {last.prefix}: it is at step {max(evaluated):,}; `end: {{wait: 60}}` would wait for that"

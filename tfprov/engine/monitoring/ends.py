"""Waits for workers and evaluators that still run when the chief is done."""

from collections.abc import Callable, Sequence

from tfprov.engine.context import Context
from tfprov.engine.monitoring.chief_progress import MOST, tail_of
from tfprov.engine.monitoring.task_progress import read_pace
from tfprov.errors import HostError
from tfprov.formats.checkpoint import CheckpointFiles, checkpoints
from tfprov.formats.event_file import progress
from tfprov.model.state import Container, Observation, State
from tfprov.planning.plan_text import join_names

_SETTLE = 1.0
"""Seconds that workers have to notice the end of the training before they are reported."""
_POLL = 1.0
"""Seconds between two observations of the tasks that are waited for."""
_NAMED = 3
"""Tasks that are named when many still run."""
_SERVING = ("in_graph", "parameter_server")
"""Strategies whose workers only serve: they train nothing once the chief is done."""


def wait_for_ends(context: Context, observation: Observation, look: Callable[[], Observation]) -> None:
    """Wait for workers and evaluators that still run when the chief is done, and report those that run on.

    Each has the seconds of its `end.wait`. `look` returns a new observation.
    """
    begin = context.clock.now()
    busy = _busy(context, observation)
    try:
        while waited := [c for c in busy if context.clock.now() - begin < max(_SETTLE, c.end_wait)]:
            context.report.awaiting(f"waiting for {join_names([c.task.name for c in waited], _NAMED)} to end")
            context.clock.sleep(_POLL)
            observation = look()
            busy = _busy(context, observation)
    finally:
        context.report.awaiting("")
    _report_running(context, [c for c in busy if c.task.trains], observation)
    for evaluator in (c for c in busy if not c.task.trains):
        if reason := _unevaluated(context, observation):
            context.report.note(f"{context.cluster.chief.name} is done, and {evaluator.task.name} {reason}")


def _busy(context: Context, observation: Observation) -> list[Container]:
    """Return the running workers, and the evaluators that have not evaluated the last checkpoint."""
    busy = []
    for container in context.wanted:
        task, observed = container.task, context.observed(container.task.name, observation)
        if observed is None or observed.state is not State.RUNNING or task == context.cluster.chief:
            continue
        trains = task.trains and task.job != "ps" and container.strategy not in _SERVING
        if trains or (task.job == "evaluator" and _unevaluated(context, observation)):
            busy.append(container)
    return busy


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
    """Return that the evaluator has not evaluated the last checkpoint, as text; empty if it has, or if there is none."""
    chief = context.chief(observation)
    if chief is None:
        return ""
    runtime = context.runtimes[chief.host]
    try:
        files = runtime.files(chief.task)
        whole = [one for one in checkpoints(files) if one.whole and one.step >= 0]
        events = [name for name in files if ".tfevents." in name and "eval" in name.rpartition("/")[0]]
        if not whole:
            return ""
        read = [progress(tail_of(runtime, chief.task, name, files[name].size), MOST) for name in events]
    except HostError:  # a file that is removed between the listing and the reading
        return ""
    return _behind(max(whole, key=lambda one: one.step), [one.step for one in read if one is not None])


def _behind(last: CheckpointFiles, evaluated: Sequence[int]) -> str:
    if not evaluated:
        return (
            f"has written no event file that says it evaluated {last.prefix}; `end: {{wait: 60}}` would wait for that"
        )
    if max(evaluated) >= last.step:
        return ""
    return f"has not evaluated {last.prefix}: it is at step {max(evaluated):,}; `end: {{wait: 60}}` would wait for that"

"""The end of a training: who is cut short when the chief is done, and a chief that does not end after its last step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tfprov.checkpoint import Checkpoint, checkpoints
from tfprov.engine.context import Context
from tfprov.engine.watching.pace import read_pace
from tfprov.engine.watching.progress import tail_of
from tfprov.errors import HostError
from tfprov.events import Progress, progress
from tfprov.model.state import Container, Observation, State
from tfprov.planning.text import listed

_SETTLE = 1.0
"""Seconds in which a worker sees that the training is over: it is not told about one that ends in them."""
_LOOK = 1.0
"""Seconds between two looks at those that are waited for."""
_NAMED = 3
"""Tasks that are named when many still run."""
STANDSTILL = 30.0
"""Seconds after its last step in which a program saves and leaves; one that takes longer is called by name."""
_SERVING = ("in_graph", "parameter_server")
"""Strategies whose workers only serve: they train nothing once the chief is done."""
_MOST = 2 * 1024 * 1024
"""Bytes of an evaluator's event file that are looked at."""


def see_out(context: Context, seen: Observation, look: Callable[[], Observation]) -> None:
    """Wait for the workers and evaluators that still run when the chief is done, and name those that go on behind that.

    Each is given the seconds of its `end.wait`. `look` returns what the hosts say now.
    """
    begin = context.clock.now()
    busy = _busy(context, seen)
    try:
        while waited := [c for c in busy if context.clock.now() - begin < max(_SETTLE, c.end_wait)]:
            context.report.awaiting(f"waiting for {listed([c.task.name for c in waited], _NAMED)} to end")
            context.clock.sleep(_LOOK)
            seen = look()
            busy = _busy(context, seen)
    finally:
        context.report.awaiting("")
    _tell(context, [c for c in busy if c.task.trains], seen)
    for evaluator in (c for c in busy if not c.task.trains):
        if said := _unevaluated(context, seen):
            context.report.note(f"{context.cluster.chief.name} is done, and {evaluator.task.name} {said}")


def _busy(context: Context, seen: Observation) -> list[Container]:
    """Return who still runs and is not done: workers, and evaluators that have not evaluated the last checkpoint."""
    found = []
    for container in context.wanted:
        task, observed = container.task, context.observed(container.task.name, seen)
        if observed is None or observed.state is not State.RUNNING or task == context.cluster.chief:
            continue
        trains = task.trains and task.job != "ps" and container.strategy not in _SERVING
        if trains or (task.job == "evaluator" and _unevaluated(context, seen)):
            found.append(container)
    return found


def _tell(context: Context, workers: Sequence[Container], seen: Observation) -> None:
    if not workers:
        return
    names = []
    for container in workers:
        name, observed = container.task.name, context.observed(container.task.name, seen)
        pace = read_pace(context.runtimes[observed.host], observed) if observed else None
        names.append(f"{name} (at step {pace.step:,})" if pace else name)
    longest = max(container.end_wait for container in workers)
    fix = (
        f", for longer than `end: {{wait: {longest}}}` allows" if longest else "; `end: {wait: 60}` would wait for that"
    )
    verb = "still runs" if len(names) == 1 else "still run"
    context.report.note(f"{context.cluster.chief.name} is done, and {listed(names, _NAMED)} {verb}{fix}")


def _unevaluated(context: Context, seen: Observation) -> str:
    """Say which checkpoint an evaluator has not evaluated; empty where it has, or where there is none."""
    chief = context.chief(seen)
    if chief is None:
        return ""
    runtime = context.runtimes[chief.host]
    try:
        files = runtime.files(chief.task)
        whole = [one for one in checkpoints(files) if one.whole and one.step >= 0]
        events = [name for name in files if ".tfevents." in name and "eval" in name.rpartition("/")[0]]
        if not whole:
            return ""
        read = [progress(tail_of(runtime, chief.task, name, files[name].size), _MOST) for name in events]
    except HostError:  # a file that is removed between the listing and the reading
        return ""
    return _behind(max(whole, key=lambda one: one.step), [one.step for one in read if one is not None])


def _behind(last: Checkpoint, evaluated: Sequence[int]) -> str:
    if not evaluated:
        return (
            f"has written no event file that says it evaluated {last.prefix}; `end: {{wait: 60}}` would wait for that"
        )
    if max(evaluated) >= last.step:
        return ""
    return f"has not evaluated {last.prefix}: it is at step {max(evaluated):,}; `end: {{wait: 60}}` would wait for that"


@dataclass
class Standstill:
    """Notices a chief that runs on after its last step. Pure: what it has reached goes in, with the time in seconds."""

    since: float = 0.0
    state: tuple[int | None, bool] | None = None
    told: bool = False

    def update(self, reached: Progress | None, steps: int | None, *, others_done: bool, now: float) -> str:
        """Return what there is to tell, once; `steps` are those that it was asked for, `others_done` all other workers."""
        step = reached.step if reached is not None else None
        state = step, others_done
        if state != self.state:
            self.state, self.since, self.told = state, now, False
        at_its_end = steps is not None and step is not None and step >= steps
        if self.told or not (at_its_end or others_done) or now - self.since < STANDSTILL:
            return ""
        self.told = True
        what = f"is at its last step, {step:,}," if at_its_end else "makes no step, with all other workers done,"
        if step is None:
            what = "is the last of the workers that runs"
        since = f"for {now - self.since:.0f} s and has not ended"
        return f"{what} {since}: a thread or a child of its program may still run"

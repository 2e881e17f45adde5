"""Stay with a training until its chief is done: logs, progress, and the tasks that fall over on the way."""

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from tfprov.engine.context import Context
from tfprov.engine.observe import observe
from tfprov.engine.progress import read_progress
from tfprov.engine.waiting import failure
from tfprov.errors import TaskFailed, TfprovError
from tfprov.model.state import Observation, Observed, State

_LOOK = 0.5
"""Seconds between two looks at the tasks."""
_PROGRESS = 1.0
"""Seconds between two readings of the chief's event file."""
_DRAIN = 3.0
"""Seconds the last log lines get after the chief's end."""


def follow(context: Context, timeout: float | None = None, *, with_logs: bool = True) -> None:
    """Return when the chief has finished; TaskFailed, with its exit code, when it ends otherwise.

    Another worker that falls over is told and the training goes on without it; a ps that falls over takes the training
    with it, because its variables are gone and everyone else would wait for it in silence.
    """
    deadline = time.monotonic() + timeout if timeout else None
    with _logs(context) if with_logs else nullcontext():
        told: set[tuple[str, int]] = set()
        next_progress = 0.0
        while True:
            seen = observe(context)
            chief = _check(context, seen, told)
            if time.monotonic() >= next_progress:
                _tell_progress(context, seen)
                next_progress = time.monotonic() + _PROGRESS
            if chief.finished:
                break
            if deadline is not None and time.monotonic() > deadline:
                raise TaskFailed(chief.task, f"is not done after {timeout:g} s")
            time.sleep(_LOOK)
    _tell_progress(context, seen)


def _check(context: Context, seen: Observation, told: set[tuple[str, int]]) -> Observed:
    name = context.cluster.chief.name
    chief = context.chief(seen)
    if chief is None:
        raise TfprovError(f"{name} is gone: the cluster was taken down meanwhile")
    for observed in seen.containers():
        fallen = observed.state is not State.RUNNING and not observed.finished
        vital = observed.task == name or observed.task.startswith("ps/")
        if fallen and vital and not chief.finished:
            raise failure(context, observed) if observed.task == name else _without(context, observed)
        if fallen and (observed.task, observed.restarts) not in told:
            told.add((observed.task, observed.restarts))
            context.report.note(f"{failure(context, observed)}\nthe training goes on without {observed.task}")
    return chief


def _without(context: Context, ps: Observed) -> TaskFailed:
    error = failure(context, ps)
    return TaskFailed(ps.task, f"{ps.ending}: the training cannot go on without its variables", error.log, 1)


def _tell_progress(context: Context, seen: Observation) -> None:
    progress = read_progress(context, seen)
    if progress is not None:
        context.report.progress(progress)


@contextmanager
def _logs(context: Context) -> Iterator[None]:
    """Pass on what every task prints from now on, and what it printed since it started, until the block ends."""
    lines = log_lines(context, [container.task.name for container in context.wanted], tail=None)
    stop = threading.Event()

    def pump() -> None:
        for task, line in lines:
            if stop.is_set():
                return
            context.report.log(task, line)

    thread = threading.Thread(target=pump, daemon=True)
    thread.start()
    try:
        yield
        thread.join(_DRAIN)
    finally:
        stop.set()


def log_lines(context: Context, tasks: Sequence[str], *, tail: int | None) -> Iterator[tuple[str, str]]:
    """Follow the logs of several tasks at once; ends when all of them have ended."""
    seen = observe(context)
    lines: queue.Queue[tuple[str, str] | None] = queue.Queue(maxsize=10_000)
    found = [observed for task in tasks if (observed := context.observed(task, seen))]

    def read(observed: Observed) -> None:
        try:
            for line in context.runtimes[observed.host].logs(observed.task, tail=tail, follow=True):
                lines.put((observed.task, line))
        finally:
            lines.put(None)

    for observed in found:
        threading.Thread(target=read, args=(observed,), daemon=True).start()
    ended = 0
    while ended < len(found):
        item = lines.get()
        if item is None:
            ended += 1
        else:
            yield item

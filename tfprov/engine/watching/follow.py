"""Stay with a training until its chief is done: logs, progress, and the tasks that fall over on the way."""

import time
from contextlib import nullcontext
from dataclasses import dataclass, field

from tfprov.engine.context import Context
from tfprov.engine.watching.logs import logs
from tfprov.engine.watching.progress import read_progress
from tfprov.engine.watching.waiting import failure
from tfprov.engine.watching.watch import Watch
from tfprov.errors import TaskFailed, TfprovError
from tfprov.model.state import Observation, Observed, State

_LOOK = 0.5
"""Seconds between two looks at the tasks."""
_PROGRESS = 1.0
"""Seconds between two readings of the chief's event file."""
PATIENCE = 300.0
"""Seconds the chief's host may be out of reach: a switch that restarts, or a laptop that changes networks, takes a minute
or two, and the training needs nothing of us meanwhile."""


def follow(
    context: Context, timeout: float | None = None, *, with_logs: bool = True, patience: float = PATIENCE
) -> None:
    """Return when the chief has finished; TaskFailed, with its exit code, when it ends otherwise.

    Another worker that falls over is told and the training goes on without it; a ps that falls over takes the training
    with it, because its variables are gone and everyone else would wait for it in silence. A host that cannot be reached
    is told and looked for; Unreachable when it is the chief's and stays away for more than `patience` seconds.
    """
    deadline = time.monotonic() + timeout if timeout else None
    with logs(context) if with_logs else nullcontext(), Watch(context) as watch:
        training = _Training(context, watch, patience)
        while not training.look():
            if deadline is not None and time.monotonic() > deadline:
                raise TaskFailed(context.cluster.chief.name, f"is not done after {timeout:g} s")
            time.sleep(_LOOK)
    training.tell_progress()


@dataclass
class _Training:
    context: Context
    watch: Watch
    patience: float
    told: set[tuple[str, int]] = field(default_factory=set)
    seen: Observation = field(default_factory=lambda: Observation({}))
    next_progress: float = 0.0

    def look(self) -> bool:
        """Look once; return whether the training is done."""
        self.seen = self.watch.look()
        chief = self.chief()
        if chief is None:
            return False
        for observed in self.seen.containers():
            self.check(observed, chief)
        if time.monotonic() >= self.next_progress:
            self.tell_progress()
            self.next_progress = time.monotonic() + _PROGRESS
        return chief.finished

    def chief(self) -> Observed | None:
        """Return the chief; None while it is not known what is on its host."""
        wanted = self.context.cluster.chief
        chief = self.context.chief(self.seen)
        if chief is None and wanted.host in self.seen.hosts:
            raise TfprovError(f"{wanted.name} is gone: the cluster was taken down meanwhile")
        if chief is None:
            self.watch.check(wanted.host, self.patience)
        return chief

    def check(self, observed: Observed, chief: Observed) -> None:
        """Raise when the training cannot go on without `observed`, which has ended; tell it when it can."""
        fallen = observed.state is not State.RUNNING and not observed.finished
        is_chief = observed.task == chief.task
        if fallen and not chief.finished and (is_chief or observed.task.startswith("ps/")):
            error = failure(self.context, observed, self.seen)
            raise error if is_chief else _without(observed, error)
        if fallen and (observed.task, observed.restarts) not in self.told:
            self.told.add((observed.task, observed.restarts))
            error = failure(self.context, observed, self.seen)
            self.context.report.note(f"{error}\nthe training goes on without {observed.task}")

    def tell_progress(self) -> None:
        """Say how far the chief has got."""
        progress = read_progress(self.context, self.seen)
        if progress is not None:
            self.context.report.progress(progress)


def _without(ps: Observed, error: TaskFailed) -> TaskFailed:
    return TaskFailed(ps.task, f"{ps.ending}: the training cannot go on without its variables", error.log, 1)

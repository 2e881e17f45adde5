"""Stay with a training until its chief is done: logs, progress, and the tasks that fall over on the way."""

from contextlib import nullcontext
from dataclasses import dataclass, field

from tfprov.engine.context import Context
from tfprov.engine.watching.ending import Standstill, see_out
from tfprov.engine.watching.failures import failure, fallen, idle_end
from tfprov.engine.watching.falls import Falls, lives
from tfprov.engine.watching.logs import logs
from tfprov.engine.watching.lookout import Lookout
from tfprov.engine.watching.progress import Reached, read_fall, read_reached, steps_of
from tfprov.engine.watching.watch import Watch
from tfprov.errors import TaskFailed, TfprovError
from tfprov.model.state import Observation, Observed
from tfprov.planning.text import listed

_LOOK = 1.0
"""Seconds between two looks at the tasks."""
_PROGRESS = 2.0
"""Seconds between two readings of the chief's event file: one takes milliseconds of a core that may be a worker's, too."""
PATIENCE = 300.0
"""Seconds the chief's host may be out of reach: a switch that restarts, or a laptop that changes networks, takes a minute
or two, and the training needs nothing of us meanwhile."""

_INDISPENSABLE = {
    "ps": "its variables",
    "dispatcher": "its data",
}
"""What the training loses with a task that has ended for good, by its job: everyone else would wait for it in silence."""
_TOGETHER = ("multi_worker_mirrored", "in_graph")
"""Strategies in which every step needs every worker."""


def follow(
    context: Context,
    timeout: float | None = None,
    *,
    with_logs: bool = True,
    patience: float = PATIENCE,
    lookout: Lookout | None = None,
) -> None:
    """Return when the chief has finished; TaskFailed, with its exit code, when it ends otherwise.

    Workers and evaluators that still run then are given the time of their `end.wait`, and those that run on are named.

    A task that its restart policy starts again is told, and the training goes on; so it does without a worker that has
    ended for good. But a ps takes the training with it, because its variables are gone, and so does a worker where every
    step needs all of them. A host that cannot be reached is told and looked for; Unreachable when it is the chief's and
    stays away for more than `patience` seconds. `lookout` watches over the steps of the tasks, as it does by default.
    """
    deadline = context.clock.now() + timeout if timeout else None
    with (
        logs(context) if with_logs else nullcontext(),
        Watch(context) as watch,
        lookout or Lookout(context) as looking,
    ):
        training = _Training(context, watch, looking, patience)
        context.report.awaiting(f"waiting for the first step of {context.cluster.chief.name}")
        try:
            while not training.look():
                if deadline is not None and context.clock.now() > deadline:
                    raise TaskFailed(context.cluster.chief.name, f"is not done after {timeout:g} s")
                context.clock.sleep(_LOOK)
        finally:
            context.report.awaiting("")
        training.tell_progress()
        see_out(context, training.seen, watch.look)


@dataclass
class _Training:
    context: Context
    watch: Watch
    lookout: Lookout
    patience: float
    told: set[tuple[str, int]] = field(default_factory=set)
    seen: Observation = field(default_factory=lambda: Observation({}))
    next_progress: float = 0.0
    standstill: Standstill = field(default_factory=Standstill)
    falls: Falls = field(default_factory=Falls)

    def look(self) -> bool:
        """Look once; return whether the training is done."""
        self.seen = self.watch.look()
        chief = self.chief()
        if chief is None:
            return False
        self.check_fallen(chief)
        for observed in [chief] if chief.finished else self.seen.containers():
            if line := idle_end(self.context, observed):
                self.context.report.note(line)
        self.lookout.look(self.seen)
        if self.context.clock.now() >= self.next_progress:
            self.tell_progress()
            self.next_progress = self.context.clock.now() + _PROGRESS
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

    def check_fallen(self, chief: Observed) -> None:
        """Raise when the training cannot go on without a task that has ended for good; tell it of those it can lose."""
        new = [one for one in fallen(self.context, self.seen) if (one.task, one.restarts) not in self.told]
        if not new:
            return
        error = failure(self.context, new, self.seen)
        lasting = [one.task for one in new if one.task == chief.task or self.lost_with(one.task)]
        if lasting and not chief.finished:
            raise self.end_of_training(error)
        self.told.update((one.task, one.restarts) for one in new)
        names = listed([one.task for one in new], len(new))
        self.context.report.note(f"{error}\nthe training goes on without {names}")

    def end_of_training(self, error: TaskFailed) -> TaskFailed:
        """Return `error` with what the training has lost for good, where that is not its chief."""
        lost = "" if error.task == self.context.cluster.chief.name else self.lost_with(error.task)
        if not lost:
            return error
        what, remedy, fix = error.what.partition("; ")
        what = f"{what}: the training cannot go on without {lost}{remedy}{fix}"
        return TaskFailed(error.task, what, error.log, error.code, error.others)

    def lost_with(self, task: str) -> str:
        """Return what the training cannot do without and loses with a task; empty where it can go on."""
        job = task.partition("/")[0]
        wanted = self.context.container(task)
        strategy = wanted.strategy if wanted is not None else ""
        return "it" if job == "worker" and strategy in _TOGETHER else _INDISPENSABLE.get(job, "")

    def tell_progress(self) -> None:
        """Say how far the chief has got."""
        name, reached = self.context.cluster.chief.name, read_reached(self.context, self.seen)
        progress = reached.progress if reached is not None else None
        steps = steps_of(self.context)
        if progress is not None:
            self.context.report.awaiting("")
            self.context.report.progress(progress, steps)
        now = self.context.clock.now()
        if reached is not None and not self.lookout.reads(name):
            self.tell_fall(reached, now)
        if said := self.standstill.update(progress, steps, others_done=self.others_done(name), now=now):
            self.context.report.note(f"{name} {said}")

    def tell_fall(self, reached: Reached, now: float) -> None:
        """Say so when the training went back, and its program does not say it itself."""
        living = lives(self.seen.containers(), self.context.cluster.chief.name)
        if fell := self.falls.update(reached, living, now, lambda at: read_fall(self.context, self.seen, reached, at)):
            self.context.report.note(fell)

    def others_done(self, chief: str) -> bool:
        """Return whether there are workers besides the chief, and all of them are done."""
        tasks = [one.task.name for one in self.context.wanted if one.task.job == "worker"]
        others = [self.context.observed(name, self.seen) for name in tasks if name != chief]
        return bool(others) and all(one is not None and one.finished for one in others)

"""Follows a training until its chief is done: logs, progress, and failures of other tasks."""

from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Protocol

from tfprov.engine.context import Context
from tfprov.engine.monitoring.chief_progress import (
    STANDSTILL,
    Reached,
    Standstill,
    StepDrops,
    TotalSteps,
    lives,
    read_reached,
    read_step_drop,
    steps_of,
)
from tfprov.engine.monitoring.ends import wait_for_ends
from tfprov.engine.monitoring.failures import failed_tasks, failure, idle_end
from tfprov.engine.monitoring.logs import logs
from tfprov.engine.monitoring.straggler_monitor import StragglerMonitor, report_step_back
from tfprov.engine.monitoring.watch import GONE, Replacements, Watch
from tfprov.errors import DeadlineExceeded, HostError, TakenDown, TaskFailed, TfprovError, Usage
from tfprov.model.incident import IncidentKind
from tfprov.model.state import HostState, Observation, Observed, State
from tfprov.planning.plan_text import join_names
from tfprov.wiring import STANDALONE


def check_ends(context: Context) -> None:
    """Raise Usage for a cluster of bare servers, which has no end to wait for."""
    if any(container.strategy == STANDALONE for container in context.wanted):
        what = f"`strategy: {STANDALONE}` has servers that never end, and no program to wait for"
        raise Usage(what, "use `up`, `tfprov client -- PROGRAM`, and `down`")


def check_deadline(context: Context) -> None:
    """Raise DeadlineExceeded if the time of the run is over."""
    if context.deadline is not None and context.clock.now() > context.deadline:
        raise DeadlineExceeded(f"the `deadline` of this run is over before {context.cluster.chief.name} is done")


class Periodic(AbstractContextManager["Periodic"], Protocol):
    """Something to do again and again while a training is followed."""

    def look(self) -> None:
        """Do it if it is due. Never blocks."""


class _Nothing:
    def look(self) -> None:
        """Nothing is due."""


_NOTHING = _Nothing()

FIRST_STEP = "waiting for the first step of"
"""Begins what is awaited first when a training is followed: its cluster is up."""
_LOOK = 1.0
"""Seconds between two observations of all tasks."""
_PROGRESS = 2.0
"""Seconds between two readings of the chief's event file: one takes milliseconds of a core that may be a worker's, too."""
PATIENCE = 300.0
"""Seconds the chief's host may be unreachable: a restart of a switch, or a laptop's change of networks, takes a minute or
two, and the training runs on without the controller."""

_INDISPENSABLE = {
    "ps": "its variables",
    "dispatcher": "its data",
}
"""What the training loses with a failed task, by its job: other tasks would wait for it without an error."""
_TOGETHER = ("multi_worker_mirrored", "in_graph")
"""Strategies in which every step needs every worker."""


def follow(  # noqa: PLR0913  what follows beside it
    context: Context,
    timeout: float | None = None,
    *,
    with_logs: bool = True,
    patience: float = PATIENCE,
    monitor: StragglerMonitor | None = None,
    periodic: Periodic | None = None,
) -> None:
    """Return when the chief has finished; raise TaskFailed, with its exit code, if it fails.

    Workers and evaluators that still run then have the time of their `end.wait`; those that run on are reported.

    Restarts by a restart policy are reported, and the training continues, also without a worker that failed for good. A
    failed ps ends it, as its variables are lost, and so does a failed worker if every step needs all workers. Unreachable
    hosts are reported and tried again; raises Unreachable if the chief's host does not answer for `patience` seconds.
    `monitor` replaces the default straggler monitor; `periodic` is called after each look. Raises DeadlineExceeded when the
    time of the context's `deadline` is over.
    """
    check_ends(context)
    deadline = context.clock.now() + timeout if timeout else None
    with (
        logs(context) if with_logs else nullcontext(),
        Watch(context) as watch,
        monitor or StragglerMonitor(context) as stragglers,
        periodic or nullcontext(_NOTHING) as regularly,
    ):
        training = _Training(context, watch, stragglers, patience)
        context.report.awaiting(f"{FIRST_STEP} {context.cluster.chief.name}")
        try:
            while not training.look():
                regularly.look()
                check_deadline(context)
                if deadline is not None and context.clock.now() > deadline:
                    raise TaskFailed(context.cluster.chief.name, f"is not done after {timeout:g} s")
                context.clock.sleep(_LOOK)
        finally:
            context.report.awaiting("")
        training.report_progress()
        wait_for_ends(context, training.seen, watch.look, training.known)


@dataclass
class _Training:
    context: Context
    watch: Watch
    monitor: StragglerMonitor
    patience: float
    reported: set[tuple[str, int]] = field(default_factory=set)
    seen: Observation = field(default_factory=lambda: Observation({}))
    next_progress: float = 0.0
    standstill: Standstill = field(default_factory=Standstill)
    total: TotalSteps = field(default_factory=TotalSteps)
    step_drops: StepDrops = field(default_factory=StepDrops)
    present: dict[tuple[str, str], float] = field(default_factory=dict)
    """When each task was there last, by its name and its host; without those that were reported as gone."""
    ended: dict[tuple[str, str], float] = field(default_factory=dict)
    """When each ps that ended by itself was first seen so."""
    replacements: Replacements = field(default_factory=Replacements)
    known: dict[str, HostState] = field(default_factory=dict)
    """The last state of each host, also of one that does not answer now."""

    def look(self) -> bool:
        """Look once; return whether the training is done."""
        self.seen = self.watch.look()
        self.known |= self.seen.hosts
        self.replacements.update(self.seen.containers(), self.context.clock.now())
        chief = self.chief()
        if chief is None:
            return False
        if not self.is_chief_replaced(chief):
            self.check_failures(chief)
        self.report_gone()
        for observed in [chief] if chief.finished else self.seen.containers():
            if line := idle_end(self.context, observed):
                self.context.report.note(line)
        self.report_ended_ps(chief)
        self.monitor.look(self.seen)
        if self.context.clock.now() >= self.next_progress:
            self.report_progress()
            self.next_progress = self.context.clock.now() + _PROGRESS
        return chief.finished

    def chief(self) -> Observed | None:
        """Return the chief; None while its host is unreachable, and while another command may replace it."""
        wanted = self.context.cluster.chief
        chief = self.context.chief(self.seen)
        if chief is None and wanted.host in self.seen.hosts:
            if self.seen.unreachable or self.seen.containers():
                if self.replacements.ran_lately(wanted.name):
                    return None
                raise TfprovError(f"{wanted.name} is gone: somebody removed it", "start it again with `tfprov up`")
            what = f"{wanted.name} is gone: the cluster was taken down meanwhile"
            raise TakenDown(what, "`tfprov runs` has how its training ended")
        if chief is None:
            self.watch.check(wanted.host, self.patience)
        return chief

    def is_chief_replaced(self, chief: Observed) -> bool:
        """Whether another command may start the chief again. Raises TakenDown if it has stopped it and does not."""
        replaced = self.replacements.includes(chief)
        if chief.stopped and chief.state is not State.RUNNING and not replaced and chief.task in self.replacements.ran:
            raise TakenDown(f"another command has stopped {chief.task}", "`tfprov runs` has how its training ended")
        return replaced

    def check_failures(self, chief: Observed) -> None:
        """Raise if a task that the training needs has failed for good; report the failures of others."""
        failed = [one for one in failed_tasks(self.context, self.seen) if not self.replacements.includes(one)]
        failed = [one for one in failed if (one.task, one.restarts) not in self.reported]
        new = [one for one in failed if self.context.allows(one.host) or self.is_lasting(one, chief)]
        if not new:
            return
        error = failure(self.context, new, self.seen)
        lasting = [one for one in new if self.is_lasting(one, chief)]
        finished = chief.finished or (bool(lasting) and self.has_finished(chief))
        if lasting and not finished:
            raise self.end_of_training(error)
        self.reported.update((one.task, one.restarts) for one in new)
        names = join_names([one.task for one in new], len(new))
        text = f"{error}\n{f'{chief.task} has finished' if finished else 'the training goes on'} without {names}"
        self.context.report.incident(IncidentKind.TASK_FAILED, text, task=error.task)

    def is_lasting(self, failed: Observed, chief: Observed) -> bool:
        """Whether the training ends with a task that failed, also with one outside of the limit."""
        return failed.task == chief.task or bool(self.lost_with(failed.task))

    def has_finished(self, chief: Observed) -> bool:
        """Ask the chief's host alone: its state in a look may be older than that of a ps, which is lost once it is done."""
        with suppress(HostError):
            now = self.context.runtimes[chief.host].observe().containers
            return any(one.task == chief.task and one.finished for one in now)
        return False

    def report_gone(self) -> None:
        """Report the tasks whose containers somebody else has removed: nothing tells how they ended."""
        now = self.context.clock.now()
        self.present |= {(one.task, one.host): now for one in self.seen.containers()}
        for (task, host), at in list(self.present.items()):
            if host in self.seen.hosts and now - at >= GONE:
                del self.present[task, host]
                text = f"{task} on {host} is not there any more: somebody has removed it"
                self.context.report.incident(IncidentKind.TASK_FAILED, text, task=task, host=host)

    def report_ended_ps(self, chief: Observed) -> None:
        """Report a ps that ended by itself, for which TensorFlow waits without an error."""
        now = self.context.clock.now()
        for ps in (one for one in self.seen.containers() if one.task.startswith("ps/") and one.finished):
            place = ps.task, ps.host
            if now - self.ended.setdefault(place, now) < STANDSTILL or chief.finished or place in self.context.noted:
                continue
            self.context.noted.add(place)
            why = "a ps has to serve until the training ends"
            self.context.report.note(
                f"{ps.task} on {ps.host} has ended with exit code 0, and {chief.task} still runs: {why}"
            )

    def end_of_training(self, error: TaskFailed) -> TaskFailed:
        """Return `error` with what the training has lost for good, where that is not its chief."""
        lost = "" if error.task == self.context.cluster.chief.name else self.lost_with(error.task)
        if not lost:
            return error
        what, remedy, fix = error.what.partition("; ")
        what = f"{what}: the training cannot go on without {lost}{remedy}{fix}"
        return TaskFailed(error.task, what, error.log, error.code, error.others)

    def lost_with(self, task: str) -> str:
        """Return what the training needs and loses with a task; empty if it can continue."""
        job = task.partition("/")[0]
        wanted = self.context.container(task)
        strategy = wanted.strategy if wanted is not None else ""
        return "it" if job == "worker" and strategy in _TOGETHER else _INDISPENSABLE.get(job, "")

    def report_progress(self) -> None:
        """Report the chief's progress."""
        name, reached = self.context.cluster.chief.name, read_reached(self.context, self.seen)
        progress = reached.progress if reached is not None else None
        steps = None
        if progress is not None:
            flag = steps_of(self.context, self.context.chief(self.seen))
            steps = self.total.update(progress.step, flag, len(self.context.cluster.ranks))
            self.context.report.awaiting("")
            self.context.report.progress(progress, steps)
        now = self.context.clock.now()
        if reached is not None and not self.monitor.reads(name):
            self.report_step_drop(reached, now)
        others_done = self.others_done(name)
        if remark := self.standstill.update(progress, steps, others_done=others_done, now=now):
            self.context.report.note(f"{name} {remark}")
        if not (self.standstill.reported and others_done):  # the others may wait for ever, too
            self.monitor.report_stall(self.seen, reached)

    def report_step_drop(self, reached: Reached, now: float) -> None:
        """Report that the training went back to an earlier step, if its program does not report it itself."""
        living = lives(self.seen.containers(), self.context.cluster.chief.name)
        if fell := self.step_drops.update(
            reached, living, now, lambda at: read_step_drop(self.context, self.seen, reached, at)
        ):
            report_step_back(self.context, *fell)

    def others_done(self, chief: str) -> bool:
        """Return whether there are workers besides the chief, and all of them are done."""
        tasks = [one.task.name for one in self.context.wanted if one.task.job == "worker"]
        others = [self.context.observed(name, self.seen) for name in tasks if name != chief]
        return bool(others) and all(one is not None and one.finished for one in others)

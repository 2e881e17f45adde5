"""Monitors training tasks while a training is followed: lost steps, stragglers and stalled trainings with their stacks."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from statistics import median

from tfprov.engine.context import Context
from tfprov.engine.monitoring.chief_progress import Reached
from tfprov.engine.monitoring.task_progress import Pace, observed_running, read_pace, read_usage
from tfprov.errors import HostError
from tfprov.hosts.usage import Usage
from tfprov.model.incident import IncidentKind
from tfprov.model.state import Observation, Observed
from tfprov.planning.plan_text import join_names

AT_LEAST = 30.0
"""Seconds without a step before a task is a straggler: saving a large model takes less."""
BEFORE_THE_FIRST = 4.0
"""How much longer a task may take for its first step after a start or a restart: TensorFlow traces and compiles in it."""
TIMES = 10.0
"""Median steps that long, for trainings with slow ones."""


@dataclass(frozen=True)
class Straggler:
    """A task that has made no step of its own for `idle` seconds, while the median step takes `step` seconds."""

    task: str
    idle: float
    step: float


@dataclass
class _Known:
    """`since` is when its steps were last seen to change, or it was first seen; `moved` is None until they changed."""

    steps: int
    rate: float | None
    since: float
    read: float
    moved: float | None = None
    reported: bool = False


class Stragglers:
    """Detects stragglers among tasks that are read about every `every` seconds; gaps in the readings do not count."""

    def __init__(self, every: float, at_least: float = AT_LEAST) -> None:
        self._every, self._at_least = every, at_least
        self._known: dict[str, _Known] = {}

    def update(self, paces: Mapping[str, Pace], now: float) -> list[Straggler]:
        """Record the paces read at `now`, and return the stragglers that were not returned before."""
        for task, pace in paces.items():
            self._take(task, pace, now)
        step = self._median_step()
        return [straggler for task in paces if (straggler := self._judge(task, step, now)) is not None]

    def steps(self) -> Mapping[str, int]:
        """Return the steps of each task that were read last."""
        return {task: known.steps for task, known in self._known.items()}

    def _take(self, task: str, pace: Pace, now: float) -> None:
        known = self._known.get(task)
        if known is None or now - known.read > 3 * self._every:
            self._known[task] = _Known(pace.steps, pace.rate, now, now)
            return
        if pace.steps != known.steps:
            known.steps, known.since, known.moved, known.reported = pace.steps, now, now, False
        known.rate, known.read = pace.rate, now

    def _median_step(self) -> float:
        """Return the median seconds of a step; 0.0 if unknown."""
        rates = [known.rate for known in self._known.values() if known.rate]
        return 1 / median(rates) if rates else 0.0

    def _judge(self, task: str, step: float, now: float) -> Straggler | None:
        known = self._known[task]
        idle, limit = now - known.since, max(self._at_least, TIMES * step)
        limit *= 1.0 if known.steps else BEFORE_THE_FIRST
        # Other tasks must have made steps lately: if all stopped at about the same time, none is a straggler.
        meanwhile = max(known.since + limit / 2, now - 3 * max(self._every, step))
        if known.reported or idle < limit or not self._others_moved(task, meanwhile):
            return None
        known.reported = True
        return Straggler(task, idle, step)

    def _others_moved(self, task: str, since: float) -> bool:
        others = (known for name, known in self._known.items() if name != task)
        return any(known.moved is not None and known.moved >= since for known in others)


STALLED = 600.0
"""Seconds without a step of any task after which a training has stalled: most validate or save for less."""
_LONGER = 3.0
"""How many times the longest break of a training so far the next one may take."""
IDLE = 0.02
"""Cores below which a task waits: threads of TensorFlow wake up now and then."""
_USAGE = 60.0
"""Seconds between two readings of processor time."""


@dataclass
class Stall:
    """Detects that a training makes no step. Pure; times are in seconds."""

    tasks: object = None
    steps: object = None
    since: float = 0.0
    longest: float = 0.0
    """The longest break in which nothing was restarted."""
    reported: bool = False

    def update(self, tasks: object, steps: object, now: float) -> float:
        """Return how long `steps` and `tasks` have been the same, once for each stall, or else 0.0.

        `steps` is all that changes with a step, `tasks` what changes with a start or a restart.
        """
        if (tasks, steps) != (self.tasks, self.steps):
            if tasks == self.tasks:
                self.longest = max(self.longest, now - self.since)
            self.tasks, self.steps, self.since, self.reported = tasks, steps, now, False
        idle = now - self.since
        if self.reported or idle < max(STALLED, _LONGER * self.longest):
            return 0.0
        self.reported = True
        return idle


EVERY = 10.0
"""Seconds between two readings of a task's file: each takes several messages to its host."""
_EACH = 0.1
"""Seconds that every task adds to that in a large cluster, so that no more than ten are read in a second."""
STACKS = "SIGUSR1"
"""At this signal tfprov's runtime writes the stacks of all threads into the task's log."""
_NAMED = 3
"""Tasks that are named when many have written their stacks."""


def report_step_back(context: Context, lost: int, resumed: int) -> None:
    """Report that the training went on from step `resumed` after it had reached `lost`."""
    text, chief = f"the training went back {lost} -> {resumed}", context.cluster.chief
    context.report.incident(IncidentKind.WENT_BACK, text, task=chief.name, host=chief.host, lost=lost, resumed=resumed)


class StragglerMonitor:
    """Reads the tasks' progress in the background, `forks` at a time, without lost hosts. Close it with `close`.

    `every` is the seconds between readings, `at_least` the seconds without a step before a task is a straggler.
    """

    def __init__(self, context: Context, every: float = EVERY, at_least: float | None = None) -> None:
        self._context = context
        self._every = max(every, _EACH * len(context.wanted))
        self._judge = Stragglers(self._every) if at_least is None else Stragglers(self._every, at_least)
        self._pool = context.clock.pool(min(context.forks, len(context.wanted)))
        self._wanted = {container.task.name for container in context.wanted}
        self._reading: dict[str, Future[Pace | None]] = {}
        self._next = 0.0
        self._back: tuple[int, int] | None = None
        self._with_progress: set[str] = set()
        self._stall, self._reached = Stall(), Reached(0, "")
        self._usage: dict[str, Future[Mapping[str, Usage]]] = {}
        self._next_usage, self._busy = 0.0, 0
        self._lock, self._closed = threading.RLock(), False

    def look(self, observation: Observation) -> None:
        """Process what was read, report lost steps and stragglers, and start the next reading when due. Never blocks."""
        now = self._context.clock.now()
        running = {one.task: one for one in self._running(observation)}
        paces = {task: pace for task, pace in self._answers().items() if task in running}
        self._with_progress.update(paces)
        self._report_step_back(paces)
        for straggler in self._judge.update(paces, now):
            self._pool.submit(self._take_stacks, straggler, running[straggler.task])
        if now >= self._next:
            self._next = now + self._every
            self._read(running.values())

    def _running(self, observation: Observation) -> list[Observed]:
        return [one for one in observed_running(observation.containers()) if one.task in self._wanted]

    def reads(self, task: str) -> bool:
        """Whether `task` writes its own progress, with lost steps."""
        return task in self._with_progress

    def report_stall(self, observation: Observation, reached: Reached | None) -> None:
        """Report, once, that no task makes a step; `reached` is the chief's progress by its files. Never blocks.

        Where no task has written a step of its own, all must wait meanwhile, by their processor time: the first step may
        take long to compile, and TensorFlow writes event files minutes later.
        """
        now = self._context.clock.now()
        running = self._running(observation)
        self._reached = reached or self._reached
        steps = self._judge.steps()
        if not (counts_steps := any(steps.values())):
            self._count_busy(running, now)
        tasks = {(one.task, one.host, one.started_at, one.restarts, one.paused) for one in running}
        idle = self._stall.update(tasks, (steps, self._reached.step, self._reached.saved, self._busy), now)
        if idle and running and not any(one.paused for one in running):
            text = f"{running[0].task if len(running) == 1 else 'the training'} has made no step for {idle:.0f} s"
            text += "" if counts_steps else ", in which no task has used its CPU"
            self._pool.submit(self._take_all_stacks, running, text)

    def _count_busy(self, running: Sequence[Observed], now: float) -> None:
        """Count the tasks that have used their CPU since the last reading, or of which that is not known."""
        read = {host: future.result() for host, future in self._usage.items() if future.done()}
        self._usage = {host: future for host, future in self._usage.items() if host not in read}
        for one in running:
            if one.host in read:
                cpu = read[one.host].get(one.task, Usage()).cpu
                self._busy += cpu is None or cpu >= IDLE
        if now >= self._next_usage:
            self._next_usage = now + _USAGE
            for host in {one.host for one in running} - self._usage.keys():
                self._usage[host] = self._pool.submit(read_usage, self._context, host)

    def _take_all_stacks(self, running: Sequence[Observed], text: str) -> None:
        """Have the tasks of a stalled training write their stacks into their logs, and report it; in the background."""
        taken = [one.task for one in running if self._signal(one)]
        remark = f"stacks are in the logs of {join_names(taken, _NAMED)}"
        if not taken:
            remark = f"no program handles {STACKS}, so that `tfprov logs` has no stacks"
        chief = self._context.cluster.chief
        self._report(IncidentKind.STALLED, f"{text}; {remark}", chief.name, chief.host)

    def _report(self, kind: IncidentKind, text: str, task: str, host: str) -> None:
        """Report an incident, unless this is closed: a slow host answers to a signal after the end of the training."""
        with self._lock:
            if not self._closed:
                self._context.report.incident(kind, text, task=task, host=host)

    def _signal(self, observed: Observed) -> bool:
        try:
            return self._context.runtimes[observed.host].signal(observed.task, STACKS)
        except HostError:
            return False

    def _read(self, running: Iterable[Observed]) -> None:
        for observed in running:
            if observed.task not in self._reading:
                runtime = self._context.runtimes[observed.host]
                self._reading[observed.task] = self._pool.submit(read_pace, runtime, observed)

    def _answers(self) -> dict[str, Pace]:
        done = [task for task, future in self._reading.items() if future.done()]
        answers = {task: self._reading.pop(task).result() for task in done}
        return {task: pace for task, pace in answers.items() if pace is not None}

    def _report_step_back(self, paces: dict[str, Pace]) -> None:
        chief = paces.get(self._context.cluster.chief.name)
        back = chief.step_back if chief is not None else None
        if back is not None and back != self._back:
            self._back = back
            report_step_back(self._context, *back)

    def _take_stacks(self, straggler: Straggler, observed: Observed) -> None:
        """Have the straggler write its stacks into its log, and report it; runs in the background."""
        behind = f"{straggler.task} on {observed.host} has made no step for {straggler.idle:.0f} s while others do"
        if straggler.step:
            behind += f" (a step takes {straggler.step:.3g} s)"
        try:
            taken = self._context.runtimes[observed.host].signal(observed.task, STACKS)
            where = f"its stacks are in `tfprov logs {observed.task}`"
            remark = where if taken else f"its program handles no {STACKS}, so its stacks cannot be had"
        except HostError as error:
            remark = f"its stacks cannot be had: {error.reason}"
        self._report(IncidentKind.STRAGGLER, f"{behind}; {remark}", straggler.task, observed.host)

    def close(self) -> None:
        """Start no more readings, and report nothing more; does not wait for readings that run."""
        with self._lock:
            self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def __enter__(self) -> "StragglerMonitor":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

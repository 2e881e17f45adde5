"""How all training tasks get on while a training is followed: who lost steps, and who stands still, with its stacks."""

from collections.abc import Iterable
from concurrent.futures import Future

from tfprov.engine.context import Context
from tfprov.engine.watching.pace import Pace, observed_running, read_pace
from tfprov.engine.watching.stragglers import Straggler, Stragglers
from tfprov.errors import HostError
from tfprov.model.state import Observation, Observed

EVERY = 10.0
"""Seconds between two readings of a task's file: each takes several messages to its host."""
_EACH = 0.1
"""Seconds that every task adds to that in a large cluster, so that no more than ten are read in a second."""
STACKS = "SIGUSR1"
"""At this signal tfprov's runtime writes the stacks of all threads into the task's log."""


class Lookout:
    """Reads in the background, `forks` tasks at a time; a host that is lost is not asked. Leave it with `close`.

    `every` is in seconds, as is `at_least`: how long a task stands still before it is called a straggler.
    """

    def __init__(self, context: Context, every: float = EVERY, at_least: float | None = None) -> None:
        self._context = context
        self._every = max(every, _EACH * len(context.wanted))
        self._judge = Stragglers(self._every) if at_least is None else Stragglers(self._every, at_least)
        self._pool = context.clock.pool(min(context.forks, len(context.wanted)))
        self._wanted = {container.task.name for container in context.wanted}
        self._asked: dict[str, Future[Pace | None]] = {}
        self._next = 0.0
        self._back: tuple[int | None, int | None] = None, None
        self._spoken: set[str] = set()

    def look(self, seen: Observation) -> None:
        """Take what has been read, tell what there is to tell, and read again when it is time. Never waits."""
        now = self._context.clock.now()
        running = {one.task: one for one in observed_running(seen.containers()) if one.task in self._wanted}
        paces = {task: pace for task, pace in self._answers().items() if task in running}
        self._spoken.update(paces)
        self._tell_step_back(paces)
        for straggler in self._judge.update(paces, now):
            self._pool.submit(self._take_stacks, straggler, running[straggler.task])
        if now >= self._next:
            self._next = now + self._every
            self._ask(running.values())

    def reads(self, task: str) -> bool:
        """Whether `task` says itself how far it is, and what it lost."""
        return task in self._spoken

    def _ask(self, running: Iterable[Observed]) -> None:
        for observed in running:
            if observed.task not in self._asked:
                runtime = self._context.runtimes[observed.host]
                self._asked[observed.task] = self._pool.submit(read_pace, runtime, observed)

    def _answers(self) -> dict[str, Pace]:
        done = [task for task, future in self._asked.items() if future.done()]
        answers = {task: self._asked.pop(task).result() for task in done}
        return {task: pace for task, pace in answers.items() if pace is not None}

    def _tell_step_back(self, paces: dict[str, Pace]) -> None:
        chief = paces.get(self._context.cluster.chief.name)
        if chief is not None and chief.went_back and self._back != (chief.lost, chief.resumed):
            self._back = chief.lost, chief.resumed
            self._context.report.note(f"the training went back {chief.lost} -> {chief.resumed}")

    def _take_stacks(self, straggler: Straggler, observed: Observed) -> None:
        """Have the straggler write where it is, and tell about it; runs in the background."""
        behind = f"{straggler.task} on {observed.host} has made no step for {straggler.idle:.0f} s while others do"
        if straggler.step:
            behind += f" (a step takes {straggler.step:.3g} s)"
        try:
            taken = self._context.runtimes[observed.host].signal(observed.task, STACKS)
            where = f"its stacks are in `tfprov logs {observed.task}`"
            told = where if taken else f"its program handles no {STACKS}, so its stacks cannot be had"
        except HostError as error:
            told = f"its stacks cannot be had: {error.reason}"
        self._context.report.note(f"{behind}; {told}")

    def close(self) -> None:
        """Ask nobody any more; does not wait for those who have not answered."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def __enter__(self) -> "Lookout":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

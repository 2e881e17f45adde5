"""Which training tasks make no step any more while others do. Pure: what the tasks say goes in, with the time."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from tfprov.engine.watching.pace import Pace

AT_LEAST = 30.0
"""Seconds without a step before a task is called a straggler: a save of a large model takes less."""
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
    told: bool = False


class Stragglers:
    """Judges tasks that are read about every `every` seconds; while one is not read, that does not count against it."""

    def __init__(self, every: float, at_least: float = AT_LEAST) -> None:
        self._every, self._at_least = every, at_least
        self._known: dict[str, _Known] = {}

    def update(self, paces: Mapping[str, Pace], now: float) -> list[Straggler]:
        """Take in what was read at `now`, and return the stragglers among these that have not been called so yet."""
        for task, pace in paces.items():
            self._take(task, pace, now)
        step = self._median_step()
        return [found for task in paces if (found := self._judge(task, step, now)) is not None]

    def _take(self, task: str, pace: Pace, now: float) -> None:
        known = self._known.get(task)
        if known is None or now - known.read > 3 * self._every:
            self._known[task] = _Known(pace.steps, pace.rate, now, now)
            return
        if pace.steps != known.steps:
            known.steps, known.since, known.moved, known.told = pace.steps, now, now, False
        known.rate, known.read = pace.rate, now

    def _median_step(self) -> float:
        """Return how many seconds a step takes; 0.0 while nobody has said so."""
        rates = [known.rate for known in self._known.values() if known.rate]
        return 1 / median(rates) if rates else 0.0

    def _judge(self, task: str, step: float, now: float) -> Straggler | None:
        known = self._known[task]
        idle, limit = now - known.since, max(self._at_least, TIMES * step)
        limit *= 1.0 if known.steps else BEFORE_THE_FIRST
        # Others have to have gone on meanwhile, and lately: where all stopped at about the same time, nobody is behind.
        meanwhile = max(known.since + limit / 2, now - 3 * max(self._every, step))
        if known.told or idle < limit or not self._others_moved(task, meanwhile):
            return None
        known.told = True
        return Straggler(task, idle, step)

    def _others_moved(self, task: str, since: float) -> bool:
        others = (known for name, known in self._known.items() if name != task)
        return any(known.moved is not None and known.moved >= since for known in others)

"""Steps that a training lost, for programs that say nothing of it themselves: from what its chief's files say. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tfprov.engine.watching.progress import Reached
from tfprov.model.state import Observed

Fall = tuple[int, int]
"""A step, and the lower one that came next."""

WHILE = 600.0
"""Seconds in which a session recovers: restarts are seconds apart, and TensorFlow looks for its peers every 30 seconds."""

Lives = frozenset[tuple[str, str, float | None, int]]
"""Which lives the chief and the ps are in: a training falls back when one of them begins a new one."""


def lives(found: Iterable[Observed], chief: str) -> Lives:
    """Return the lives of the tasks with which a training loses steps: its chief and its ps."""
    holding = (one for one in found if one.task == chief or one.task.startswith("ps/"))
    return frozenset((one.task, one.host, one.started_at, one.restarts) for one in holding)


@dataclass
class Falls:
    """Compares steps with those of before: a lower one counts for a while after the chief or a ps was started again.

    Without that it is a program's own way of counting, such as one that begins anew with each epoch. For a while, because
    the last step of before is read again until the session has recovered.
    """

    highest: dict[str, int] = field(default_factory=dict)
    written: dict[str, float] = field(default_factory=dict)
    saved: float = 0.0
    lives: Lives | None = None
    begun: float | None = None

    def update(self, reached: Reached, now: Lives, at: float, fall: Callable[[float], Fall | None]) -> str:
        """Return what there is to tell of what was `reached` at time `at`.

        `fall` returns the last fall in the same file that was written after a time of the host's clock.
        """
        if self.lives is not None and now != self.lives:
            self.begun = at
        self.lives, source = now, reached.source
        before = self.highest.get(source, reached.step)
        armed = self.begun is not None and at - self.begun <= WHILE
        fell = (before, reached.step) if reached.step < before else None
        if armed and fell is None and reached.saved is not None and reached.saved[1] > self.saved:
            # A session that is made anew saves at once, and may write no event until it is where it was.
            fell = (before, reached.saved[0]) if reached.saved[0] < before else None
        if armed and fell is None and source in self.written:
            fell = fall(self.written[source])
        if not armed or fell is None:
            self.highest[source] = max(before, reached.step)
            if not armed and reached.progress is not None:
                self.written[source] = reached.progress.wall_time
            if not armed and reached.saved is not None:
                self.saved = reached.saved[1]
            return ""
        self.highest, self.begun = {source: reached.step}, None
        self.saved = reached.saved[1] if reached.saved is not None else self.saved
        return f"the training went back {fell[0]} -> {fell[1]}"

"""Steps that a training lost, for programs that say nothing of it themselves: from what its chief's files say. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tfprov.model.state import Observed

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
    lives: Lives | None = None
    begun: float | None = None

    def update(self, source: str, step: int, now: Lives, at: float) -> str:
        """Return what there is to tell of `step`, which `source`, such as a directory of event files, says at time `at`."""
        if self.lives is not None and now != self.lives:
            self.begun = at
        self.lives = now
        before = self.highest.get(source, step)
        if step >= before:
            self.highest[source] = step
            return ""
        if self.begun is None or at - self.begun > WHILE:
            return ""
        self.highest, self.begun = {source: step}, None
        return f"the training went back {before} -> {step}"

"""Steps that a training lost, for programs that say nothing of it themselves: from what its chief's files say. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tfprov.model.state import Observed

Lives = frozenset[tuple[str, str, float | None, int]]
"""Which lives the chief and the ps are in: a training falls back when one of them begins a new one."""


def lives(found: Iterable[Observed], chief: str) -> Lives:
    """Return the lives of the tasks with which a training loses steps: its chief and its ps."""
    holding = (one for one in found if one.task == chief or one.task.startswith("ps/"))
    return frozenset((one.task, one.host, one.started_at, one.restarts) for one in holding)


@dataclass
class Falls:
    """Compares steps with those of before: a lower one counts once the chief or a ps was started again.

    Without that it is a program's own way of counting, such as one that begins anew with each epoch.
    """

    highest: dict[str, tuple[int, Lives]] = field(default_factory=dict)

    def update(self, source: str, step: int, now: Lives) -> str:
        """Return what there is to tell of `step`, which `source`, such as a directory of event files, says now."""
        before, then = self.highest.get(source, (step, now))
        if step < before and now == then:
            return ""
        self.highest[source] = step, now
        return f"the training went back {before} -> {step}" if step < before else ""

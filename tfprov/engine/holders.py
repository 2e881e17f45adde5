"""Who may hold checkpoints: what has to be asked before anything is removed."""

from collections.abc import Callable, Iterable

from tfprov.engine.context import Context
from tfprov.engine.gather import unsaved
from tfprov.model.state import Observation, Observed

_CHIEFS = ("chief/0", "worker/0")
"""The tasks that save: a training whose inventory was edited may have left the former one behind."""


def holders(context: Context, seen: Observation) -> list[Observed]:
    """Return the chief, and before it the former ones that hold a checkpoint which was not gathered.

    The present chief comes last, so that its checkpoints end on top.
    """
    chief = context.chief(seen)
    others = [container for container in seen.containers() if container.task in _CHIEFS and container != chief]
    return [*(other for other in others if unsaved(context, other)), *([chief] if chief else [])]


def unsaved_among(
    context: Context, seen: Observation, chosen: Callable[[Observed], bool]
) -> dict[tuple[str, str], tuple[Observed, str]]:
    """Return the `chosen` holders of a checkpoint that was not gathered, with its name, by (task, host)."""
    found: Iterable[tuple[Observed, str | None]] = (
        (h, unsaved(context, h)) for h in holders(context, seen) if chosen(h)
    )
    return {(holder.task, holder.host): (holder, prefix) for holder, prefix in found if prefix is not None}

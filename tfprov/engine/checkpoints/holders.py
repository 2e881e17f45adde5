"""Who may hold checkpoints: what has to be asked before anything is removed."""

from collections.abc import Callable, Collection, Iterator

from tfprov.engine.checkpoints.unsaved import Unsaved, unsaved
from tfprov.engine.context import Context
from tfprov.model.state import Observation, Observed

_CHIEFS = ("chief/0", "worker/0")
"""The tasks that save: a training whose inventory was edited may have left the former one behind."""

Place = tuple[str, str]
"""A task's name and a host."""


def holders(context: Context, seen: Observation) -> list[Observed]:
    """Return whom to gather from: the chief, and before it the others that hold a checkpoint which was not gathered.

    The present chief comes last, so that its checkpoints end on top.
    """
    chief = context.chief(seen)
    others = [one for one in _saving(seen) if one != chief]
    return [*(one for one in others if unsaved(context, one, seen)), *([chief] if chief else [])]


def unsaved_among(
    context: Context, seen: Observation, chosen: Callable[[Observed], bool]
) -> dict[Place, tuple[Observed, str]]:
    """Return the `chosen` that hold a checkpoint which was not gathered, or a part of it, with its name.

    That is the chief that saved it, and the ps that have its shards: without one of them it is lost.
    """
    parts = ((holder, one.prefix) for one in _unsaved(context, seen) for holder in one.holders)
    return {(holder.task, holder.host): (holder, prefix) for holder, prefix in parts if chosen(holder)}


def savers(context: Context, seen: Observation, held: Collection[Place]) -> list[Observed]:
    """Return whom to gather from, so that nothing is lost with the containers in `held`."""
    every = _unsaved(context, seen)
    return [one.source for one in every if any((holder.task, holder.host) in held for holder in one.holders)]


def _unsaved(context: Context, seen: Observation) -> Iterator[Unsaved]:
    yield from filter(None, (unsaved(context, one, seen) for one in _saving(seen)))


def _saving(seen: Observation) -> Iterator[Observed]:
    """Yield the containers whose task saves; where those of a run are gone, its ps, which may have kept their shards."""
    chiefs = [one for one in seen.containers() if one.task in _CHIEFS]
    yield from chiefs
    runs = {one.run for one in chiefs}
    yield from (one for one in seen.containers() if one.task.startswith("ps/") and one.run not in runs)

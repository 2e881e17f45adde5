"""Checkpoints on hosts that were not gathered: the reason to keep a task."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from tfprov.engine.checkpoints import manifest as manifests
from tfprov.engine.checkpoints.manifest import Manifest
from tfprov.engine.checkpoints.shards import Survey, WholeCheckpoint, survey
from tfprov.engine.context import Context
from tfprov.engine.observe import observe
from tfprov.errors import GatherError
from tfprov.formats.checkpoint import step_of
from tfprov.model.state import Observation, Observed


@dataclass(frozen=True)
class Ungathered:
    """A checkpoint that was not gathered: `source` is the container to gather from, `holders` all that have files of it."""

    prefix: str
    source: Observed
    holders: tuple[Observed, ...]


def unsaved(context: Context, holder: Observed, observation: Observation | None = None) -> Ungathered | None:
    """Return the newest checkpoint of a container that was not gathered, or None.

    Checkpoints that may be complete but cannot be gathered count, and so does one that the `checkpoint` file names as the
    newest and that lacks files: it must not be removed by mistake.
    """
    look = survey(context, holder, lambda: observation or observe(context))
    kept = gathered_of(context, holder.run)
    new = [one for one in look.whole if is_new(one, kept)]
    torn = [prefix for prefix in look.named[:1] if look.find(prefix) is None]
    doubtful = [
        prefix for prefix in dict.fromkeys([*look.doubtful, *torn]) if kept is None or step_of(prefix) > kept.step
    ]
    prefixes = [*doubtful, *(one.checkpoint.prefix for one in new)]
    if not prefixes:
        return None
    newest = max(prefixes, key=lambda prefix: (step_of(prefix), prefix))
    return Ungathered(newest, holder, _holders(look, doubtful, new))


def gathered_of(context: Context, run: str) -> Manifest | None:
    """Return the manifest of a run, which may have been set aside for another run; None if nothing of it was gathered."""
    number, directory = 0, context.target
    while number == 0 or directory.exists():
        try:
            saved = manifests.read(directory)
        except GatherError:  # unreadable: count nothing as gathered
            saved = None
        if saved is not None and saved.cluster == context.cluster.name and saved.run == run:
            return saved
        number += 1
        directory = manifests.aside(context.target, number)
    return None


def _holders(look: Survey, doubtful: list[str], new: list[WholeCheckpoint]) -> tuple[Observed, ...]:
    of_ps = [ps for prefix in doubtful for ps in look.held_by.get(prefix, ())]
    of_ps += [one.place.holder for one in new]
    by_place = {(holder.task, holder.host): holder for holder in (look.chief.holder, *of_ps)}
    return tuple(by_place.values())


def is_new(one: WholeCheckpoint, kept: Manifest | None) -> bool:
    """Whether a checkpoint is newer than the gathered ones of its series; without a step, whether its files changed."""
    if kept is None:
        return True
    if one.checkpoint.step >= 0:
        return kept.is_newer(one.checkpoint.prefix)
    return any(kept.has_changed(name, place.files[name]) for name, place in one.files().items())


_CHIEFS = ("chief/0", "worker/0")
"""The tasks that may save checkpoints; after an edit of the inventory, the former chief can still exist."""

TaskOnHost = tuple[str, str]
"""A task's name and a host."""


def holders(context: Context, observation: Observation) -> list[Observed]:
    """Return the containers to gather from: former chiefs with ungathered checkpoints, then the chief.

    The chief comes last, so that its run ends in the gather directory.
    """
    chief = context.chief(observation)
    others = [one for one in _saving(observation) if one != chief]
    return [*(one for one in others if unsaved(context, one, observation)), *([chief] if chief else [])]


def unsaved_among(
    context: Context, observation: Observation, chosen: Callable[[Observed], bool]
) -> dict[TaskOnHost, tuple[Observed, str]]:
    """Return the `chosen` containers with files of an ungathered checkpoint, and the checkpoint's name.

    These are the chief that saved it and the ps with its shards: without one of them it is lost.
    """
    parts = ((holder, one.prefix) for one in _unsaved(context, observation) for holder in one.holders)
    return {(holder.task, holder.host): (holder, prefix) for holder, prefix in parts if chosen(holder)}


def savers(context: Context, observation: Observation, held: Collection[TaskOnHost]) -> list[Observed]:
    """Return the containers to gather from before those in `held` are removed."""
    every = _unsaved(context, observation)
    return [one.source for one in every if any((holder.task, holder.host) in held for holder in one.holders)]


def _unsaved(context: Context, observation: Observation) -> Iterator[Ungathered]:
    yield from filter(None, (unsaved(context, one, observation) for one in _saving(observation)))


def former_chiefs(context: Context, observation: Observation) -> set[TaskOnHost]:
    """Return the containers that saved before an edit of the inventory gave the cluster another chief."""
    chief = context.cluster.chief.name
    return {(one.task, one.host) for one in _saving(observation) if one.task in _CHIEFS and one.task != chief}


def _saving(observation: Observation) -> Iterator[Observed]:
    """Yield the containers that save, and the ps of runs without one, which may have shards.

    Beside a chief of its run, a worker saves nothing: it may have files of when it was the chief, of an earlier run.
    """
    chiefs = [one for one in observation.containers() if one.task in _CHIEFS]
    led = {one.run for one in chiefs if one.task == _CHIEFS[0]}
    yield from (one for one in chiefs if one.task == _CHIEFS[0] or one.run not in led)
    runs = {one.run for one in chiefs}
    yield from (one for one in observation.containers() if one.task.startswith("ps/") and one.run not in runs)

"""What the hosts hold and the controller has not: the reason not to remove something."""

from dataclasses import dataclass

from tfprov.checkpoint import step_of
from tfprov.engine.checkpoints import manifest as manifests
from tfprov.engine.checkpoints.manifest import Manifest
from tfprov.engine.checkpoints.shards import Survey, Whole, survey
from tfprov.engine.context import Context
from tfprov.engine.observe import observe
from tfprov.errors import GatherError
from tfprov.model.state import Observation, Observed


@dataclass(frozen=True)
class Unsaved:
    """A checkpoint that was not gathered; it is gathered from `source`, and every one of `holders` has a part of it."""

    prefix: str
    source: Observed
    holders: tuple[Observed, ...]


def unsaved(context: Context, found: Observed, seen: Observation | None = None) -> Unsaved | None:
    """Return the newest checkpoint that a container saved and that was not gathered yet, else None.

    One that may be whole, and cannot be taken as it lies, counts as well, and so does one that the program calls its newest
    and that lacks files: nobody removes it by mistake.
    """
    look = survey(context, found, lambda: seen or observe(context))
    kept = gathered_of(context, found.run)
    new = [one for one in look.whole if is_new(one, kept)]
    torn = [prefix for prefix in look.named[:1] if look.find(prefix) is None]
    doubtful = [
        prefix for prefix in dict.fromkeys([*look.doubtful, *torn]) if kept is None or step_of(prefix) > kept.step
    ]
    prefixes = [*doubtful, *(one.checkpoint.prefix for one in new)]
    if not prefixes:
        return None
    newest = max(prefixes, key=lambda prefix: (step_of(prefix), prefix))
    return Unsaved(newest, found, _holders(look, doubtful, new))


def gathered_of(context: Context, run: str) -> Manifest | None:
    """Return what was gathered of a run; another run may have taken its place, and then it was set aside."""
    number, directory = 0, context.target
    while number == 0 or directory.exists():
        try:
            saved = manifests.read(directory)
        except GatherError:  # nobody can say any more that anything is safe
            saved = None
        if saved is not None and saved.cluster == context.cluster.name and saved.run == run:
            return saved
        number += 1
        directory = manifests.aside(context.target, number)
    return None


def _holders(look: Survey, doubtful: list[str], new: list[Whole]) -> tuple[Observed, ...]:
    of_ps = [ps for prefix in doubtful for ps in look.held_by.get(prefix, ())]
    of_ps += [one.place.holder for one in new]
    found = {(holder.task, holder.host): holder for holder in (look.chief.holder, *of_ps)}
    return tuple(found.values())


def is_new(one: Whole, kept: Manifest | None) -> bool:
    """Whether a checkpoint is newer than all that is kept; one without a step is new when its files have changed."""
    if kept is None:
        return True
    if one.checkpoint.step >= 0:
        return one.checkpoint.step > kept.step
    return any(kept.has_changed(name, place.files[name]) for name, place in one.files().items())

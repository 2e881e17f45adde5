"""Checkpoints on hosts that were not gathered: the reason to keep a task."""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tfprov.engine.checkpoints import manifest as manifests
from tfprov.engine.checkpoints.manifest import Manifest
from tfprov.engine.checkpoints.shards import Survey, WholeCheckpoint, survey
from tfprov.engine.context import Context
from tfprov.engine.monitoring.task_progress import FILE as PROGRESS
from tfprov.engine.observe import observe
from tfprov.errors import HostError
from tfprov.filesystems.generations import MIRROR_STATUS
from tfprov.formats.checkpoint import STATE, checkpoints, is_leftover, stays_below, step_of
from tfprov.hosts.base import File
from tfprov.model.state import Observation, Observed
from tfprov.planning.plan_text import join_names

_CHUNK = 256 * 1024
"""Bytes of an index read at a time."""

_NAMED = 3
"""How many files a line names; it counts the rest."""

_CHIEFS = ("chief/0", "worker/0")
"""The tasks that may save checkpoints; after an edit of the inventory, the former chief can still exist."""

TaskOnHost = tuple[str, str]
"""A task's name and a host."""


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
    known = gathered_manifests(context, holder.run)
    if saved_anew(context, look, known):
        known.insert(0, Manifest(context.cluster.name, holder.run))
    new = [one for one in look.whole if is_new(one, known)]
    torn = [prefix for prefix in look.named[:1] if look.find(prefix) is None]
    doubtful = [prefix for prefix in dict.fromkeys([*look.doubtful, *torn]) if not known or known[0].is_newer(prefix)]
    below = [path for path in look.below[:1] if _has_changed_below(path, look.chief.files, known)]
    prefixes = [*doubtful, *(one.checkpoint.prefix for one in new), *below]
    if not prefixes:
        return None
    newest = max(prefixes, key=lambda prefix: (step_of(prefix), prefix))
    return Ungathered(newest, holder, _holders(look, doubtful, new))


def _has_changed_below(path: str, listing: Mapping[str, File], known: Sequence[Manifest]) -> bool:
    """Whether a checkpoint in a directory below, which the `checkpoint` file names, is not gathered as it is."""
    parts = [name for name in listing if name.rpartition(".")[0] == path]
    return not known or any(known[0].has_changed(name, listing[name]) for name in parts)


def gathered_of(context: Context, run: str) -> Manifest | None:
    """Return the manifest of a run, which may have been set aside for another run; None if nothing of it was gathered."""
    return next(iter(gathered_manifests(context, run)), None)


def ungathered_files(context: Context, holder: Observed) -> list[str]:
    """Return the names of the files beside the checkpoints of `holder` that a gather would copy."""
    return other_files(context.runtimes[holder.host].files(holder.task), gathered_of(context, holder.run))


def with_ungathered_files(context: Context, observation: Observation, places: Collection[TaskOnHost]) -> list[Observed]:
    """Return the chiefs, present and former, among `places` that have files which were not gathered, whatever they are."""
    chiefs = [one for one in _saving(observation) if one.task in _CHIEFS and (one.task, one.host) in places]
    return [one for one in chiefs if ungathered_files(context, one)]


def other_files(listing: Mapping[str, File], kept: Manifest | None, named: Collection[str] = ()) -> list[str]:
    """Return the names of new and changed files besides checkpoints, such as event files.

    `kept` has what was gathered; `named` are the checkpoints of the `checkpoint` file, which may be incomplete.
    """
    there = [one for one in checkpoints(listing) if one.prefix in named or not one.is_half_without_step]
    parts = {name for checkpoint in there for name in checkpoint.files}
    parts |= {f"{prefix}.meta" for prefix in named}
    changed = [name for name, file in listing.items() if kept is None or kept.has_changed(name, file)]
    return [name for name in sorted(changed) if name not in parts and _is_of_program(name)]


def _is_of_program(name: str) -> bool:
    """Whether a file is the program's own: not tfprov's, no leftover of a saver, and below the directory that has it."""
    own = name in (STATE, manifests.NAME, PROGRESS, MIRROR_STATUS)
    return not own and not is_leftover(name) and stays_below(name) and ".part" not in name.split("/")


def not_gathered(names: Sequence[str]) -> str:
    """Return a clause for an error: `a.h5, b.h5, c.h5 and 1 more are not gathered`."""
    return f"{join_names(names, _NAMED)} {'is' if len(names) == 1 else 'are'} not gathered"


def gathered_manifests(context: Context, run: str) -> list[Manifest]:
    """Return the manifests of a run: that of the gather directory, then those set aside, the last one first.

    The first one is without the newest checkpoints whose files were removed here since: their host may have the only copy.
    """
    every = [one for one in manifests.of_run(context.target, run) if one[1].cluster == context.cluster.name]
    latest = [manifest.without_missing(directory) for directory, manifest in every[:1]]
    return [*latest, *(manifest for _, manifest in every[1:])]


def saved_anew(context: Context, look: Survey, known: Sequence[Manifest]) -> str:
    """Return a checkpoint by which the chief's training began anew in its run, as a program does that restores nothing.

    It has a lower step than a gathered one, and is the chief's newest, or was gathered with another content. Empty text
    if there is none. A former chief may be behind.
    """
    chief, holder = context.cluster.chief, look.chief.holder
    if not known or (holder.task, holder.host) != (chief.name, chief.host):
        return ""
    for one in look.whole:
        prefix = one.checkpoint.prefix
        if one.checkpoint.step < 0 or not known[0].is_older(prefix) or _is_among(one, known[1:]):
            continue
        if _differs(one, known[0]) if _index(one) in known[0].files else prefix in look.named[:1]:
            return prefix
    return ""


def _index(one: WholeCheckpoint) -> str:
    return f"{one.checkpoint.prefix}.index"


def _is_among(one: WholeCheckpoint, earlier: Sequence[Manifest]) -> bool:
    """Whether a checkpoint was gathered as it is before its training began anew."""
    return any(not kept.has_changed(_index(one), one.place.files[_index(one)]) for kept in earlier)


def _differs(one: WholeCheckpoint, kept: Manifest) -> bool:
    """Whether a gathered checkpoint was saved again with other tensors, whose checksums are in its index.

    Of a restored one, only the time of its files differs.
    """
    index = _index(one)
    if not kept.has_changed(index, one.place.files[index]):
        return False
    digest = hashlib.sha256()
    try:
        with one.place.open(index) as stream:
            for chunk in iter(partial(stream.read, _CHUNK), b""):
                digest.update(chunk)
    except HostError:  # removed since it was listed
        return False
    return digest.hexdigest() != kept.files[index].sha256


def _holders(look: Survey, doubtful: list[str], new: list[WholeCheckpoint]) -> tuple[Observed, ...]:
    of_ps = [ps for prefix in doubtful for ps in look.held_by.get(prefix, ())]
    of_ps += [one.place.holder for one in new]
    by_place = {(holder.task, holder.host): holder for holder in (look.chief.holder, *of_ps)}
    return tuple(by_place.values())


def is_new(one: WholeCheckpoint, known: Sequence[Manifest]) -> bool:
    """Whether a checkpoint is newer than the gathered ones of its series; without a step, whether its files changed.

    The newest one of its series is new, too, if it was saved again with other tensors.
    """
    if not known:
        return True
    kept, prefix = known[0], one.checkpoint.prefix
    if _is_among(one, known[1:]):
        return False
    if one.checkpoint.step < 0:
        return any(kept.has_changed(name, place.files[name]) for name, place in one.files().items())
    if kept.is_newer(prefix):
        return True
    return _index(one) in kept.files and not kept.is_older(prefix) and _differs(one, kept)


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

"""Copies the chief's new checkpoints and event files to the controller, whole and verified.

A checkpoint that the program's saver left with a ps is copied from there. Files are written into `.part/`, fsynced, their
tensors read back, and renamed into place; the `checkpoint` file and the manifest are written last. An
interrupted gather leaves the earlier files as they were.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import replace as with_fields
from functools import partial
from pathlib import Path

from tfprov.atomic_write import replace, sync
from tfprov.engine.checkpoints import manifest as manifests
from tfprov.engine.checkpoints.manifest import GatheredCheckpoint, Manifest
from tfprov.engine.checkpoints.other_files import copy_others
from tfprov.engine.checkpoints.remote import remote_url
from tfprov.engine.checkpoints.shards import REMEDY, Survey, WholeCheckpoint, survey, survey_held, unmerged
from tfprov.engine.checkpoints.staging import Staging
from tfprov.engine.checkpoints.ungathered import gathered_manifests, is_new, other_files, saved_anew
from tfprov.engine.checkpoints.verify import Verify
from tfprov.engine.context import Context
from tfprov.engine.observe import observe
from tfprov.errors import GatherError, HostError, TfprovError
from tfprov.formats.checkpoint import NO_STEP, STATE, checkpoint_state, model_files, series_of, step_of
from tfprov.hosts.base import File
from tfprov.model.state import Observation, Observed, State

_TRIES = 3
"""Tries before giving up: the chief removes old checkpoints while they are copied. Those that get further do not count."""


@dataclass(frozen=True)
class Gathered:
    """The result of a gather: the `newest` and the `new` checkpoints of the run, the number and bytes of all copied files.

    `listed` are the files at the source, where nothing was copied since it was listed. `is_whole`: no file was left there.
    """

    directory: Path
    newest: GatheredCheckpoint | None
    new: tuple[GatheredCheckpoint, ...] = ()
    files: int = 0
    size: int = 0
    listed: Mapping[str, File] | None = None
    is_whole: bool = True


def gather(
    context: Context, verify: Verify, observation: Observation | None = None, source: Observed | None = None
) -> Gathered:
    """Copy the new files of `source`, by default the chief.

    Raises GatherError if its newest checkpoint is incomplete; what was gathered before stays as it is.
    """
    holder = source or context.chief(observation := observation or observe(context))
    chief = holder.task if holder else context.cluster.chief.name
    target = context.target
    before = check_target(context)
    if holder is None:
        context.report.note(f"nothing to gather: {chief} is not there")
        return Gathered(target, before.newest if before else None)
    work = _Gather(context, holder, lambda: observation or observe(context))
    context.report.awaiting(f"gathering from {chief}")
    may_continue = False
    try:
        return work.run(before, verify)
    except BrokenPipeError:  # of what a line was printed to, as with `tfprov gather | head -1`
        raise
    except OSError as error:
        raise manifests.disk_error(target, error) from None
    except (TfprovError, KeyboardInterrupt):
        may_continue = not work.damaged
        raise
    finally:
        context.report.awaiting("")
        work.clean(may_continue=may_continue)


def check_target(context: Context) -> Manifest | None:
    """Return the manifest of the gather directory; GatherError if it belongs to something else, or leads nowhere.

    Called before a training starts, so that it does not fail at its first gather.
    """
    for path in (context.target, *context.target.parents):
        if path.is_symlink() and not path.exists():
            what = f"{path} is a link to {path.readlink()}, which is not there"
            raise GatherError(what, "mount its disk, or make the directory")
    before = manifests.read(context.target)
    if before is not None and before.cluster != context.cluster.name:
        what = f"{context.target} holds checkpoints of cluster {before.cluster}, not {context.cluster.name}"
        raise GatherError(what, "set another `checkpoints.to`")
    return before


def check_writable(context: Context) -> None:
    """Raise GatherError if this user could not gather what the program is to save on its host.

    Called before a training starts. Checkpoints in a remote directory are safe without a gather.
    """
    there = next(path for path in (context.target, *context.target.absolute().parents) if path.exists())
    may_write = os.access(there, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids)
    if context.saves and remote_url(context) is None and not may_write:
        fix = "give this user access to it, or set another `checkpoints.to`"
        raise GatherError(f"{context.target}: this user may not write in {there}", fix)


class _Gather:
    def __init__(self, context: Context, chief: Observed, look: Callable[[], Observation]) -> None:
        self.context, self.observed, self.look = context, chief, look
        self.chief = chief.task
        self.target = context.target
        self.staging = Staging(self.target / ".part", partial(context.report.transferred, self.chief))
        self.was_there = os.path.lexists(self.target)
        self.unread: GatherError | None = None
        self.damaged, self.is_whole = "", True
        self.names: set[str] | None = None

    def run(self, before: Manifest | None, verify: Verify) -> Gathered:
        surveyed = survey(self.context, self.observed, self.look)
        if surveyed.named and not surveyed.whole:  # the program may have replaced a checkpoint during the listing
            surveyed = survey_held(self.context, self.observed, self.look)
        self.explain(surveyed)
        is_of_run = before is not None and before.run == self.observed.run
        known = gathered_manifests(self.context, self.observed.run) if is_of_run else []
        kept = next(iter(known), None)
        if kept is not None and (anew := saved_anew(self.context, surveyed, known)):
            was = kept.newest.prefix if kept.newest else ""
            self.context.report.note(f"{self.chief} trains anew: it has saved {anew} since {was} was gathered")
            kept, known = None, [Manifest(self.context.cluster.name, self.observed.run), *known]
        new, surveyed = self.fetch_new(known, surveyed)
        others = other_files(surveyed.chief.files, kept, surveyed.named)
        if before is not None and kept is None and (new or others):
            # An earlier run's checkpoints, and its other models, give way to those of another run only.
            if new or model_files(others) or not before.has_model:
                self.context.report.note(manifests.set_aside(self.context.target, before, self.staging.directory))
            elif self.unread or self.observed.state is State.RUNNING:  # it has a model, or may save one yet
                others = []
            else:  # staged there, too: each directory may be on a disk of its own
                self.staging.clean()
                self.target = manifests.beside(self.target, self.observed.run)
                self.was_there, self.staging = os.path.lexists(self.target), self.staging.at(self.target / ".part")
                kept = manifests.read(self.target)
                others = other_files(surveyed.chief.files, kept, surveyed.named)
        if not new and not others:
            if self.unread:
                raise self.unread
            return Gathered(self.target, kept.newest if kept else None, listed=surveyed.chief.files)
        after = kept or Manifest(self.context.cluster.name, self.observed.run)
        if kept is None:  # first, so that a directory left by an interrupted gather is recognized as ours
            self.target.mkdir(parents=True, exist_ok=True)
            after.write(self.target)
        saved = self.accept(new, verify)
        if saved:
            after = self.write_manifest(after, saved)
        for _ in copy_others(others, surveyed.chief, self.staging, self.target, note=self.note_left, verify=verify):
            after = self.write_manifest(after)
        return self.finish(after, saved)

    def note_left(self, what: str) -> None:
        """Report that files were left where they are."""
        self.is_whole = False
        self.context.report.note(what)

    def clean(self, *, may_continue: bool) -> None:
        """Remove staged files that were not moved into place; with `may_continue`, what the next gather needs stays."""
        if not may_continue:
            self.staging.clean()
        elif self.names is not None:
            self.staging.keep_unfinished(self.names)
        with suppress(HostError):  # the next gather releases it
            self.context.runtimes[self.observed.host].release(self.chief)
        if not self.was_there:  # an empty one that was may be a link or a mounted disk
            with suppress(OSError):  # it has files
                self.target.rmdir()

    def explain(self, surveyed: Survey) -> None:
        """Report why the chief's newest checkpoint is not gathered, if it is not whole."""
        if not surveyed.named:
            if not surveyed.whole and (torn := unmerged(self.context, surveyed, self.look())):
                raise GatherError(torn)
            return
        newest = surveyed.named[0]
        series = [one.checkpoint for one in surveyed.whole if series_of(one.checkpoint.prefix) == series_of(newest)]
        if surveyed.find(newest) or any(one.step > step_of(newest) for one in series):
            return  # the chief may have removed it since, for a newer one
        what, fix = f"{self.chief}'s checkpoint {newest} ", REMEDY
        if newest in surveyed.doubtful:
            what, fix = f"{what}is not taken: {surveyed.doubtful[newest]}", "what there is of it stays where it is"
        else:
            what += surveyed.explain_missing(newest)
        if not surveyed.whole:
            raise GatherError(what, fix)
        self.context.report.note(f"{what}; {fix}")

    def fetch_new(self, known: Sequence[Manifest], surveyed: Survey) -> tuple[list[WholeCheckpoint], Survey]:
        """Copy every complete checkpoint that is newer than the gathered ones into the staging directory.

        The chief removes old checkpoints while they are copied: then the directories are listed again, and if the newest
        one was removed, or saved again, the host holds the others. A newest one that cannot be copied after all tries is
        the error in which the gather ends; GatherError for a lost host. The newest of another series is reported.
        """
        left, best = _TRIES, 0
        while left:
            left -= 1
            self.names = {*surveyed.chief.files, *(name for one in surveyed.whole for name in one.files())}
            self.staging.keep_unfinished(self.names)
            self.staging.resumed = 0
            wanted = [one for one in surveyed.whole if is_new(one, known)]
            fetched = self._fetch_all(wanted)
            if fetched == wanted:
                return fetched, surveyed
            if self.staging.resumed > best:  # a connection that breaks again and again, and a copy that goes on
                left, best = _TRIES, self.staging.resumed
            newest_ones = {series_of(one.checkpoint.prefix): one for one in wanted}.values()
            lacking = [one for one in newest_ones if one not in fetched]
            look = survey_held if left and lacking else survey
            surveyed = look(self.context, self.observed, self.look)
        for one in lacking:
            what = f"{self.chief}'s checkpoint {one.checkpoint.prefix} could not be copied: {self.staging.last_error}"
            if one is wanted[-1]:
                there = surveyed.find(one.checkpoint.prefix)
                fix = "" if there else "its program keeps too few: let it keep more, or save less often"
                self.unread = GatherError(what, fix)
            else:
                self.note_left(what)
        if self.unread and self.staging.lost is not None:
            raise self.unread
        return fetched, surveyed

    def _fetch_all(self, wanted: Sequence[WholeCheckpoint]) -> list[WholeCheckpoint]:
        """Copy checkpoints, and return those that could be; none after the host was lost."""
        fetched = []
        for one in reversed(wanted):  # the newest matters most, and the chief may remove it while older ones are copied
            # Without a step it is saved again under the same name.
            if self.staging.fetch(one.files(), may_change=one.checkpoint.step == NO_STEP):
                fetched.append(one)
            elif self.staging.lost is not None:
                break
        return fetched[::-1]

    def accept(self, fetched: Sequence[WholeCheckpoint], verify: Verify) -> list[GatheredCheckpoint]:
        """Verify staged checkpoints and move them into place; a damaged one is left out and reported."""
        prefixes = [self.staging.directory / one.checkpoint.prefix for one in fetched]
        if prefixes:
            self.context.report.awaiting(f"reading every tensor of {prefixes[-1].name}")
        verdicts = verify(prefixes) if prefixes else {}
        self.context.report.awaiting(f"gathering from {self.chief}")
        saved = []
        for one in fetched:
            checkpoint = one.checkpoint
            verdict = verdicts.get(checkpoint.prefix)
            if verdict is not None and verdict.error:
                self.damaged = f"{self.chief}'s checkpoint {checkpoint.prefix} is damaged: {verdict.error}"
                self.context.report.note(self.damaged)
                continue
            self.staging.place(one.files(), self.target)
            tensors = verdict.tensors if verdict else None
            saved.append(GatheredCheckpoint(checkpoint.prefix, checkpoint.step, tensors, from_ps=one.from_ps))
        good = {one.prefix for one in saved}
        self.report_origin([one for one in fetched if one.checkpoint.prefix in good][-1:])
        return saved

    def report_origin(self, newest: Sequence[WholeCheckpoint]) -> None:
        """Report checkpoints that were gathered from a ps instead of the chief."""
        for one in newest:
            if one.place is not one.chief:
                shards = sum(".data-" in name for name in one.checkpoint.files)
                what = f"its index and {shards} shard{'s' if shards != 1 else ''} came from {one.place.task}"
                why = "the program's saver writes each ps's part on that ps's host"
                self.context.report.note(f"{one.checkpoint.prefix}: {what} ({why})")

    def finish(self, kept: Manifest, saved: Sequence[GatheredCheckpoint]) -> Gathered:
        after = self.write_manifest(kept, saved)
        if self.unread or self.damaged:
            fix = "the newest whole one was gathered" if saved else "nothing was gathered"
            raise self.unread or GatherError(self.damaged, fix)
        placed = self.staging.placed  # some were copied more than once, others not taken
        size = sum(one.size for one in placed.values())
        return Gathered(self.target, after.newest, tuple(saved), len(placed), size, is_whole=self.is_whole)

    def write_manifest(self, kept: Manifest, saved: Sequence[GatheredCheckpoint] = ()) -> Manifest:
        """Write the manifest of the files in place so far, and return it: an interrupted gather continues from there."""
        known = {old.prefix: old for old in kept.checkpoints} | {new.prefix: new for new in saved}
        after = with_fields(
            kept,
            checkpoints=tuple(sorted(known.values(), key=lambda one: (one.step, one.prefix))),
            files={**kept.files, **self.staging.placed},
        )
        if after.newest is not None:
            state = checkpoint_state(after.newest.prefix, [one.prefix for one in after.checkpoints])
            replace(self.target / STATE, state.encode())
        after.write(self.target)
        sync(self.target)
        return after

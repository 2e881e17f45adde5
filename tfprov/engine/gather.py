"""Bring the chief's checkpoints and event files to the controller: whole, verified, and only what is new.

Everything is written into `.part/` first, fsynced, read back where TensorFlow is there to do it, and renamed into place;
the `checkpoint` file and the manifest follow last. A gather that is cut off leaves what was there before, whole.
"""

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as with_fields
from pathlib import Path

from tfprov.checkpoint import Checkpoint, checkpoint_state, checkpoints, parse_state, relative
from tfprov.engine import manifest as manifests
from tfprov.engine.context import Context
from tfprov.engine.manifest import Manifest, Saved
from tfprov.engine.observe import observe
from tfprov.engine.staging import Staging
from tfprov.engine.verify import Verdict
from tfprov.errors import GatherError, HostError
from tfprov.files import replace, sync
from tfprov.hosts.base import File, Runtime
from tfprov.model.state import Observation, Observed

_TRIES = 3
"""Listings taken before giving up: the chief removes old checkpoints while they are copied."""
_CHUNK = 1024 * 1024
_STATE = "checkpoint"
_LEFTOVER = re.compile(r"\.tempstate|_temp(_[0-9a-f]+)?(/|\Z)|\.part(/|\Z)")

Verify = Callable[[Sequence[Path]], Mapping[str, Verdict]]
"""Reads every tensor of the checkpoints at these prefixes; an empty answer where nobody can."""


@dataclass(frozen=True)
class Gathered:
    """What a gather brought: `new` checkpoints, and the number and bytes of all files copied."""

    directory: Path
    newest: Saved | None
    new: tuple[Saved, ...] = ()
    files: int = 0
    size: int = 0


def gather(
    context: Context, verify: Verify, seen: Observation | None = None, source: Observed | None = None
) -> Gathered:
    """Bring back what is new at `source` (default: the chief).

    GatherError when what is there is not whole, with what was gathered before untouched.
    """
    found = source or context.chief(seen or observe(context))
    chief = found.task if found else context.cluster.chief.name
    target = context.target
    before = check_target(context)
    if found is None:
        context.report.note(f"nothing to gather: {chief} is not there")
        return Gathered(target, before.newest if before else None)
    work = _Gather(context, context.runtimes[found.host], chief, found.run)
    try:
        return work.run(before, verify)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        raise GatherError(f"{target}: {error.strerror}{where}", "what was gathered before is untouched") from None
    finally:
        work.clean()


def check_target(context: Context) -> Manifest | None:
    """Return what lies where checkpoints are to go; GatherError when that is somebody else's.

    Asked before a training starts, and not only when its checkpoint has nowhere to go.
    """
    before = manifests.read(context.target)
    if before is not None and before.cluster != context.cluster.name:
        what = f"{context.target} holds checkpoints of cluster {before.cluster}, not {context.cluster.name}"
        raise GatherError(what, "set another `checkpoints.to`")
    return before


def unsaved(context: Context, found: Observed) -> str | None:
    """Return the newest whole checkpoint a container holds when it was not gathered yet, else None."""
    listing = context.runtimes[found.host].files(found.task)
    whole = [checkpoint for checkpoint in checkpoints(listing) if checkpoint.whole]
    if not whole:
        return None
    try:
        saved = manifests.read(context.target)
    except GatherError:  # nobody can say any more that it is safe
        return whole[-1].prefix
    kept = saved if saved is not None and saved.run == found.run else None
    return whole[-1].prefix if _is_new(whole[-1], kept, listing) else None


class _Gather:
    def __init__(self, context: Context, runtime: Runtime, chief: str, run: str) -> None:
        self.context, self.runtime, self.chief, self.run_id = context, runtime, chief, run
        self.target = context.target
        self.staging = Staging(runtime, chief, self.target / ".part")
        self.damaged = ""

    def run(self, before: Manifest | None, verify: Verify) -> Gathered:
        named = self.named_by_chief()
        listing = self.runtime.files(self.chief)
        self.explain(named, listing)
        kept = before if before is not None and before.run == self.run_id else None
        new, listing = self.fetch_new(kept, listing)
        others = self.others(listing, kept)
        foreign = before is not None and kept is None
        if not new and (not others or foreign):  # an earlier run's checkpoints give way to checkpoints only
            return Gathered(self.target, before.newest if before else None)
        if foreign and before is not None:
            self.set_aside(before)
        after = kept or Manifest(self.context.cluster.name, self.run_id)
        if (
            kept is None
        ):  # first, so that a gather that is cut off from here on leaves a directory that is known as ours
            self.target.mkdir(parents=True, exist_ok=True)
            after.write(self.target)
        saved = self.accept(new, verify)
        for name in others:
            if self.staging.fetch([name], listing):
                self.staging.place([name], self.target)
        return self.finish(after, saved)

    def clean(self) -> None:
        """Remove what was staged and not moved into place."""
        self.staging.clean()
        if self.target.is_dir() and not any(self.target.iterdir()):
            self.target.rmdir()

    def named_by_chief(self) -> list[str]:
        """Return the prefixes in the chief's `checkpoint` file; read first, so that what it names was complete by then."""
        try:
            with self.runtime.open(self.chief, _STATE) as file:
                return [relative(path) for path in parse_state(file.read(_CHUNK).decode(errors="surrogateescape"))]
        except HostError:  # nothing was saved yet
            return []

    def explain(self, named: Sequence[str], listing: Mapping[str, File]) -> None:
        """Say why the checkpoint that the chief calls its newest is not taken, when it is not whole."""
        found = {checkpoint.prefix: checkpoint for checkpoint in checkpoints(listing)}
        if not named or (named[0] in found and found[named[0]].whole):
            return
        lacks = found[named[0]].missing if named[0] in found else (f"{named[0]}.index", "all its shards")
        what = f"{self.chief}'s checkpoint {named[0]} lacks {', '.join(lacks)}"
        fix = "save with tfprov.runtime, or with a Saver(sharded=False) on the chief"
        if not any(checkpoint.whole for checkpoint in found.values()):
            raise GatherError(what, fix)
        self.context.report.note(f"{what}; {fix}")

    def fetch_new(
        self, kept: Manifest | None, listing: Mapping[str, File]
    ) -> tuple[list[Checkpoint], Mapping[str, File]]:
        """Copy every whole checkpoint that is newer than what is kept into the staging directory.

        One that vanishes meanwhile was removed by the chief, which keeps only its newest ones: then the listing is
        taken again. GatherError when the newest cannot be had although it stays.
        """
        for _ in range(_TRIES):
            self.staging.clean()
            wanted = [c for c in checkpoints(listing) if c.whole and _is_new(c, kept, listing)]
            fetched = [checkpoint for checkpoint in wanted if self.staging.fetch(checkpoint.files, listing)]
            if fetched == wanted:
                return fetched, listing
            listing = self.runtime.files(self.chief)
        if wanted[-1] not in fetched:
            raise GatherError(
                f"{self.chief}'s checkpoint {wanted[-1].prefix} could not be copied: {self.staging.trouble}"
            )
        return fetched, listing

    def accept(self, fetched: Sequence[Checkpoint], verify: Verify) -> list[Saved]:
        """Verify what is staged and move the good ones into place; a damaged one is left out and told."""
        verdicts = verify([self.staging.directory / checkpoint.prefix for checkpoint in fetched]) if fetched else {}
        saved = []
        for checkpoint in fetched:
            verdict = verdicts.get(checkpoint.prefix)
            if verdict is not None and verdict.error:
                self.damaged = f"{self.chief}'s checkpoint {checkpoint.prefix} is damaged: {verdict.error}"
                self.context.report.note(self.damaged)
                continue
            self.staging.place(sorted(checkpoint.files, key=lambda name: name.endswith(".index")), self.target)
            saved.append(Saved(checkpoint.prefix, checkpoint.step, verdict.tensors if verdict else None))
        return saved

    def others(self, listing: Mapping[str, File], kept: Manifest | None) -> list[str]:
        """Return the names of the event files, and of all else the program put there, that are new or have changed."""
        parts = {name for checkpoint in checkpoints(listing) for name in checkpoint.files}
        found = []
        for name, file in sorted(listing.items()):
            if name in parts or name in (_STATE, manifests.NAME) or _LEFTOVER.search(name) or not _is_plain(name):
                continue
            before = kept.files.get(name) if kept else None
            if before is None or (before.size, before.modified) != (file.size, file.modified):
                found.append(name)
        return found

    def set_aside(self, before: Manifest) -> None:
        """Keep an earlier run's checkpoints under a name of their own: step 2000 of two runs is not the same."""
        number = 1
        while (aside := self.target.with_name(f"{self.target.name}.{number}")).exists():
            number += 1
        beside = self.target.with_name(f".{self.target.name}.part")
        shutil.rmtree(beside, ignore_errors=True)
        if self.staging.directory.exists():
            self.staging.directory.rename(beside)
        self.target.rename(aside)
        self.target.mkdir()
        if beside.exists():
            beside.rename(self.staging.directory)
        step = f" (step {before.newest.step})" if before.newest else ""
        self.context.report.note(f"{self.target} held an earlier run{step}: it is now {aside}")

    def finish(self, kept: Manifest, saved: Sequence[Saved]) -> Gathered:
        known = {old.prefix: old for old in kept.checkpoints} | {new.prefix: new for new in saved}
        after = with_fields(
            kept,
            checkpoints=tuple(sorted(known.values(), key=lambda one: (one.step, one.prefix))),
            files={
                **kept.files,
                **{name: entry for name, entry in self.staging.entries.items() if (self.target / name).exists()},
            },
        )
        if after.newest is not None:
            state = checkpoint_state(after.newest.prefix, [one.prefix for one in after.checkpoints])
            replace(self.target / _STATE, state.encode())
        after.write(self.target)
        sync(self.target)
        if self.damaged:
            raise GatherError(self.damaged, "the newest whole one was gathered" if saved else "nothing was gathered")
        return Gathered(self.target, after.newest, tuple(saved), self.staging.copied, self.staging.size)


def _is_new(checkpoint: Checkpoint, kept: Manifest | None, listing: Mapping[str, File]) -> bool:
    """Whether a checkpoint is newer than all that is kept; one without a step is new when its files have changed."""
    if kept is None:
        return True
    if checkpoint.step >= 0:
        return kept.newest is None or checkpoint.step > kept.newest.step
    before = [kept.files.get(name) for name in checkpoint.files]
    return any(
        entry is None or (entry.size, entry.modified) != (listing[name].size, listing[name].modified)
        for name, entry in zip(checkpoint.files, before, strict=True)
    )


def _is_plain(name: str) -> bool:
    """Whether `name` stays below the directory it is put into, and out of tfprov's own staging directory."""
    parts = name.split("/")
    return not name.startswith("/") and not any(part in ("", ".", "..", ".part") for part in parts) and "\0" not in name

"""Finds the complete checkpoints of a chief, whose saver may have left files of them on a ps.

TensorFlow's default saver is sharded: every ps writes its variables to its own disk, and one of them merges the parts into
an index and shards. Both end on that ps, and only `checkpoint` and the `.meta` files on the chief. With ps on two hosts,
the merge does not see the other host's part, and the program fails (both measured).
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from tfprov.engine.context import Context
from tfprov.errors import HostError
from tfprov.formats.checkpoint import (
    NO_STEP,
    STATE,
    CheckpointFiles,
    checkpoints,
    last_component,
    parse_state,
    step_of,
)
from tfprov.hosts.base import File, Prefix, Runtime
from tfprov.hosts.held_checkpoints import FOLDER
from tfprov.model.state import Observation, Observed, State

REMEDY = "save with tfprov.runtime, or with a Saver(sharded=False) on the chief"
_UNMERGED = re.compile(r"((?P<prefix>[^/]+)_temp(?:_[0-9a-f]+)?)/part-[0-9]{5}-of-[0-9]{5}\.(?:index|data-.+)")


@dataclass(frozen=True, eq=False)
class CheckpointDir:
    """The checkpoint directory of a container, as it was listed."""

    runtime: Runtime
    holder: Observed
    files: Mapping[str, File]

    @property
    def task(self) -> str:
        """The task whose directory it is."""
        return self.holder.task

    def __str__(self) -> str:
        return f"{self.holder.task} on {self.holder.host}"

    def open(self, name: str) -> BinaryIO:
        """Open one of `files`. Raises HostError."""
        return self.runtime.open(self.task, name)

    def open_rest(self, name: str, before: Prefix) -> BinaryIO | None:
        """Open one of `files` behind `before`; None if it does not begin so, or if the host cannot tell."""
        return self.runtime.open_rest(self.task, name, before)

    def open_each(self, names: Collection[str]) -> Iterator[tuple[str, BinaryIO]]:
        """Open many of `files`; see Runtime."""
        return self.runtime.open_each(self.task, names, self.files)

    def has_changed(self, names: Iterable[str]) -> bool:
        """Whether some of `files` were saved again, or removed, since they were listed. Raises HostError."""
        now = self.runtime.files(self.task)
        return any(now.get(name) != self.files[name] for name in names)


@dataclass(frozen=True)
class WholeCheckpoint:
    """A whole checkpoint: its index and shards all lie in `place`, and its `.meta`, if there is one, with the chief."""

    checkpoint: CheckpointFiles
    place: CheckpointDir
    chief: CheckpointDir

    @property
    def from_ps(self) -> bool:
        """Whether its index and shards lie with a ps."""
        return self.place.task.startswith("ps/")

    def files(self) -> dict[str, CheckpointDir]:
        """Return where each of its files lies, in an order in which they can be put in place: the index last."""
        names = sorted(self.checkpoint.files, key=lambda name: name.endswith(".index"))
        return {name: self.chief if name.endswith(".meta") else self.place for name in names}


@dataclass(frozen=True)
class Survey:
    """The chief's checkpoints.

    `named` are the prefixes in its `checkpoint` file, the newest first; `whole` ascends by step. `doubtful` are those that
    may be complete and cannot be gathered, with the reason, and `held_by` the containers that have files of each. `below`
    are the paths in the `checkpoint` file of checkpoints in directories below, which are gathered with these.
    """

    chief: CheckpointDir
    named: tuple[str, ...]
    whole: tuple[WholeCheckpoint, ...]
    doubtful: Mapping[str, str] = field(default_factory=dict)
    held_by: Mapping[str, tuple[Observed, ...]] = field(default_factory=dict)
    below: tuple[str, ...] = ()

    def find(self, prefix: str) -> WholeCheckpoint | None:
        """Return the whole checkpoint called `prefix`, or None."""
        return next((one for one in self.whole if one.checkpoint.prefix == prefix), None)

    def explain_missing(self, prefix: str) -> str:
        """Return which files of a checkpoint the chief lacks, as the end of a sentence about it."""
        has = next((one for one in checkpoints(self.chief.files) if one.prefix == prefix), None)
        if has is not None and has.conflict:
            return f"is torn: {has.conflict}"
        return f"lacks {', '.join(has.missing if has else (f'{prefix}.index', 'all its shards'))}"


def survey(context: Context, chief: Observed, observation: Callable[[], Observation]) -> Survey:
    """List the chief's directory and, if its newest checkpoints lack files, those of the ps of its run.

    The `checkpoint` file is read first: the checkpoints that it names were complete by then, on the chief or a ps.
    """
    runtime = context.runtimes[chief.host]
    state, files = runtime.read_and_list(chief.task, STATE)
    (named, below), place = _named(state or b"", files), CheckpointDir(runtime, chief, files)
    whole = [WholeCheckpoint(one, place, place) for one in checkpoints(place.files) if one.whole]
    there = {one.checkpoint.prefix for one in whole}
    lacking = [prefix for prefix in named if prefix not in there]
    if not lacking:
        return Survey(place, named, tuple(whole), below=below)
    now = observation()
    places, silent = ps_places(context, chief, now), _silent(context, now)
    doubtful: dict[str, str] = {}
    held_by: dict[str, tuple[Observed, ...]] = {}
    for prefix in lacking:
        assembled = assemble(prefix, place, places)
        if assembled is None and silent:
            assembled = f"it may lie with {silent}"
        if isinstance(assembled, WholeCheckpoint):
            whole.append(assembled)
        elif assembled is not None:
            doubtful[prefix] = assembled
        held_by[prefix] = tuple(one.holder for one in places if _parts(prefix, one))
    whole.sort(key=lambda one: (one.checkpoint.step, one.checkpoint.prefix))
    return Survey(place, named, tuple(whole), doubtful, held_by, below)


def ps_places(context: Context, chief: Observed, observation: Observation) -> list[CheckpointDir]:
    """Return the checkpoint directories of the ps of the chief's run; shards of other runs can have the same names."""
    containers = [one for one in observation.containers() if one.task.startswith("ps/") and one.run == chief.run]
    places = (
        CheckpointDir(context.runtimes[ps.host], ps, context.runtimes[ps.host].files(ps.task)) for ps in containers
    )
    return sorted(places, key=lambda place: (place.task, place.holder.host))


def assemble(prefix: str, chief: CheckpointDir, places: Sequence[CheckpointDir]) -> WholeCheckpoint | str | None:
    """Return the checkpoint whose index and shards are on a ps, why it cannot be gathered, or None if there is none.

    All files must be on one ps, as TensorFlow leaves them: files of two directories were written at different times. Two ps
    may have the same files.
    """
    offers = {place: parts for place in places if (parts := _parts(prefix, place))}
    if differing := _differing(offers):
        return differing
    meta = [name for name in (f"{prefix}.meta",) if name in chief.files]
    for place, parts in offers.items():
        if (checkpoint := _checkpoint(prefix, [*parts, *meta])).whole:
            return WholeCheckpoint(checkpoint, place, chief)
    if len(offers) > 1 and _checkpoint(prefix, [name for parts in offers.values() for name in parts]).whole:
        return f"its parts lie apart, with {_listed(map(str, offers))}"
    return None


def explain_torn(context: Context, observation: Observation) -> str | None:
    """Return in one line a fault of the saver that no restart repairs, as the cause of a chief's failure; None without one.

    The program's own error for it is long and names only a file. Does not raise HostError.
    """
    chief = context.chief(observation)
    if chief is None:
        return None
    try:
        surveyed = survey(context, chief, lambda: observation)
        return unmerged(context, surveyed, observation) or _out_of_reach(surveyed)
    except HostError:
        return None


def unmerged(context: Context, surveyed: Survey, observation: Observation) -> str | None:
    """Return an error for shards on several hosts, which TensorFlow on one host could not merge; None if there are none."""
    chief = surveyed.chief.holder
    newest = max((one.checkpoint.step for one in surveyed.whole), default=NO_STEP - 1)
    saves: dict[str, set[str]] = {}
    for place in [surveyed.chief, *ps_places(context, chief, observation)]:
        for name, file in place.files.items():
            part = _UNMERGED.fullmatch(name)
            if part and step_of(part["prefix"]) > newest and _is_of(place.holder, file):
                saves.setdefault(part[1], set()).add(place.task)
    torn = [tasks for tasks in saves.values() if len(tasks) > 1]
    if not torn:
        return None
    what = f"the saver left its shards on {_listed(sorted(torn[-1]))} and could not merge them across hosts"
    return f"{chief.task}: {what}; {REMEDY}"


def _out_of_reach(surveyed: Survey) -> str | None:
    newest = surveyed.find(surveyed.named[0]) if surveyed.named else None
    chief = surveyed.chief.holder
    if newest is None or not newest.from_ps or chief.state is State.RUNNING:
        return None
    what = f"its checkpoint {newest.checkpoint.prefix} lies with {newest.place.task}, where it cannot restore it"
    return f"{chief.task}: {what}; gather it and start with `--resume`, or {REMEDY}"


def _named(state: bytes, files: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the prefixes that a `checkpoint` file names, and the paths of those whose files lie in directories below."""
    paths = parse_state(state.decode(errors="surrogateescape"))
    below = {name.rpartition(".")[0] for name in files if "/" in name}
    there = dict.fromkeys(path for path in paths if path in below and f"{last_component(path)}.index" not in files)
    here = filter(None, (last_component(path) for path in paths if path not in there))
    return tuple(dict.fromkeys(here)), tuple(there)


def _parts(prefix: str, place: CheckpointDir) -> dict[str, File]:
    """Return the index and shards of `prefix` in a directory."""
    names = _checkpoint(prefix, place.files).files
    return {name: place.files[name] for name in names if not name.endswith(".meta")}


def _checkpoint(prefix: str, names: Iterable[str]) -> CheckpointFiles:
    nothing = CheckpointFiles(prefix, step_of(prefix), (), (f"{prefix}.index",))
    return next((checkpoint for checkpoint in checkpoints(names) if checkpoint.prefix == prefix), nothing)


def _differing(offers: Mapping[CheckpointDir, Mapping[str, File]]) -> str | None:
    first: dict[str, tuple[CheckpointDir, File]] = {}
    for place, parts in offers.items():
        for name, file in parts.items():
            other, before = first.setdefault(name, (place, file))
            if before.size != file.size:
                return f"{other} and {place} have different files called {name}"
    return None


def _silent(context: Context, observation: Observation) -> str:
    """Return the names of the ps on unreachable hosts as text; empty if there are none."""
    tasks = [task for task in context.cluster.tasks if task.job == "ps" and task.host in observation.unreachable]
    return _listed(f"{task.name} on {task.host}, which cannot be reached" for task in tasks)


def _is_of(holder: Observed, file: File) -> bool:
    """Whether a file was written since its task started, by the host's clock, in whole seconds."""
    return holder.started_at is None or file.modified + 1 >= holder.started_at


def _listed(names: Iterable[str]) -> str:
    *others, last = [*names] or [""]
    return f"{', '.join(others)} and {last}" if others else last


@dataclass(frozen=True, eq=False)
class HeldCheckpointDir(CheckpointDir):
    """The held files of a checkpoint directory, which its task cannot remove."""

    def open(self, name: str) -> BinaryIO:
        """See CheckpointDir."""
        return super().open(f"{FOLDER}/{name}")

    def open_rest(self, name: str, before: Prefix) -> BinaryIO | None:
        """See CheckpointDir."""
        return super().open_rest(f"{FOLDER}/{name}", before)

    def open_each(self, names: Collection[str]) -> Iterator[tuple[str, BinaryIO]]:
        """See CheckpointDir."""
        files = {f"{FOLDER}/{name}": file for name, file in self.files.items()}
        for name, stream in self.runtime.open_each(self.task, [f"{FOLDER}/{name}" for name in names], files):
            yield name.removeprefix(f"{FOLDER}/"), stream

    def has_changed(self, names: Iterable[str]) -> bool:
        """See CheckpointDir. A saver replaces files, and writes into none."""
        return False


def survey_held(context: Context, chief: Observed, look: Callable[[], Observation]) -> Survey:
    """List the chief's directory as `survey` does, and have its host hold the checkpoints in it, if possible."""
    surveyed = survey(context, chief, look)
    if chief.state is not State.RUNNING:  # it removes no checkpoints
        return surveyed
    runtime = context.runtimes[chief.host]
    place = HeldCheckpointDir(runtime, chief, runtime.hold(chief.task))
    whole = tuple(WholeCheckpoint(one, place, place) for one in checkpoints(place.files) if one.whole)
    return replace(surveyed, whole=whole) if whole else surveyed

"""Copies what a program has put beside its checkpoints, such as event files and an evaluator's best checkpoint."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from tfprov.engine.checkpoints.shards import CheckpointDir
from tfprov.engine.checkpoints.staging import Staging
from tfprov.engine.checkpoints.verify import Verify
from tfprov.formats.checkpoint import NO_STEP, STATE, checkpoint_state, checkpoints, last_component, parse_state
from tfprov.hosts import bounds


def copy_others(  # noqa: PLR0913  where from, where to, and how
    names: Sequence[str],
    source: CheckpointDir,
    staging: Staging,
    target: Path,
    *,
    note: Callable[[str], None],
    verify: Verify,
) -> Iterator[None]:
    """Copy `names` into `target`; yield after each part of many files, so that the manifest can be updated.

    Files that cannot be copied are left out and reported by `note`: the host may be cleaned next. Raises Unreachable for
    a lost host.
    """
    listed = _by_folder(source.files)
    alone, folders = group_by_state(names, listed)
    places = _Places(target)
    free = [name for name in alone if places.is_free(name)]
    copied = 0
    for batch in staging.fetch_each(free, source):
        staging.place(batch, target)
        copied += len(batch)
        if len(batch) < len(alone):
            yield
    if copied < len(alone):
        what = f"{len(alone) - copied} of {len(alone)} files beside the checkpoints could not be copied"
        note(f"{what}: {staging.last_error if copied < len(free) else places.reason}")
    whole = _Folders(source, staging, places, note, verify)
    errors = {folder: whole.copy(folder, changed, listed[folder]) for folder, changed in folders.items()}
    for folder, error in [(folder, error) for folder, error in errors.items() if error][:1]:
        what = f"{sum(map(bool, errors.values()))} of {len(folders)} folders with a `{STATE}` file could not be copied"
        note(f"{what}: {folder}: {error}")


def group_by_state(names: Sequence[str], listed: Mapping[str, Sequence[str]]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the independent ones of the changed files `names`, and those to copy as a whole: by folder.

    `listed` are all files by folder. Where one is called `checkpoint`, the files of a checkpoint are copied together, and
    with that one, if any of them has changed; if it has itself, so are all changed files of the folder.
    """
    folders = {}
    for folder, changed in sorted(_by_folder(names).items()):
        state = f"{folder}/{STATE}"
        if folder and state in listed[folder]:
            parts = _saved_with(changed, listed[folder])
            if parts or state in changed:
                whole = [*(changed if state in changed else ()), *parts, state]
                folders[folder] = sorted({*whole})
    together = {name for group in folders.values() for name in group}
    return [name for name in names if name not in together], folders


def _saved_with(changed: Sequence[str], listed: Sequence[str]) -> list[str]:
    """Return all files of the checkpoints in a folder of which some have changed."""
    names = {last_component(name): name for name in listed}
    now = {*changed}
    parts = ([names[part] for part in one.files] for one in checkpoints(names))
    return [name for part in parts if not now.isdisjoint(part) for name in part]


def _by_folder(names: Iterable[str]) -> defaultdict[str, list[str]]:
    groups = defaultdict[str, list[str]](list)
    for name in names:
        groups[_folder(name)].append(name)
    return groups


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def _is_consistent(text: str, listed: Sequence[str]) -> bool:
    """Whether the `checkpoint` file with this content names a complete checkpoint of its folder, or is not TensorFlow's.

    An evaluator keeps the best checkpoint in a folder below, and may have replaced it during the copy: then the
    earlier gathered one stays, and the next gather copies the new one.
    """
    named = parse_state(text)
    if not named:
        return bool(text) and "model_checkpoint_path" not in text
    below = checkpoints(map(last_component, listed))
    return any(one.whole and one.prefix == last_component(named[0]) for one in below)


class _Places:
    """Tells which files can be put below `target`: a directory may be in the place of a file there, or vice versa."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self._free_folders, self._blocked = {""}, dict[str, str]()
        self.reason = ""
        """What is in the way of the last file that cannot."""

    def is_free(self, name: str) -> bool:
        """Whether nothing is in the way of the file `name`."""
        reason = ""
        if name.count("/") <= bounds.NESTED:
            with suppress(OSError):  # of a name that cannot be: copying it tells which
                reason = self._in_the_way(_folder(name))
                reason = reason or (f"{self.target / name} is a directory" if (self.target / name).is_dir() else "")
        self.reason = reason or self.reason
        return not reason

    def _in_the_way(self, folder: str) -> str:
        """Return which file is in the place of `folder` or of one above it; an empty text if there is none."""
        if folder not in self._free_folders and folder not in self._blocked:
            above = accumulate(folder.split("/"), Path.joinpath, initial=self.target)
            blocking = next((path for path in above if path.exists() and not path.is_dir()), None)
            if blocking is None:
                self._free_folders.add(folder)
            else:
                self._blocked[folder] = f"{blocking} is a file"
        return self._blocked.get(folder, "")


@dataclass(frozen=True)
class _Folders:
    """Copies folders with a `checkpoint` file, each as a whole."""

    source: CheckpointDir
    staging: Staging
    places: _Places
    note: Callable[[str], None]
    verify: Verify

    def copy(self, folder: str, names: Sequence[str], listed: Sequence[str]) -> str:
        """Copy the files `names` of a folder; return why it is not copied, or an empty text.

        A damaged checkpoint does not replace what was gathered before. Raises Unreachable for a lost host.
        """
        if not all(map(self.places.is_free, names)):
            return self.places.reason
        saved_again = any(one.step == NO_STEP for one in checkpoints(map(last_component, names)))  # under the same name
        if not self.staging.fetch(dict.fromkeys(names, self.source), may_change=saved_again):
            if self.staging.lost is not None:
                raise self.staging.lost
            return self.staging.last_error
        state = f"{folder}/{STATE}"
        if not _is_consistent(text := self.staging.read_text(state, bounds.STATE_FILE), listed):
            return f"its `{STATE}` file names no complete checkpoint there"
        named = parse_state(text)
        if damage := self.damage(folder, names, named):
            if (self.places.target / state).exists():
                return damage
            self.note(f"{folder}: {damage}; it was copied as it is")
        if any("/" in path for path in named):  # the directory that the program trained in
            self.staging.replace_text(state, checkpoint_state(named[0], named))
        self.staging.place(names, self.places.target)
        return ""

    def damage(self, folder: str, copied: Sequence[str], named: Sequence[str]) -> str:
        """Return what is wrong with the newest checkpoint of a folder, if it was copied; an empty text if nothing is."""
        newest = last_component(named[0]) if named else ""
        if not any(one.whole and one.prefix == newest for one in checkpoints(map(last_component, copied))):
            return ""
        verdict = self.verify([self.staging.directory / folder / newest]).get(newest)
        return f"{newest} is damaged: {verdict.error}" if verdict is not None and verdict.error else ""

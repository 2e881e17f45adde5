"""What a checkpoint directory holds: its whole checkpoints, folder by folder, and the files beside them."""

from __future__ import annotations

import os
import re
import stat
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tfprov.filesystems.generations import MIRROR_STATUS, rank
from tfprov.formats.checkpoint import STATE, checkpoints, is_leftover, last_component, parse_state

HELD = ".tfprov-mirror"
"""The folder with hard links to the files of a checkpoint that is being uploaded: its program may remove it meanwhile."""
_OWN = (".tfprov", HELD, ".tfprov-held", ".tfprov-restore")
_UNSENT = ("progress.json", "placement.json", "manifest.json", MIRROR_STATUS)
"""Files that tasks and `tfprov gather` write anew."""
_TEMPORARY = re.compile(r"(\A|/)checkpoint\.tmp|\.tmp[0-9a-f]*\Z")
_STATE_LIMIT = 1 << 20


@dataclass(frozen=True)
class Stamp:
    """What changes with the content of a file: its size, time (in ns) and inode."""

    size: int
    modified: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        """Return the stamp of a file."""
        return cls(status.st_size, status.st_mtime_ns, status.st_ino)


@dataclass(frozen=True)
class LocalCheckpoint:
    """A whole checkpoint; `prefix` and the names of its `files` are relative to the directory."""

    prefix: str
    step: int
    files: Mapping[str, Stamp]

    @property
    def folder(self) -> str:
        """The folder it lies in; empty for the directory itself."""
        return self.prefix.rpartition("/")[0]


@dataclass(frozen=True)
class Listing:
    """The whole `checkpoints` of a directory by ascending rank, and the `others` beside them."""

    checkpoints: tuple[LocalCheckpoint, ...]
    others: Mapping[str, Stamp]

    def newest(self, folder: str = "") -> LocalCheckpoint | None:
        """Return the checkpoint of a folder from which a training goes on; see `rank`."""
        return next((one for one in reversed(self.checkpoints) if one.folder == folder), None)

    @property
    def prefixes(self) -> frozenset[str]:
        """The prefixes of its checkpoints."""
        return frozenset(one.prefix for one in self.checkpoints)


def scan(directory: Path) -> Listing:
    """List a directory. Files that vanish meanwhile are left out; raises OSError for a directory that cannot be read."""
    files = _files(directory)
    by_folder: dict[str, list[str]] = defaultdict(list)
    for name in files:
        folder, _, last = name.rpartition("/")
        by_folder[folder].append(last)
    whole, parts = [], set()
    for folder, names in by_folder.items():
        start = f"{folder}/" if folder else ""
        for one in checkpoints(names):
            if one.is_half_without_step and f"{one.prefix}.index" in one.files:
                continue  # the index of something else: a saver writes the shards first
            of_it = {f"{start}{name}": files[f"{start}{name}"] for name in one.files}
            parts |= set(of_it)
            if one.whole:
                whole.append(LocalCheckpoint(f"{start}{one.prefix}", one.step, of_it))
    whole.sort(key=lambda one: (*rank(one.prefix), one.prefix))
    others = {name: stamp for name, stamp in files.items() if name not in parts and _is_other(name)}
    return Listing(tuple(whole), others)


def _is_other(name: str) -> bool:
    last = last_component(name)
    # Graphs of the graph API come with their checkpoints.
    unwanted = is_leftover(name) or _TEMPORARY.search(name)
    return last != STATE and name not in _UNSENT and not last.endswith(".meta") and not unwanted


def _files(directory: Path) -> dict[str, Stamp]:
    files = {}
    base = str(directory)
    for parent, folders, names in os.walk(base):
        if parent == base:
            folders[:] = [folder for folder in folders if folder not in _OWN]
        for name in names:
            path = os.path.join(parent, name)  # noqa: PTH118  pathlib takes half of the time
            try:
                status = os.lstat(path)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(status.st_mode):
                files[path[len(base) + 1 :]] = Stamp.of(status)
    return files


def lies_elsewhere(directory: Path) -> str | None:
    """Return the checkpoint that the `checkpoint` file names and of which no file is here; None without one.

    A sharded saver leaves weights on the ps, where this mirror does not see them.
    """
    try:
        with (directory / STATE).open("rb") as file:
            text = file.read(_STATE_LIMIT).decode(errors="surrogateescape")
    except OSError:
        return None
    named = [last_component(path) for path in parse_state(text)[:1]]
    names = {path.name for path in directory.iterdir()}
    missing = (name for name in named if f"{name}.index" not in names and f"{name}.meta" in names)
    return next(missing, None)

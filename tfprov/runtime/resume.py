"""Repair a checkpoint directory before TensorFlow restores from it.

TensorFlow restores the checkpoint that the file `checkpoint` names: none when it is absent or holds absolute paths of
another directory, and an error when a shard is missing. So the chief rewrites this file from the files present before
every session it creates, also after a lost ps.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from tfprov.formats.checkpoint import (
    MODEL_SERIES,
    STATE,
    checkpoint_state,
    checkpoints,
    last_component,
    newest_whole,
    parse_state,
)

_LEFTOVER_FILE = re.compile(r".+\.tempstate[0-9]+|checkpoint\.tmp[0-9a-f]+")
_LEFTOVER_FOLDER = re.compile(r".+-[0-9]+_temp(?:_[0-9a-f]+)?")


def repair(directory: str) -> str | None:
    """Point `checkpoint` at the newest whole checkpoint, remove the leftovers of a killed save, return the prefix.

    A checkpoint with another name than `model.ckpt-STEP` counts only without any such: a program may save its weights
    there, too, which are not all that the training restores. Returns None for a directory without a whole checkpoint; it
    is created where it is missing. A remote directory (`gs://…`) is left to TensorFlow. Raises OSError when the directory
    cannot be read or written.
    """
    if "://" in directory:
        return None
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(folder)
    names = [entry.name for entry in folder.iterdir()]
    newest = newest_whole(names, MODEL_SERIES)
    if newest:
        listed = [prefix for prefix in _listed_checkpoints(folder, names) if prefix != newest]
        _replace(folder / STATE, checkpoint_state(newest, listed) + _timestamps(folder, [*listed, newest]))
    else:
        (folder / STATE).unlink(missing_ok=True)
    return newest


def _listed_checkpoints(folder: Path, names: Iterable[str]) -> list[str]:
    """Return the whole checkpoints that TensorFlow listed: it deletes the oldest of the listed ones."""
    whole = {checkpoint.prefix for checkpoint in checkpoints(names) if checkpoint.whole}
    try:
        text = (folder / STATE).read_text("utf-8", "surrogateescape")
    except FileNotFoundError:
        return []
    first, *others = map(last_component, parse_state(text) or [""])
    return [prefix for prefix in dict.fromkeys([*others, first]) if prefix in whole]


def _timestamps(folder: Path, prefixes: Sequence[str]) -> str:
    """Return when each was saved, as TensorFlow 2 writes it: what it lists without a time it never deletes."""
    times = ((folder / f"{prefix}.index").stat().st_mtime for prefix in prefixes)
    return "".join(f"all_model_checkpoint_timestamps: {time!r}\n" for time in times)


def _remove_leftovers(folder: Path) -> None:
    for entry in list(folder.iterdir()):
        if entry.is_dir() and not entry.is_symlink() and _LEFTOVER_FOLDER.fullmatch(entry.name):
            shutil.rmtree(entry)
        elif entry.is_file() and _LEFTOVER_FILE.fullmatch(entry.name):
            entry.unlink(missing_ok=True)


def _replace(path: Path, text: str) -> None:
    """Replace the file atomically, also across a power cut."""
    beside = path.with_name(f"{path.name}.tmp{os.getpid():x}")
    with beside.open("w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)

"""Make a checkpoint directory say the truth before TensorFlow reads it.

TensorFlow restores whatever the file `checkpoint` names: nothing when it is absent or holds the absolute paths of
another place, and a torn checkpoint with an error when a shard was lost. So the chief writes this file anew, from what
is there, before every session it creates, also the one that follows a lost ps.
"""

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from tfprov.formats.checkpoint import STATE, checkpoint_state, checkpoints, last_component, newest_whole, parse_state

_LEFT_FILE = re.compile(r".+\.tempstate[0-9]+|checkpoint\.tmp[0-9a-f]+")
_LEFT_FOLDER = re.compile(r".+-[0-9]+_temp(?:_[0-9a-f]+)?")


def repair(directory: str) -> str | None:
    """Point `checkpoint` at the newest whole checkpoint, remove the leftovers of a killed save, return the prefix.

    Returns None for a directory without a whole checkpoint; it is created where it is missing. A remote directory
    (`gs://…`) is left to TensorFlow. Raises OSError when the directory cannot be read or written.
    """
    if "://" in directory:
        return None
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(folder)
    names = [entry.name for entry in folder.iterdir()]
    newest = newest_whole(names)
    if newest:
        _replace(folder / STATE, checkpoint_state(newest, _managed(folder, names)))
    else:
        (folder / STATE).unlink(missing_ok=True)
    return newest


def _managed(folder: Path, names: Iterable[str]) -> list[str]:
    """Only the whole checkpoints that TensorFlow itself listed: it deletes the oldest of those it is told of."""
    whole = {checkpoint.prefix for checkpoint in checkpoints(names) if checkpoint.whole}
    try:
        text = (folder / STATE).read_text("utf-8", "surrogateescape")
    except FileNotFoundError:
        return []
    first, *others = map(last_component, parse_state(text) or [""])
    return [prefix for prefix in dict.fromkeys([*others, first]) if prefix in whole]


def _remove_leftovers(folder: Path) -> None:
    for entry in list(folder.iterdir()):
        if entry.is_dir() and not entry.is_symlink() and _LEFT_FOLDER.fullmatch(entry.name):
            shutil.rmtree(entry)
        elif entry.is_file() and _LEFT_FILE.fullmatch(entry.name):
            entry.unlink(missing_ok=True)


def _replace(path: Path, text: str) -> None:
    """Write beside and rename, so that a reader sees the old text or the new, also after a power cut."""
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

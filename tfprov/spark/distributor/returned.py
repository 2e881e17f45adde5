"""A checkpoint that tasks sent back, written to a directory of the driver: whole, or not at all."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tfprov.errors import GatherError
from tfprov.formats.checkpoint import STATE, checkpoint_state
from tfprov.spark.distributor.rows import Outcome, Saved


@dataclass(frozen=True)
class ReturnedCheckpoint:
    """The newest whole checkpoint of a run: its path without an extension, its step, and the tensors that were read."""

    path: Path
    step: int
    tensors: int


def write_checkpoint(result: Outcome, directory: Path) -> ReturnedCheckpoint | None:
    """Write the checkpoint of `result` to `directory`; None if there is none.

    Each file is compared with the hash that its task computed. TensorFlow's file `checkpoint` comes last. Raises
    GatherError for a file that differs.
    """
    saved = result.saved
    if saved is None:
        return None
    directory.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=".part-", dir=directory))
    try:
        for name, expected in saved.files.items():
            _write(beside / name, result.files.get(name, ()), expected, saved)
        for name in saved.files:
            (beside / name).replace(directory / name)
        state = beside / STATE
        state.write_text(checkpoint_state(saved.prefix, [saved.prefix]))
        state.replace(directory / STATE)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return ReturnedCheckpoint(directory / saved.prefix, saved.step, saved.tensors)


def _write(path: Path, pieces: Sequence[bytes], expected: str, saved: Saved) -> None:
    digest = hashlib.sha256()
    with path.open("xb") as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
        file.flush()
        os.fsync(file.fileno())
    if digest.hexdigest() != expected:
        raise GatherError(f"{path.name} of {saved.prefix} arrived damaged", "run it again, or set `checkpoint_dir`")

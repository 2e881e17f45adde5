"""A TF2 checkpoint that lies whole on the chief, may be moved, and is gone on from."""

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tfprov.runtime.lazy import tensorflow
from tfprov.runtime.leaving import die
from tfprov.runtime.resume import repair

PREFIX = "model.ckpt"
_ASIDE = "replica-0_temp"
"""Where a replica writes what only the chief keeps; named so that what a killed one leaves is known as a leftover."""


class Saver:
    """Saves `objects` as `model.ckpt-STEP` in `directory`, and keeps the newest `keep`.

    `io_device` is where files are written and read. Without one every ps does it, on its own disk.
    """

    def __init__(self, directory: str, objects: Mapping[str, Any], keep: int, io_device: str | None = None) -> None:
        train = tensorflow().train
        self.directory = directory
        self.newest = repair(directory)
        self._checkpoint = train.Checkpoint(**objects)
        self._options = train.CheckpointOptions(experimental_io_device=io_device)
        # It writes the paths in the file `checkpoint` relative to it, and deletes only what it listed there.
        self._manager = train.CheckpointManager(self._checkpoint, directory, max_to_keep=keep, checkpoint_name=PREFIX)

    def restore(self) -> str | None:
        """Read the newest whole checkpoint and return its path; None where there is none to go on from."""
        path = self._manager.latest_checkpoint if "://" in self.directory else self.newest and self._path(self.newest)
        if not path:
            return None
        try:
            self._checkpoint.restore(path, options=self._options).assert_existing_objects_matched()
        except (AssertionError, ValueError, tensorflow().errors.NotFoundError) as error:
            die(f"{path} is of another model: {' '.join(str(error).split())[:300]}")
        return str(path)

    def save(self, step: int) -> str:
        """Write the checkpoint of `step` and return its path; what is there already is not written again."""
        path = self._path(f"{PREFIX}-{step}")
        if self._manager.latest_checkpoint != path:
            self._manager.save(checkpoint_number=step, options=self._options)
        return path

    def save_aside(self) -> str:
        """Take part in a save that another task keeps: to read some variables every replica is needed."""
        with _removed(Path(self.directory, _ASIDE)) as folder:
            return str(self._checkpoint.write(str(folder / PREFIX)))

    def _path(self, name: str) -> str:
        return f"{self.directory.rstrip('/')}/{name}"


@contextlib.contextmanager
def _removed(folder: Path) -> Iterator[Path]:
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)

"""Save and restore the checkpoints of a TF2 program: whole on the chief, and with relative paths."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfprov.atomic_write import replace
from tfprov.formats.checkpoint import MODEL_SERIES
from tfprov.runtime.lazy_tensorflow import tensorflow
from tfprov.runtime.placement import FILE, describe
from tfprov.runtime.resume import repair
from tfprov.runtime.signals import die

_REPLICA_DIRECTORY = "replica-0_temp"
"""Begins where other replicas write their copy of a save; `repair` removes one that a killed replica leaves."""


class Saver:
    """Saves `objects` as `model.ckpt-STEP` in `directory`, and keeps the newest `keep`.

    `io_device` reads and writes the files. Without it every ps uses its own disk.
    """

    def __init__(self, directory: str, objects: Mapping[str, Any], keep: int, io_device: str | None = None) -> None:
        train = tensorflow().train
        self.directory = directory
        self.newest = repair(directory)
        self._checkpoint = train.Checkpoint(**objects)
        # All replicas create it here: the chief's first save would create it alone, and within a strategy's scope, where
        # `Model.fit` calls its callbacks, that is a joint operation.
        assert self._checkpoint.save_counter is not None
        self._options = train.CheckpointOptions(experimental_io_device=io_device)
        # It writes the paths in the file `checkpoint` relative to it, and deletes only what it listed there.
        self._manager = train.CheckpointManager(
            self._checkpoint, directory, max_to_keep=keep, checkpoint_name=MODEL_SERIES
        )

    def restore(self) -> str | None:
        """Restore the newest whole checkpoint and return its path; None where there is none."""
        path = self._manager.latest_checkpoint if "://" in self.directory else self.newest and self._path(self.newest)
        if not path:
            return None
        try:
            self._checkpoint.restore(path, options=self._options).assert_existing_objects_matched()
        except (AssertionError, ValueError, tensorflow().errors.NotFoundError) as error:
            die(f"{path} is of another model: {' '.join(str(error).split())[:300]}")
        return str(path)

    def save(self, step: int) -> str:
        """Write the checkpoint of `step` unless it exists, and return its path."""
        path = self._path(f"{MODEL_SERIES}-{step}")
        if self._manager.latest_checkpoint != path:
            self._manager.save(checkpoint_number=step, options=self._options)
        return path

    def save_aside(self) -> str:
        """Take part in the save of another task: some variables can be read only by all replicas together."""
        own = f"{_REPLICA_DIRECTORY}_{uuid.uuid4().hex}"  # replicas may share the directory, as in a Slurm job
        with _removed_afterwards(Path(self.directory, own)) as folder:
            return str(self._checkpoint.write(str(folder / MODEL_SERIES)))

    def _path(self, name: str) -> str:
        return f"{self.directory.rstrip('/')}/{name}"


@contextlib.contextmanager
def _removed_afterwards(folder: Path) -> Iterator[Path]:
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_placement(directory: str, variables: Iterable[Any]) -> None:
    """Write which task holds which variable."""
    entries = [
        describe(variable, re.sub(r":0\Z", "", str(variable.name)), task_of(variable.device)) for variable in variables
    ]
    if "://" not in directory:
        replace(Path(directory, FILE), f"{json.dumps({'variables': entries}, indent=1)}\n".encode())


def task_of(device: str) -> str:
    """Return `/job:ps/task:0` of TensorFlow's `/job:ps/replica:0/task:0/device:CPU:0`; empty for a local device."""
    parts = re.search(r"/job:(\w+)(?:/replica:\d+)?/task:(\d+)", device or "")
    return f"/job:{parts[1]}/task:{parts[2]}" if parts else ""


def variables_of(container: Any) -> Sequence[Any]:
    """Return TensorFlow's own variables in a module, a Keras model or optimizer, a collection, or a variable."""
    if isinstance(container, dict):
        container = list(container.values())
    inner = container if isinstance(container, (list, tuple)) else getattr(container, "variables", None)
    if inner is None:
        value = container.value  # Keras' variables hold one of TensorFlow's; of these it is a method
        return [container if callable(value) else value]
    return [variable for each in (inner() if callable(inner) else inner) for variable in variables_of(each)]

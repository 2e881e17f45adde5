"""How far the chief has got, from the end of the event file it writes."""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, cast

from tfprov.checkpoint import checkpoints
from tfprov.engine.context import Context
from tfprov.errors import HostError
from tfprov.events import Progress, last_fall, progress
from tfprov.hosts.base import File, Runtime
from tfprov.model.state import Observation

_MOST = 2 * 1024 * 1024
"""Bytes looked at: this is asked all the time, perhaps over a slow line; 64 KiB do for most files."""
_STEPS = re.compile(r"--?(?:train_steps|training_steps|max_steps|num_steps)=(\d{1,18})")
_CHECKPOINTS = "checkpoints"
"""What says how far the chief is where it writes no event file."""
_SLACK = 1024 * 1024
"""Bytes that a file may grow by, between its listing and its reading."""


@dataclass(frozen=True)
class Reached:
    """How far the chief has got by its files: `source` is the directory of its event file, or what else says it.

    `saved` is the step of the checkpoint that was written last, and when, by the host's clock.
    `progress` is what the event file says, `file` its name and `size` its bytes; None where there are checkpoints only.
    """

    step: int
    source: str
    progress: Progress | None = None
    file: str = ""
    size: int = 0
    saved: tuple[int, float] | None = None


def read_fall(context: Context, seen: Observation, reached: Reached, since: float) -> tuple[int, int] | None:
    """Return the last fall of steps in the chief's event file that was written after `since`, by its host's clock."""
    found = context.chief(seen)
    if found is None or not reached.file:
        return None
    try:
        return last_fall(tail_of(context.runtimes[found.host], found.task, reached.file, reached.size), since)
    except HostError:
        return None


def read_progress(context: Context, seen: Observation, files: Mapping[str, File] | None = None) -> Progress | None:
    """Return the chief's progress, or None while it has written none; `files` are in its directory, if that is known."""
    found = read_reached(context, seen, files)
    return found.progress if found is not None else None


def read_reached(context: Context, seen: Observation, files: Mapping[str, File] | None = None) -> Reached | None:
    """Return how far the chief has got: by its event file, else by the checkpoint that it wrote last; None for nothing."""
    found = context.chief(seen)
    if found is None:
        return None
    runtime = context.runtimes[found.host]
    try:
        listed = runtime.files(found.task) if files is None else files
        saved = _last_saved(listed)
        events = [(file.modified, name, file.size) for name, file in listed.items() if ".tfevents." in name]
        for _, name, size in sorted(events, reverse=True):
            if (read := progress(tail_of(runtime, found.task, name, size), _MOST)) is not None:
                return Reached(read.step, name.rpartition("/")[0], read, name, size, saved)
    except HostError:  # a file that is removed between the listing and the reading
        return None
    return Reached(saved[0], _CHECKPOINTS, saved=saved) if saved is not None else None


def _last_saved(files: Mapping[str, File]) -> tuple[int, float] | None:
    whole = [one for one in checkpoints(files) if one.whole and one.step >= 0]
    written = [(files[f"{one.prefix}.index"].modified, one.step) for one in whole]
    return max(written)[::-1] if written else None


def steps_of(context: Context) -> int | None:
    """Return how many steps the chief is to train; None where its command line does not say it."""
    chief = context.container(context.cluster.chief.name)
    return train_steps(chief.argv) if chief is not None else None


def train_steps(argv: Sequence[str]) -> int | None:
    """Return how many steps a task is told to train, by the flags that TensorFlow's own examples use; None for none.

    The last one counts, as it does for argparse and absl.
    """
    numbers = [match[1] for word in argv if (match := _STEPS.fullmatch(word))]
    return int(numbers[-1]) if numbers else None


def tail_of(runtime: Runtime, task: str, name: str, size: int) -> BinaryIO:
    """Return a file of `size` bytes for a reader that wants its end: only that is fetched from the host.

    Where the file has grown since it was listed, what is read from its middle is as much, and later.
    """
    return cast(BinaryIO, _Tail(runtime, task, name, size))


class _Tail(io.RawIOBase):
    def __init__(self, runtime: Runtime, task: str, name: str, size: int) -> None:
        self._fetch = partial(runtime.tail, task, name)
        self._size, self._at = size, 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place; nothing is fetched for that."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` from here on; all up to the end at once, so that no part of it is of another time."""
        count = min(len(buffer), max(0, self._size - self._at))
        if not count:
            return 0
        # From its beginning a file is the same however much it has grown.
        data = self._fetch(self._size - self._at if self._at else self._size + _SLACK)[:count]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

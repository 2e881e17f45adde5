"""The chief's progress, from the end of its event file or its newest checkpoint."""

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO, cast

from tfprov.engine.context import Context
from tfprov.errors import HostError
from tfprov.formats.checkpoint import MODEL_SERIES, checkpoints
from tfprov.formats.event_file import EventProgress, last_step_drop, progress
from tfprov.hosts.base import File, Runtime
from tfprov.model.state import Observation, Observed

MOST = 2 * 1024 * 1024
"""Bytes of an event file that are searched, as it is read often and over slow lines; 64 KiB suffice for most."""
_STEPS = re.compile(r"--?(?:train_steps|training_steps|max_steps|num_steps)=(\d{1,18})")
_CHECKPOINTS = "checkpoints"
"""The source of the progress of a chief without event files."""
BY_STEP = f"{MODEL_SERIES}-"
"""Begins the names of TensorFlow 1's checkpoints; TensorFlow 2 counts how often it saved, as in `ckpt-3`."""
STANDSTILL = 30.0
"""Seconds after its last step in which a program saves and exits; a slower one is reported."""
_SLACK = 1024 * 1024
"""Bytes that a file may grow by, between its listing and its reading."""


@dataclass(frozen=True)
class Reached:
    """The chief's progress by its files. `source` is the directory of the event file, or _CHECKPOINTS.

    `saved` is the step of the checkpoint that was written last, and when, by the host's clock; beside an event file, of one
    whose number is a step.
    `progress` is what the event file says, `file` its name and `size` its bytes; None where there are checkpoints only.
    """

    step: int
    source: str
    progress: EventProgress | None = None
    file: str = ""
    size: int = 0
    saved: tuple[int, float] | None = None


def read_step_drop(
    context: Context, observation: Observation, reached: Reached, since: float
) -> tuple[int, int] | None:
    """Return the last drop of steps in the chief's event file that was written after `since`, by its host's clock."""
    chief = context.chief(observation)
    if chief is None or not reached.file:
        return None
    try:
        return last_step_drop(tail_of(context.runtimes[chief.host], chief.task, reached.file, reached.size), since)
    except HostError:
        return None


def read_progress(
    context: Context, observation: Observation, files: Mapping[str, File] | None = None
) -> EventProgress | None:
    """Return the chief's progress, or None while it has written none; `files` are in its directory, if that is known."""
    reached = read_reached(context, observation, files)
    return reached.progress if reached is not None else None


def read_reached(context: Context, observation: Observation, files: Mapping[str, File] | None = None) -> Reached | None:
    """Return the chief's progress by its event file, else by its newest checkpoint; None without either."""
    chief = context.chief(observation)
    if chief is None:
        return None
    runtime = context.runtimes[chief.host]
    try:
        listed = runtime.files(chief.task) if files is None else files
        saved = _last_saved(listed)
        events = [(file.modified, name, file.size) for name, file in listed.items() if ".tfevents." in name]
        for _, name, size in sorted(events, reverse=True):
            if (read := progress(tail_of(runtime, chief.task, name, size), MOST)) is not None:
                return Reached(read.step, name.rpartition("/")[0], read, name, size, _last_saved(listed, BY_STEP))
    except HostError:  # the file was removed after the listing
        return None
    return Reached(saved[0], _CHECKPOINTS, saved=saved) if saved is not None else None


def _last_saved(files: Mapping[str, File], prefix: str = "") -> tuple[int, float] | None:
    whole = [one for one in checkpoints(files) if one.whole and one.step >= 0 and one.prefix.startswith(prefix)]
    written = [(files[f"{one.prefix}.index"].modified, one.step) for one in whole]
    return max(written)[::-1] if written else None


def steps_of(context: Context, present: Observed | None = None) -> int | None:
    """Return the number of steps in the chief's flags, or None: of the chief that is `present`, else of the inventory's.

    They differ when a flag was edited, or set with `-e`, since the chief was started.
    """
    if present is not None and isinstance(flags := present.spec.get("flags"), Mapping):
        command = present.spec.get("command") or ()
        return train_steps([*map(str, command), *(f"--{name}={value}" for name, value in flags.items())])
    chief = context.container(context.cluster.chief.name)
    return train_steps(chief.argv) if chief is not None else None


def train_steps(argv: Sequence[str]) -> int | None:
    """Return the number of steps in a command line, by the flags of TensorFlow's examples; None without one.

    The last flag counts, as for argparse and absl. A 0 is no number of steps: programs take it for no limit.
    """
    numbers = [match[1] for word in argv if (match := _STEPS.fullmatch(word))]
    return int(numbers[-1]) or None if numbers else None


def tail_of(runtime: Runtime, task: str, name: str, size: int) -> BinaryIO:
    """Open a file of `size` bytes for a reader of its end; only that part is fetched from the host.

    If the file has grown since it was listed, a read from its middle returns as many bytes from further behind.
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
        count = min(len(buffer), self._size - self._at)
        if count <= 0:  # a seek may go beyond the end
            return 0
        # From its beginning a file is the same however much it has grown.
        data = self._fetch(self._size - self._at if self._at else self._size + _SLACK)[:count]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


StepDrop = tuple[int, int]
"""A step, and the lower one that came next."""

WHILE = 600.0
"""Seconds in which a session recovers: restarts are seconds apart, and TensorFlow looks for its peers every 30 seconds."""

Lives = frozenset[tuple[str, str, float | None, int]]
"""The current containers and restarts of the chief and the ps: a restart of one loses steps."""


def lives(containers: Iterable[Observed], chief: str) -> Lives:
    """Return the lives of the tasks with which a training loses steps: its chief and its ps."""
    holding = (one for one in containers if one.task == chief or one.task.startswith("ps/"))
    return frozenset((one.task, one.host, one.started_at, one.restarts) for one in holding)


@dataclass
class StepDrops:
    """Detects lost steps: a lower step than before, within WHILE after a restart of the chief or a ps.

    Without a restart, a lower step is the program's way of counting, for example one that starts anew in each epoch. The
    time is needed because the old last step is read until the session has recovered.
    """

    highest: dict[str, int] = field(default_factory=dict)
    written: dict[str, float] = field(default_factory=dict)
    saved: float = 0.0
    lives: Lives | None = None
    begun: float | None = None

    def update(
        self, reached: Reached, now: Lives, at: float, fall: Callable[[float], StepDrop | None]
    ) -> StepDrop | None:
        """Return the lost steps in what was `reached` at time `at`, or None.

        `fall` returns the last fall in the same file that was written after a time of the host's clock.
        """
        if self.lives is not None and now != self.lives:
            self.begun = at
        self.lives, source = now, reached.source
        before = self.highest.get(source, reached.step)
        armed = self.begun is not None and at - self.begun <= WHILE
        fell = (before, reached.step) if reached.step < before else None
        if armed and fell is None and reached.saved is not None and reached.saved[1] > self.saved:
            # A new session saves at once, and may write no event until it has reached the old step.
            fell = (before, reached.saved[0]) if reached.saved[0] < before else None
        if armed and fell is None and source in self.written:
            fell = fall(self.written[source])
        if not armed or fell is None:
            self.highest[source] = max(before, reached.step)
            if not armed and reached.progress is not None:
                self.written[source] = reached.progress.wall_time
            if not armed and reached.saved is not None:
                self.saved = reached.saved[1]
            return None
        self.highest, self.begun = {source: reached.step}, None
        self.saved = reached.saved[1] if reached.saved is not None else self.saved
        return fell


@dataclass
class TotalSteps:
    """Judges whether the number in a flag is the total of a training: others are of an epoch, or of an unrolled network.

    Pure. `reached` is the first step at or after that number.
    """

    flag: int | None = None
    reached: int | None = None
    exceeded: bool = False

    def update(self, step: int, flag: int | None, workers: int) -> int | None:
        """Return the total by the chief's `step` and its `flag`; None for a training that goes on after it.

        Each of the `workers` may have begun one more step when the last one is made.
        """
        if flag != self.flag:  # the chief was started with another one
            self.flag, self.reached, self.exceeded = flag, None, False
        if flag is not None and step >= flag:
            self.reached = step if self.reached is None else self.reached
            self.exceeded = self.exceeded or step > self.reached + workers
        return None if self.exceeded else flag


@dataclass
class Standstill:
    """Detects a chief that runs on after its last step. Pure; times are in seconds."""

    since: float = 0.0
    state: tuple[int | None, bool] | None = None
    reported: bool = False

    def update(self, reached: EventProgress | None, steps: int | None, *, others_done: bool, now: float) -> str:
        """Return a note, once per standstill. `steps` is the number to train; `others_done`: all other workers ended."""
        step = reached.step if reached is not None else None
        state = step, others_done
        if state != self.state:
            self.state, self.since, self.reported = state, now, False
        at_its_end = steps is not None and step is not None and step >= steps
        if self.reported or not (at_its_end or others_done) or now - self.since < STANDSTILL:
            return ""
        self.reported = True
        what = f"is at its last step, {step:,}," if at_its_end else "makes no step, with all other workers done,"
        if step is None:
            what = "is the last of the workers that runs"
        since = f"for {now - self.since:.0f} s and has not ended"
        return f"{what} {since}: a thread or a child of its program may still run"

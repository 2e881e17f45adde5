"""The results of the verbs of `tfprov.Cluster`: frozen values, each with `to_dict()` for JSON and `str()` for people."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from tfprov.model.plan import Plan


@dataclass(frozen=True)
class PlanResult:
    """What `up` would do. True in a condition if there is anything to do.

    `lines` are the actions in words, `consequence` is what they cost the training, `obstacles` are the errors that a start
    would meet, and `uncomparable` says which secrets cannot be compared with the running tasks.
    """

    plan: Plan
    title: str
    lines: tuple[str, ...]
    consequence: str | None = None
    obstacles: tuple[str, ...] = ()
    uncomparable: str | None = None

    def __bool__(self) -> bool:
        return bool(self.plan)

    def __str__(self) -> str:
        return "\n".join(self.text())

    def text(self) -> Iterator[str]:
        """Yield the plan as `tfprov plan` prints it."""
        if self.uncomparable is not None:
            yield self.uncomparable
        if not self.plan:
            yield f"{self.title}: {self.lines[0]}"
        else:
            yield self.title
            yield from (f"  {line}" for line in self.lines)
        if self.consequence is not None:
            yield self.consequence
        yield from (f"in the way: {obstacle}" for obstacle in self.obstacles)

    def with_obstacles(self, errors: Iterable[Exception]) -> "PlanResult":
        """Return the result with what a start would be refused for."""
        return replace(self, obstacles=tuple(map(str, errors)))

    def to_dict(self) -> dict[str, Any]:
        """Return the cluster's name and its actions, as `plan --json` prints them."""
        return self.plan.to_dict()


@dataclass(frozen=True)
class UpResult:
    """What `up` did: the `plan` that it carried out, empty if everything was running already."""

    plan: Plan

    @property
    def changed(self) -> bool:
        """Whether anything had to be done."""
        return bool(self.plan)

    def to_dict(self) -> dict[str, Any]:
        """Return `cluster`, `changed` and `actions`."""
        return {"changed": self.changed, **self.plan.to_dict()}


@dataclass(frozen=True)
class Checkpoint:
    """A gathered checkpoint: its path without the extension, its step, and how many tensors were read to verify it.

    `tensors` is None if an earlier version gathered it without TensorFlow, which it needed to read them.
    """

    path: Path
    step: int
    tensors: int | None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        return {"path": str(self.path), "step": self.step, "tensors": self.tensors}


class SavedCheckpoint(Protocol):
    """An entry of the gather directory's manifest; `prefix` is relative to that directory."""

    @property
    def prefix(self) -> str:
        """Return the path, relative to the gather directory."""
        ...

    @property
    def step(self) -> int:
        """Return the training step."""
        ...

    @property
    def tensors(self) -> int | None:
        """Return how many tensors were read; None if they were not."""
        ...


def checkpoint(directory: Path, saved: SavedCheckpoint) -> Checkpoint:
    """Return an entry of the manifest in `directory` as a result."""
    return Checkpoint(directory / saved.prefix, saved.step, saved.tensors)


@dataclass(frozen=True)
class GatherResult:
    """What `gather` copied into `directory`: the number of `files`, and their `size` in bytes.

    `newest` is the newest checkpoint there, copied now or before, and `new` are those that were copied now.
    """

    directory: Path
    files: int
    size: int
    newest: Checkpoint | None = None
    new: tuple[Checkpoint, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        return {
            "directory": str(self.directory),
            "files": self.files,
            "size": self.size,
            "newest": self.newest.to_dict() if self.newest else None,
            "new": [checkpoint.to_dict() for checkpoint in self.new],
        }


@dataclass(frozen=True)
class RunResult:
    """A training that ended with exit code 0: where its files are, and its newest checkpoint, None if it saved none.

    `run` is its id in the history, empty where none is kept; `seconds` is how long the verb took.
    """

    cluster: str
    directory: Path
    newest: Checkpoint | None
    run: str = ""
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        newest = self.newest.to_dict() if self.newest else None
        where = {"cluster": self.cluster, "directory": str(self.directory), "newest": newest}
        return {**where, "run": self.run, "seconds": round(self.seconds, 3)}


@dataclass(frozen=True)
class DownResult:
    """What `down` removed: the names of the tasks that were on the hosts, empty if there were none."""

    cluster: str
    removed: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        return {"cluster": self.cluster, "removed": list(self.removed)}


@dataclass(frozen=True)
class Rendering:
    """The files of a render target, by their names."""

    target: str
    files: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        return {"target": self.target, "files": dict(self.files)}


@dataclass(frozen=True)
class LogRecord:
    """A line that a task printed, or a remark of tfprov's about the log of a task that was removed (`is_remark`)."""

    task: str
    line: str
    is_remark: bool = False
    printed: float | None = None
    """When the task printed it, in seconds since 1970 by its host's clock; None if that is not known."""
    unfinished: bool = False
    """Whether the line may still change, as a progress bar does; only with `unfinished=True`."""

    def to_dict(self) -> dict[str, Any]:
        """Return the task, the line, and when it was printed."""
        return {"task": self.task, "line": self.line, "printed": self.printed}


class LogStream:
    """The logs of `tasks`; iterate over it once, for LogRecord values."""

    def __init__(self, tasks: tuple[str, ...], records: Iterable[LogRecord]) -> None:
        self.tasks, self._records = tasks, iter(records)

    def __iter__(self) -> Iterator[LogRecord]:
        return self._records


@dataclass(frozen=True)
class WebServer:
    """A TensorBoard, model server or notebook that answers at `url`; `stay` blocks until it ends and raises TaskFailed."""

    task: str
    host: str
    url: str
    stay: Callable[[], None]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields but for `stay`."""
        return {"task": self.task, "host": self.host, "url": self.url}


@dataclass(frozen=True)
class StoredImage:
    """An image that the controller keeps, or that a host's engine has.

    `where` is "controller" or a host; `size` in bytes and `platform` are None for an image on a host.
    """

    where: str
    name: str
    id: str
    size: int | None = None
    platform: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        return asdict(self)


@dataclass(frozen=True)
class PruneResult:
    """What was removed on a host: the number of `images` and of data sets (`data`)."""

    host: str
    images: int
    data: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        return asdict(self)

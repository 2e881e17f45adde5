"""The state of one task on an in-memory host."""

import hashlib
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from posixpath import normpath

from tfprov.errors import HostError
from tfprov.formats.checkpoint import is_within
from tfprov.hosts import held_checkpoints
from tfprov.hosts.base import File, OutsideFile, Pick, Prefix, Tree
from tfprov.hosts.crash import FailedRun, is_hopeless, is_restarted, last_words
from tfprov.hosts.log_lines import Line
from tfprov.model.cluster import Task
from tfprov.model.state import Container, Observed, State


@dataclass
class MemoryTask:
    """One task: its container, and the state that outlives its restarts."""

    observed: Observed
    container: Container | None = None
    files: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    log: list[Line] = field(default_factory=list)
    written: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    """Files outside of the checkpoint directory; those with absolute paths outlive the task."""
    run_start: int = 0
    """Number of log lines of earlier runs."""
    previous: FailedRun | None = None
    """The previous run, if it failed."""

    @property
    def runs(self) -> bool:
        """Whether its process runs."""
        return self.observed.state is State.RUNNING

    def open_rest(self, name: str, before: Prefix) -> io.BytesIO | None:
        """Open a file of the checkpoint directory behind `before`; None if it does not begin so."""
        data = self.files.get(name, (b"", 0.0))[0]
        same = hashlib.sha256(data[: before.size]).hexdigest() == before.sha256
        return io.BytesIO(data[before.size :]) if same and len(data) >= before.size else None

    def list_files(self) -> dict[str, File]:
        """Return the files of the checkpoint directory, without the held ones."""
        return held_checkpoints.split_held(
            {name: File(len(data), modified) for name, (data, modified) in self.files.items()}
        )[0]

    def hold(self) -> dict[str, File]:
        """Hold the existing checkpoint files under a second name."""
        self.release()
        held = held_checkpoints.checkpoint_files(self.list_files())
        self.files.update({f"{held_checkpoints.FOLDER}/{name}": self.files[name] for name in held})
        return held

    def release(self) -> None:
        """Release the held files."""
        self.files = {name: self.files[name] for name in self.list_files()}

    def exits(self, code: int, now: float) -> None:
        """End the process with `code`; restart it if its container says so."""
        container = self.container
        may_restart = (
            container is not None
            and container.restart == "on-failure"
            and self.observed.restarts < container.max_restarts
        )
        only, never = (container.restart_on, container.no_restart_on) if container is not None else ((), ())
        if not (is_restarted(code, only, never) and may_restart):
            self.ends(code, now)
            return
        run = FailedRun(code, now - (self.observed.started_at or 0.0), last_words(self.log[self.run_start :]))
        if self.previous is not None and is_hopeless(self.previous, run):
            self.ends(code, now)
            self.observed = replace(self.observed, gave_up=True)
            return
        self.previous, self.run_start = run, len(self.log)
        restarts = self.observed.restarts + 1
        self.observed = replace(self.observed, restarts=restarts, last_exit=code, last_words=run.words, started_at=now)

    def ends(self, code: int, now: float, *, stopped: bool = False) -> None:
        """End the process for good."""
        self.observed = replace(
            self.observed, state=State.EXITED, id="", exit_code=code, stopped=stopped, finished_at=now
        )

    def files_written(self, pick: Pick) -> Mapping[str, OutsideFile]:
        """See OutsideFiles."""
        return {
            name: OutsideFile(len(self.written[name][0]), self.written[name][1], lasting=name.startswith("/"))
            for name in pick(self.written)
        }

    def tree(self, path: str) -> Tree:
        """See OutsideFiles."""
        top = normpath(path)
        names = sorted(name for name in self.written if is_within(name, top))
        if not names:
            raise HostError(self.observed.host, f"no such file or directory: {path}")
        files = ((name, *self.written[name]) for name in names)
        prefix_length = 0 if top == "." else len(top) + 1
        return Tree(top, ((name[prefix_length:], File(len(data), at), io.BytesIO(data)) for name, data, at in files))

    def put(self, path: str, source: Path, now: float) -> None:
        """Add a local file, or all files of a local directory."""
        for file in [source] if source.is_file() else sorted(one for one in source.rglob("*") if one.is_file()):
            self.written[normpath(f"{path}/{file.relative_to(source)}")] = file.read_bytes(), now


class MemoryOutsideFiles:
    """See OutsideFiles. `check` raises HostError while the host fails."""

    def __init__(self, places: Mapping[str, MemoryTask], check: Callable[[], None]) -> None:
        self._places, self._check = places, check

    def written(self, task: str, pick: Pick) -> Mapping[str, OutsideFile]:
        """See OutsideFiles."""
        self._check()
        return self._places[task].files_written(pick) if task in self._places else {}

    def tree(self, task: str, path: str) -> Tree:
        """See OutsideFiles."""
        self._check()
        return self._places[task].tree(path)


def check_free(host: str, task: Task, places: Iterable[MemoryTask]) -> None:
    """Raise HostError if a running task is `task`, or has its port."""
    for other in tuple(places):
        if other.observed.state is not State.RUNNING:
            continue
        if other.observed.task == task.name:
            problem = f"{task.name} is already running (container {other.observed.id})"
            raise HostError(host, problem, "stop it first")
        if task.serves and other.observed.spec.get("endpoint") == task.endpoint:
            problem = f"port {task.port} for {task.name} is taken by {other.observed.task}"
            raise HostError(host, problem, "stop it, or choose another `port`")


def read_local(host: str, path: Path) -> bytes:
    """Return the content of a local file that is restored. Raises HostError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise HostError(host, f"{path} cannot be read: {error.strerror}") from None

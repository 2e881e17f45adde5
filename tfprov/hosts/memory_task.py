"""What a host in memory has of one task."""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from posixpath import normpath

from tfprov.errors import HostError
from tfprov.formats.checkpoint import lies_in, model_files
from tfprov.hosts import held_checkpoints
from tfprov.hosts.base import File, OutsideFile, Tree
from tfprov.hosts.crash import Life, is_hopeless, last_words
from tfprov.model.state import Container, Observed, State


@dataclass
class Place:
    """All there is of one task: its container, and what outlives a restart of it."""

    observed: Observed
    container: Container | None = None
    files: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    written: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    """The files outside of the checkpoint directory; those with an absolute path stay when the task is removed."""
    begin: int = 0
    """How many lines of the log are of earlier runs of the task."""
    before: Life | None = None
    """The run before the present one, where that failed."""

    def listing(self) -> dict[str, File]:
        """Return the files of the checkpoint directory, without those that are held."""
        return held_checkpoints.apart(
            {name: File(len(data), modified) for name, (data, modified) in self.files.items()}
        )[0]

    def hold(self) -> dict[str, File]:
        """Keep what of checkpoints there is under a second name."""
        self.release()
        now = held_checkpoints.held(self.listing())
        self.files.update({f"{held_checkpoints.FOLDER}/{name}": self.files[name] for name in now})
        return now

    def release(self) -> None:
        """Let go of what is held."""
        self.files = {name: self.files[name] for name in self.listing()}

    def exits(self, code: int, now: float) -> None:
        """End the process by itself; it is started again where its container asks for that."""
        wanted = self.container
        again = wanted is not None and wanted.restart == "on-failure" and self.observed.restarts < wanted.max_restarts
        if not (code and again):
            self.ends(code, now)
            return
        life = Life(code, now - (self.observed.started_at or 0.0), last_words(self.log[self.begin :]))
        if self.before is not None and is_hopeless(self.before, life):
            self.ends(code, now)
            self.observed = replace(self.observed, gave_up=True)
            return
        self.before, self.begin = life, len(self.log)
        restarts = self.observed.restarts + 1
        self.observed = replace(self.observed, restarts=restarts, last_exit=code, last_words=life.words, started_at=now)

    def ends(self, code: int, now: float, *, stopped: bool = False) -> None:
        """End the process for good."""
        self.observed = replace(
            self.observed, state=State.EXITED, id="", exit_code=code, stopped=stopped, finished_at=now
        )

    def models(self) -> Mapping[str, OutsideFile]:
        """See Outside."""
        return {
            name: OutsideFile(len(self.written[name][0]), self.written[name][1], lasting=name.startswith("/"))
            for name in model_files(self.written)
        }

    def tree(self, path: str) -> Tree:
        """See Outside."""
        top = normpath(path)
        below = sorted(name for name in self.written if lies_in(name, top))
        if not below:
            raise HostError(self.observed.host, f"no such file or directory: {path}")
        files = ((name, *self.written[name]) for name in below)
        cut = 0 if top == "." else len(top) + 1
        return Tree(top, ((name[cut:], File(len(data), at), io.BytesIO(data)) for name, data, at in files))

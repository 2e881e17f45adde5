"""What the engine asks of a host, whatever runs the tasks there."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Protocol, runtime_checkable

from tfprov.errors import HostError
from tfprov.hosts.data_download import FetchProgress
from tfprov.model.cluster import Task
from tfprov.model.state import Container, DataSet, HostState

OnProgress = Callable[[int, int], None]
"""Is told how many bytes have come to a host, and of how many."""


def ignore_progress(_sent: int, _total: int) -> None:
    """Tell nobody how far it is."""


NO_FILES: Mapping[str, Path] = MappingProxyType({})
"""No files to restore."""


@dataclass(frozen=True)
class File:
    """A file in a task's checkpoint directory; `size` in bytes, `modified` in seconds by the host's clock."""

    size: int
    modified: float


@dataclass(frozen=True)
class OutsideFile(File):
    """A file that a task wrote elsewhere; `lasting` says that it stays on the host when the task is removed."""

    lasting: bool


@dataclass(frozen=True)
class Tree:
    """A file or directory of a task, by its normal `path`, as `Outside.models` writes paths.

    `files` yields each regular file below it with its path relative to it, empty for a file itself, and its content, to
    be read before the next one.
    """

    path: str
    files: Iterator[tuple[str, File, BinaryIO]]


@runtime_checkable
class SparseReader(Protocol):
    """A file that knows its holes, which read as zeros and take no room."""

    def hole(self) -> int:
        """Return for how many bytes from here on there is a hole; 0 where there is data, and at the end. Moves nothing."""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Go to another place in the file."""


class OutsideFiles(Protocol):
    """What a task has outside of its checkpoint directory. Every method raises HostError, or Unreachable."""

    def models(self, task: str) -> Mapping[str, OutsideFile]:
        """Return the files that look like parts of a model, and that the task has written since it was made.

        They are named by their path: relative to the working directory, or absolute.
        """

    def tree(self, task: str, path: str) -> Tree:
        """Open a file or directory of the task; a relative `path` counts from its working directory. Links are left out.

        Raises when it is not there. Reading its files, too, raises HostError when the host is lost meanwhile.
        """


class Runtime(Protocol):
    """Runs the tasks of one cluster on one host. Every method raises HostError, or Unreachable, and nothing else."""

    @property
    def host(self) -> str:
        """The host's name in the inventory."""

    @property
    def outside(self) -> OutsideFiles:
        """What tasks have written outside of their checkpoint directories."""

    def observe(self) -> HostState:
        """Return what is there now."""

    def deliver(self, digest: str, archive: bytes) -> None:
        """Bring packed code to the host; a second time changes nothing."""

    def fetch(self, data: DataSet, images: Sequence[str], progress: FetchProgress) -> None:
        """Have the host fetch `data`, unless it has it; what an earlier try has left is gone on with.

        `images` are those of the tasks that read it, where tasks are containers: one of them is there. What is only half
        there is never seen as delivered, whatever ends this and whenever.
        """

    def tidy(self, keep: Collection[str]) -> int:
        """Remove the fetched data that is not among `keep` and that no task there reads; return how many sets."""

    def conflicts(self, starting: Sequence[Container], held: Collection[str]) -> list[HostError]:
        """Return an error for each thing of others that `starting` would run into; nothing is changed.

        `held` are the endpoints at which tasks of the cluster run now.
        """

    def start(
        self,
        container: Container,
        run: str,
        restore: Mapping[str, Path] = NO_FILES,
        on_progress: OnProgress = ignore_progress,
    ) -> None:
        """Start `container` in place of any earlier one of its task; its checkpoint directory stays. `run` labels it.

        `restore` are local files, by the name that each gets in the checkpoint directory before the task starts. The last
        of them is taken to name the others: where it is whole, they are. `on_progress` is told how far they have come.

        Raises when the task is running: at most one container per task, ever; and when its data is not there.
        """

    def stop(self, task: str, grace: float) -> None:
        """Send SIGTERM, wait up to `grace` seconds, then SIGKILL; returns when nothing of the task runs any more."""

    def end_restarts(self, task: str) -> None:
        """Have a running task run on, and not be started again should it fail; one that is not there changes nothing."""

    def signal(self, task: str, name: str) -> bool:
        """Send a signal, such as `SIGUSR1`, to those processes of a running task that handle it; return whether any does.

        To no other: what does not handle a signal is ended by it. Raises when the task does not run.
        """

    def remove(self, task: str) -> None:
        """Remove all traces of a task that does not run, its checkpoint directory included."""

    def clean(self, keep: Collection[str] = ()) -> None:
        """Remove what was delivered to the host, where no task of the cluster is left on it, but the data in `keep`."""

    def checkpoint_dir(self, task: str) -> str:
        """Return the path of the task's checkpoint directory, as the task sees it."""

    def files(self, task: str) -> Mapping[str, File]:
        """Return the regular files in the task's checkpoint directory, by their path relative to it; links are left out."""

    def hold(self, task: str) -> Mapping[str, File]:
        """Keep what of checkpoints there is from being removed by the task; return the files, by name.

        `open` has them below `held.FOLDER`, and `files` does not list them. Nothing where nothing can be held.
        """

    def release(self, task: str) -> None:
        """Let go of what `hold` holds, or what an earlier one has left that `files` came across."""

    def open(self, task: str, name: str) -> BinaryIO:
        """Open one of `files` for reading. Reading, too, raises HostError when the host is lost meanwhile."""

    def open_each(self, task: str, names: Collection[str], files: Mapping[str, File]) -> Iterator[tuple[str, BinaryIO]]:
        """Open many of `files`, which was listed before, in any order; each is to be read before the next one.

        One that cannot be had this way is left out: `open` returns it, or says why not.
        """

    def tail(self, task: str, name: str, size: int) -> bytes:
        """Return the last `size` bytes of one of `files`, or all of a shorter one, as it is now."""

    def logs(self, task: str, *, tail: int | None = None, follow: bool = False) -> Iterator[str]:
        """Yield the lines of the task's log, from `tail` lines before its end; with `follow`, until the task ends."""

    def serves(self, task: Task) -> bool:
        """Whether something answers on the task's port."""

    def command(self, argv: Sequence[str]) -> tuple[int, str]:
        """Run `argv` on the host itself; return its exit code and all it printed."""

    def execute(self, task: str, argv: Sequence[str]) -> int:
        """Run `argv` beside the task, with its environment and this terminal; return the exit code."""

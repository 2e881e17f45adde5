"""The Runtime protocol: what tfprov does on a host, for every way of running tasks there."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Protocol, runtime_checkable

from tfprov.errors import HostError
from tfprov.hosts import bounds
from tfprov.hosts.data_download import FetchProgress
from tfprov.hosts.log_lines import LogTimes
from tfprov.hosts.terminal import NO_INPUT, ExecMode
from tfprov.hosts.usage import Usage
from tfprov.model.cluster import Task
from tfprov.model.state import Container, DataSet, HostState

OnProgress = Callable[[int, int], None]
"""Called with the bytes sent to a host and the total."""


def ignore_progress(_sent: int, _total: int) -> None:
    """Report nothing."""


NO_FILES: Mapping[str, Path] = MappingProxyType({})
"""No files to restore."""


@dataclass(frozen=True)
class File:
    """A file in a task's checkpoint directory: `size` in bytes, `modified` in seconds of the host's clock."""

    size: int
    modified: float


@dataclass(frozen=True)
class Prefix:
    """The first `size` bytes of a file, by their SHA-256 in hexadecimal."""

    size: int
    sha256: str


@dataclass(frozen=True)
class OutsideFile(File):
    """A file that a task wrote elsewhere. `lasting`: it stays on the host when the task is removed."""

    lasting: bool


Pick = Callable[[Iterable[str]], Iterable[str]]
"""Returns those of the paths that are of interest."""


@dataclass(frozen=True)
class Tree:
    """A file or directory of a task. `path` is normalized, like the paths of `OutsideFiles.written`.

    `files` yields each regular file below it: relative path ("" for a file itself), metadata, and content, which must be
    read before the next file.
    """

    path: str
    files: Iterator[tuple[str, File, BinaryIO]]


@runtime_checkable
class SparseReader(Protocol):
    """A file that reports its holes, which read as zeros and occupy no disk space."""

    def hole(self) -> int:
        """Return the size of the hole at the current position; 0 at data and at the end. Does not move."""

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Change the position."""


class OutsideFiles(Protocol):
    """Access to a task's files outside of its checkpoint directory. Methods raise HostError."""

    def written(self, task: str, pick: Pick) -> Mapping[str, OutsideFile]:
        """Return the files that were written by the task since its creation, and whose paths `pick` returns.

        Keys are paths: relative to the working directory, or absolute.
        """

    def tree(self, task: str, path: str) -> Tree:
        """Open a file or directory of the task; `path` may be relative to its working directory. Links are left out.

        Raises HostError if it does not exist. Reading the files raises HostError if the host is lost.
        """


class Changes(Protocol):
    """Whether the containers of a cluster on a host have changed, without asking it."""

    @property
    def is_open(self) -> bool:
        """Whether changes are still reported: not after the connection was lost."""

    def happened(self) -> bool:
        """Return whether something may have changed since the last call; True if it is not open. Never blocks."""

    def close(self) -> None:
        """End it. Idempotent."""


class Runtime(Protocol):
    """Runs the tasks of one cluster on one host. Methods raise only HostError and its subclasses."""

    @property
    def host(self) -> str:
        """The host's name in the inventory."""

    @property
    def outside(self) -> OutsideFiles:
        """The tasks' files outside of their checkpoint directories."""

    def observe(self) -> HostState:
        """Return the current state of the host."""

    def deliver(self, digest: str, archive: bytes) -> None:
        """Bring packed code to the host. Idempotent."""

    def fetch(self, data: DataSet, images: Sequence[str], progress: FetchProgress) -> None:
        """Have the host fetch `data` unless it is complete, continuing an interrupted fetch.

        `images` are the images of the tasks that read it, if tasks are containers; the host has one of them. Incomplete
        data never counts as delivered.
        """

    def remove_unused_data(self, keep: Collection[str]) -> int:
        """Remove fetched data that is neither in `keep` nor read by a task; return the number of data sets."""

    def conflicts(self, starting: Sequence[Container], held: Collection[str]) -> list[HostError]:
        """Return an error for each conflict of `starting` with something foreign on the host, changing nothing.

        `held` are the endpoints of the cluster's running tasks.
        """

    def start(
        self,
        container: Container,
        run: str,
        restore: Mapping[str, Path] = NO_FILES,
        on_progress: OnProgress = ignore_progress,
    ) -> None:
        """Start `container`, replacing any earlier one of its task; its checkpoint directory stays. `run` labels it.

        `restore` maps names in the checkpoint directory to local files, which are copied there before the start. The last
        one names the others: if it is complete, so are they. `on_progress` reports the copying.

        Raises HostError if the task is running, as there is at most one container per task, or if its data is missing.
        """

    def stop(self, task: str, grace: float) -> None:
        """Send SIGTERM, after `grace` seconds SIGKILL; returns when no process of the task runs."""

    def end_restarts(self, task: str) -> None:
        """Let a running task continue without further restarts. Does nothing if the task does not exist."""

    def signal(self, task: str, name: str) -> bool:
        """Send a signal, such as `SIGUSR1`, to the processes of a running task that handle it; return whether any does.

        Other processes would be ended by it. Raises HostError if the task does not run.
        """

    def remove(self, task: str) -> None:
        """Remove a task that does not run, with its checkpoint directory."""

    def clean(self, keep: Collection[str] = (), *, discard: bool = False) -> None:
        """Remove deliveries, except the data in `keep`, if no task of the cluster is left on the host.

        Raises HostError for files of a task that somebody else removed, unless `discard`.
        """

    def orphaned_volume(self, task: str) -> str:
        """Return the name of the volume that has the checkpoint directory of a task which is not there any more.

        Somebody else removed its container; the task's next start goes on with these files. Empty if there are none.
        """

    def checkpoint_dir(self, task: str) -> str:
        """Return the path of the task's checkpoint directory, as the task sees it."""

    def files(self, task: str) -> Mapping[str, File]:
        """Return the regular files in the task's checkpoint directory, by relative path; links are left out."""

    def read_and_list(self, task: str, name: str) -> tuple[bytes | None, Mapping[str, File]]:
        """Return the content of a small file there, None if it cannot be read, and what `files` lists after that."""

    def hold(self, task: str) -> Mapping[str, File]:
        """Keep the existing checkpoint files from being removed by the task; return them by name.

        `open` reads them below `held_checkpoints.FOLDER`; `files` does not list them. Empty if holding is impossible.
        """

    def release(self, task: str) -> None:
        """Release the files of `hold`, also those of an interrupted run that `files` has noticed."""

    def open(self, task: str, name: str) -> BinaryIO:
        """Open one of `files` for reading. Reads raise HostError if the host is lost."""

    def open_rest(self, task: str, name: str, before: Prefix) -> BinaryIO | None:
        """Open one of `files` behind `before`; None if the file does not begin so, or the host cannot tell."""

    def open_each(self, task: str, names: Collection[str], files: Mapping[str, File]) -> Iterator[tuple[str, BinaryIO]]:
        """Open several of `files`, in any order; each must be read before the next. `files` is an earlier listing.

        Files that cannot be opened this way are left out: use `open` for them.
        """

    def tail(self, task: str, name: str, size: int) -> bytes:
        """Return the last `size` bytes of one of `files` as it is now, or all of a shorter one."""

    def logs(
        self, task: str, *, tail: int | None = None, follow: bool = False, times: LogTimes | None = None
    ) -> Iterator[str]:
        """Yield the lines of the task's log, from `tail` lines before its end; with `follow`, until the task ends.

        With `times`, each is a `Line` that has its time, and only those in that range are yielded; `tail` counts these.
        With `follow`, a `Line` may be unfinished: the same line is yielded again, changed or with its end.
        """

    def usage(self) -> Mapping[str, Usage]:
        """Return what each running task uses, by its name; processor time is known from the second call on."""

    def is_serving(self, task: Task) -> bool:
        """Whether a program listens on the task's port."""

    def command(self, argv: Sequence[str]) -> tuple[int, str]:
        """Run `argv` on the host itself; return its exit code and output."""

    def execute(self, task: str, argv: Sequence[str], mode: ExecMode = NO_INPUT) -> int:
        """Run `argv` next to the task, with its environment; return the exit code.

        Its output goes to this process's; `mode` says whether it has its standard input and its terminal.
        """

    def put(self, task: str, path: str, source: Path) -> str:
        """Copy the local file or directory `source` to `path` of a task, whole or not at all; return where it is.

        A relative `path` begins at the working directory. A directory at `path` gets it with its own name; a file there is
        replaced, and a directory is not. Links are left out. Raises HostError.
        """


class _Readable(Protocol):
    def open(self, task: str, name: str) -> BinaryIO: ...

    def files(self, task: str) -> Mapping[str, File]: ...


def read_then_list(runtime: _Readable, task: str, name: str) -> tuple[bytes | None, Mapping[str, File]]:
    """Return what `read_and_list` does, by `open` and `files`."""
    content = None
    with suppress(HostError), runtime.open(task, name) as file:
        content = file.read(bounds.STATE_FILE)
    return content, runtime.files(task)


class ConnectedSocket(Protocol):
    """A connected socket, or a channel of an SSH connection."""

    def settimeout(self, seconds: float) -> None:
        """Limit how long a read may take."""

    def recv(self, size: int, /) -> bytes:
        """Receive; b"" at the end."""


_PROXY_CLOSE_SECONDS = 0.5
"""Seconds within which Docker's proxy closes a connection to a container without a listener."""


def peer_is_listening(connection: ConnectedSocket) -> bool:
    """Whether a program listens behind `connection`: it sends something, like a gRPC server, or waits for a request.

    Docker's proxy accepts every connection to a published port, and closes it if nothing listens behind it.
    """
    connection.settimeout(_PROXY_CLOSE_SECONDS)
    try:
        return bool(connection.recv(1))
    except TimeoutError:
        return True
    except OSError:
        return False

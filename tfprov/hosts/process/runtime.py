"""The `process` runtime: supervised processes of this machine, with one directory per task."""

import contextlib
import io
import os
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tarfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from tfprov.atomic_write import copy_files, private_directory
from tfprov.errors import HostError, printable
from tfprov.hosts import held_checkpoints
from tfprov.hosts.base import NO_FILES, File, OnProgress, Prefix, ignore_progress, read_then_list
from tfprov.hosts.data_download import FetchProgress, missing_data_error
from tfprov.hosts.log_lines import LogTimes
from tfprov.hosts.process import exec as process_exec
from tfprov.hosts.process import task_dir as process_task_dir
from tfprov.hosts.process import task_log
from tfprov.hosts.process.copy_in import put_beside
from tfprov.hosts.process.data_dirs import DataDirs
from tfprov.hosts.process.files import ProcessOutsideFiles, SparseFile
from tfprov.hosts.process.proc import is_alive, port_owner, signal_handlers
from tfprov.hosts.process.spec import SAFE_PATH, task_order
from tfprov.hosts.process.stop import stop_task
from tfprov.hosts.process.task_dir import TaskDir, complete_entries, observe_task, os_errors
from tfprov.hosts.process.usage import ProcessUsage
from tfprov.hosts.terminal import NO_INPUT, ExecMode
from tfprov.hosts.trace import traced
from tfprov.hosts.usage import Usage
from tfprov.model.cluster import Task
from tfprov.model.state import Container, DataSet, HostState, Observed, State, dataset_artifact

_EXTRACT_FILTER: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
"""Python 3.11.2, of Debian 12, has no filters. tfprov packs the code itself, without links that lead out."""


class ProcessRuntime:
    """Runs tasks on this machine, the inventory's `host`. All files are below `root`."""

    def __init__(self, host: str, root: Path) -> None:
        self.host = host
        self.root = root
        self.data = DataDirs(host, root / "data")
        self._usage = ProcessUsage()
        self.outside = ProcessOutsideFiles(host, self.task_dir)

    def task_dir(self, task: str) -> TaskDir:
        """Return the directory of `task`."""
        return TaskDir(self.root / "tasks" / task.replace("/", "-"))

    def orphaned_volume(self, task: str) -> str:
        """See Runtime. The directory of a process has both its state and its files."""
        return ""

    def checkpoint_dir(self, task: str) -> str:
        """See Runtime."""
        return str(self.task_dir(task).checkpoints)

    @os_errors
    def observe(self) -> HostState:
        """See Runtime."""
        observed = [self._observe(TaskDir(path)) for path in complete_entries(self.root / "tasks")]
        present = tuple(
            container for container in observed if self.task_dir(container.task).path.is_dir()
        )  # not removed meanwhile
        code = frozenset(f"sha256:{path.name}" for path in complete_entries(self.root / "code"))
        return HostState(self.host, present, code | self.data.complete())

    def _observe(self, directory: TaskDir) -> Observed:
        return observe_task(directory, self.host)

    @os_errors
    def deliver(self, digest: str, archive: bytes) -> None:
        """See Runtime."""
        final = self.root / "code" / digest.removeprefix("sha256:")
        if final.is_dir():
            return
        temporary = final.with_name(f".{final.name}")
        shutil.rmtree(temporary, ignore_errors=True)
        private_directory(temporary)
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(temporary, **_EXTRACT_FILTER)  # noqa: S202  see there
        temporary.rename(final)

    @os_errors
    def fetch(self, data: DataSet, images: Sequence[str], progress: FetchProgress) -> None:
        """See Runtime."""
        self.data.fetch(data, progress)

    @os_errors
    def remove_unused_data(self, keep: Collection[str]) -> int:
        """See Runtime."""
        used = (dataset_artifact(self._observe(TaskDir(path)).spec) for path in complete_entries(self.root / "tasks"))
        return self.data.remove_unused_data(keep, [data for data in used if data])

    @os_errors
    def conflicts(self, starting: Sequence[Container], held: Collection[str]) -> list[HostError]:
        """See Runtime."""
        tasks = [
            container.task for container in starting if container.task.serves and container.task.endpoint not in held
        ]
        fix = "stop it, or choose another `port`"
        return [
            HostError(self.host, f"port {task.port} for {task.name} is taken by {owner}", fix)
            for task in tasks
            if (owner := port_owner(task.address, task.port))
        ]

    @os_errors
    def start(
        self,
        container: Container,
        run: str,
        restore: Mapping[str, Path] = NO_FILES,
        on_progress: OnProgress = ignore_progress,
    ) -> None:
        """See Runtime."""
        task, directory = container.task, self.task_dir(container.task.name)
        previous = self._observe(directory)
        if previous.state is State.RUNNING:
            raise HostError(self.host, f"{task.name} is already running (pid {previous.id})", "stop it first")
        for error in self.conflicts([container], ()):
            raise error
        if container.data and container.data not in self.data.complete():
            raise missing_data_error(self.host, task.name)
        artifact = container.artifact
        process_task_dir.prepare(
            directory, container, self.root / "code" / artifact.removeprefix("sha256:") if artifact else None
        )
        copy_files(restore, directory.checkpoints, on_progress)
        (directory.path / "state.json").unlink(missing_ok=True)
        directory.no_restart.unlink(missing_ok=True)
        directory.write("order.json", task_order(container, run, directory.runtime))
        self._supervise(directory, task.name)

    def _supervise(self, directory: TaskDir, task: str) -> None:
        command = [sys.executable, "-m", "tfprov.hosts.process.supervisor", str(directory.path)]
        with traced(self.host, f"start {task}"):
            completed = subprocess.run(
                command, env={**os.environ, **SAFE_PATH}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                start_new_session=True, check=False,
            )  # fmt: skip
        if completed.returncode:
            reason = (completed.stderr.strip().splitlines() or ["no reason reported"])[-1]
            raise HostError(self.host, f"{task} could not be started: {reason}")

    @os_errors
    def stop(self, task: str, grace: float) -> None:
        """See Runtime."""
        with traced(self.host, f"stop {task}"):
            stop_task(self.host, self.task_dir(task), task, grace)

    @os_errors
    def end_restarts(self, task: str) -> None:
        """See Runtime."""
        directory = self.task_dir(task)
        if directory.path.is_dir():
            directory.no_restart.touch(mode=0o600)

    @os_errors
    def signal(self, task: str, name: str) -> bool:
        """See Runtime."""
        number = signal.Signals[name]
        state_file = self.task_dir(task).read("state.json") or {}
        if not is_alive(state_file.get("pid"), state_file.get("identity")):
            raise HostError(self.host, f"{task} does not run")
        return signal_handlers(state_file["pid"], number)

    @os_errors
    def remove(self, task: str) -> None:
        """See Runtime."""
        directory = self.task_dir(task).path
        if self._observe(self.task_dir(task)).state is State.RUNNING:
            raise HostError(self.host, f"{task} is running", "stop it first")
        if directory.is_dir():
            temporary = directory.with_name(f".{directory.name}")  # so that an incompletely removed task is ignored
            shutil.rmtree(temporary, ignore_errors=True)
            directory.rename(temporary)
            shutil.rmtree(temporary)

    @os_errors
    def clean(self, keep: Collection[str] = (), *, discard: bool = False) -> None:
        """See Runtime."""
        self.remove_unused_data(keep)
        with contextlib.suppress(OSError):  # not empty: a remaining task may need the code
            (self.root / "tasks").rmdir()
        if not (self.root / "tasks").exists():
            shutil.rmtree(self.root / "code", ignore_errors=True)
            with contextlib.suppress(OSError):  # not empty: data for the next start
                self.root.rmdir()

    @os_errors
    def files(self, task: str) -> Mapping[str, File]:
        """See Runtime."""
        base = str(self.task_dir(task).checkpoints)
        files = {}
        for parent, _, names in os.walk(base, onerror=_unless_removed):
            for name in names:
                path = os.path.join(parent, name)  # noqa: PTH118  pathlib takes half of the time
                try:
                    status = os.lstat(path)
                except FileNotFoundError:  # the chief removes old checkpoints meanwhile
                    continue
                if stat.S_ISREG(status.st_mode):
                    files[path[len(base) + 1 :]] = File(status.st_size, status.st_mtime)
        return held_checkpoints.split_held(files)[0]

    read_and_list = read_then_list

    @os_errors
    def hold(self, task: str) -> Mapping[str, File]:
        """See Runtime."""
        return held_checkpoints.hold(self.task_dir(task).checkpoints)

    @os_errors
    def release(self, task: str) -> None:
        """See Runtime."""
        held_checkpoints.release(self.task_dir(task).checkpoints)

    @os_errors
    def open(self, task: str, name: str) -> BinaryIO:
        """See Runtime."""
        return cast(BinaryIO, SparseFile(self.task_dir(task).checkpoints / name))

    def open_rest(self, task: str, name: str, before: Prefix) -> BinaryIO | None:
        """See Runtime. On the same machine, copying a file anew takes no longer than comparing it."""
        return None

    def open_each(self, task: str, names: Collection[str], files: Mapping[str, File]) -> Iterator[tuple[str, BinaryIO]]:
        """See Runtime."""
        for name in names:
            with contextlib.suppress(HostError):
                yield name, self.open(task, name)

    @os_errors
    def tail(self, task: str, name: str, size: int) -> bytes:
        """See Runtime."""
        with self.open(task, name) as file:
            end = file.seek(0, os.SEEK_END)
            start = file.seek(max(0, end - size))
            return file.read(end - start)

    @os_errors
    def logs(
        self, task: str, *, tail: int | None = None, follow: bool = False, times: LogTimes | None = None
    ) -> Iterator[str]:
        """See Runtime. Times are at most a second late; logs of earlier versions have none."""
        directory = self.task_dir(task)
        return task_log.read(directory, lambda: self._observe(directory).state is State.RUNNING, tail, follow, times)

    @os_errors
    def usage(self) -> Mapping[str, Usage]:
        """See Runtime."""
        running = [one for one in self.observe().containers if one.state is State.RUNNING and one.id]
        return self._usage.read({one.task: int(one.id) for one in running})

    def is_serving(self, task: Task) -> bool:
        """See Runtime."""
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.settimeout(1.0)
            return probe.connect_ex((task.address, task.port)) == 0

    @os_errors
    def command(self, argv: Sequence[str]) -> tuple[int, str]:
        """See Runtime."""
        with traced(self.host, shlex.join(argv)):
            completed = subprocess.run(list(argv), stdin=subprocess.DEVNULL, capture_output=True, check=False)
        return completed.returncode, (completed.stdout + completed.stderr).decode("utf-8", errors="replace")

    @os_errors
    def execute(self, task: str, argv: Sequence[str], mode: ExecMode = NO_INPUT) -> int:
        """See Runtime."""
        directory = self.task_dir(task)
        order = directory.read("order.json")
        if order is None:
            raise HostError(self.host, f"{task} is not there", "start it with `tfprov up`")
        try:
            return process_exec.run(argv, order["env"], directory.work, mode)
        except FileNotFoundError:
            what = f"no such command: {printable(argv[0])}"
            raise HostError(self.host, what, "correct the command behind `--`") from None

    @os_errors
    def put(self, task: str, path: str, source: Path) -> str:
        """See Runtime. Only into the working directory: other files are on this machine already."""
        return put_beside(self.host, task, self.task_dir(task).work, path, source)


def _unless_removed(error: OSError) -> None:
    """Raise the error of a directory that cannot be listed, as what is not listed counts as not there."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error

"""The `process` runtime: tasks as supervised processes of this machine, with all they need in one directory each."""

import contextlib
import io
import os
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

from tfprov.atomic_write import copy_files, private_directory, replace
from tfprov.errors import HostError
from tfprov.hosts import held_checkpoints
from tfprov.hosts.base import NOTHING, File, Sent, untold
from tfprov.hosts.data_download import Telling, lacking
from tfprov.hosts.log_file import follow as followed
from tfprov.hosts.log_file import last_lines
from tfprov.hosts.process import task_dir as process_task_dir
from tfprov.hosts.process.data_dirs import DataDirs
from tfprov.hosts.process.files import ProcessOutside, SparseFile
from tfprov.hosts.process.proc import has_group, is_alive, port_owner, signal_group, signal_handlers, until
from tfprov.hosts.process.spec import RUN, order
from tfprov.hosts.process.task_dir import TaskDir, complete, mapped, observed
from tfprov.model.cluster import Task
from tfprov.model.state import Container, DataSet, HostState, Observed, State, dataset_artifact

_FILTER: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
"""Python 3.11.2, which Debian 12 has, knows no filters yet. Code is packed by us, without links that lead out."""

_SETTLE = 10.0
"""Seconds beyond its grace that a supervisor gets to record an end before it is called stuck."""


class ProcessRuntime:
    """Tasks of `cluster` on this machine, which the inventory calls `host`; everything lies under `root`."""

    def __init__(self, host: str, root: Path) -> None:
        self.host = host
        self.root = root
        self.data = DataDirs(host, root / "data")
        self.outside = ProcessOutside(host, self.task_dir)

    def task_dir(self, task: str) -> TaskDir:
        """Return the directory of the task called `task`."""
        return TaskDir(self.root / "tasks" / task.replace("/", "-"))

    def checkpoint_dir(self, task: str) -> str:
        """See Runtime."""
        return str(self.task_dir(task).checkpoints)

    @mapped
    def observe(self) -> HostState:
        """See Runtime."""
        found = [self._observed(TaskDir(path)) for path in complete(self.root / "tasks")]
        there = tuple(one for one in found if self.task_dir(one.task).path.is_dir())  # not removed meanwhile
        code = frozenset(f"sha256:{path.name}" for path in complete(self.root / "code"))
        return HostState(self.host, there, code | self.data.whole())

    def _observed(self, directory: TaskDir) -> Observed:
        return observed(directory, self.host)

    @mapped
    def deliver(self, digest: str, archive: bytes) -> None:
        """See Runtime."""
        final = self.root / "code" / digest.removeprefix("sha256:")
        if final.is_dir():
            return
        beside = final.with_name(f".{final.name}")
        shutil.rmtree(beside, ignore_errors=True)
        private_directory(beside)
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(beside, **_FILTER)  # noqa: S202  see there
        beside.rename(final)

    @mapped
    def fetch(self, data: DataSet, images: Sequence[str], telling: Telling) -> None:
        """See Runtime."""
        self.data.fetch(data, telling)

    @mapped
    def tidy(self, keep: Collection[str]) -> int:
        """See Runtime."""
        found = (dataset_artifact(self._observed(TaskDir(path)).spec) for path in complete(self.root / "tasks"))
        return self.data.tidy(keep, [data for data in found if data])

    @mapped
    def in_the_way(self, starting: Sequence[Container], held: Collection[str]) -> list[HostError]:
        """See Runtime."""
        tasks = [one.task for one in starting if one.task.serves and one.task.endpoint not in held]
        fix = "stop it, or choose another `port`"
        return [
            HostError(self.host, f"port {task.port} for {task.name} is taken by {owner}", fix)
            for task in tasks
            if (owner := port_owner(task.address, task.port))
        ]

    @mapped
    def start(self, container: Container, run: str, restore: Mapping[str, Path] = NOTHING, sent: Sent = untold) -> None:
        """See Runtime."""
        task, directory = container.task, self.task_dir(container.task.name)
        before = self._observed(directory)
        if before.state is State.RUNNING:
            raise HostError(self.host, f"{task.name} is already running (pid {before.id})", "stop it first")
        for error in self.in_the_way([container], ()):
            raise error
        if container.data and container.data not in self.data.whole():
            raise lacking(self.host, task.name)
        artifact = container.artifact
        process_task_dir.make(
            directory, container, self.root / "code" / artifact.removeprefix("sha256:") if artifact else None
        )
        copy_files(restore, directory.checkpoints, sent)
        (directory.path / "state.json").unlink(missing_ok=True)
        directory.no_restart.unlink(missing_ok=True)
        directory.write("order.json", order(container, run, directory.runtime))
        self._supervise(directory, task.name)

    def _supervise(self, directory: TaskDir, task: str) -> None:
        command = [sys.executable, "-m", "tfprov.hosts.process.supervisor", str(directory.path)]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, start_new_session=True, check=False
        )
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise HostError(self.host, f"{task} could not be started: {reason}")

    @mapped
    def stop(self, task: str, grace: float) -> None:
        """See Runtime."""
        directory = self.task_dir(task)
        facts = directory.read("state.json") or {}
        if directory.is_supervised():
            replace(directory.path / "grace", str(grace).encode(), mode=0o600)
            if is_alive(facts.get("supervisor"), facts.get("supervisor_identity")):
                with contextlib.suppress(ProcessLookupError):  # its task has just ended by itself
                    os.kill(facts["supervisor"], signal.SIGTERM)
            until(lambda: not directory.is_supervised(), grace + _SETTLE)
            if directory.is_supervised():
                raise HostError(self.host, f"{task} did not stop (supervisor {facts.get('supervisor')})")
        elif isinstance(facts.get("pid"), int):
            self._stop_unsupervised(directory, facts, grace)

    def _stop_unsupervised(self, directory: TaskDir, facts: dict[str, Any], grace: float) -> None:
        """Stop what runs of a task whose supervisor was killed: nobody will learn its exit code any more."""
        pid, known = facts["pid"], facts.get("identity")
        mark = f"{RUN}={(directory.read('order.json') or {}).get('run')}"

        def runs() -> bool:
            return is_alive(pid, known) or has_group(pid, mark)

        if not runs():
            return
        signal_group(pid, signal.SIGTERM)
        until(lambda: not runs(), grace)
        if runs():
            signal_group(pid, signal.SIGKILL)
            until(lambda: not runs(), _SETTLE)
        directory.write("state.json", facts | {"state": "exited", "exit_code": None, "stopped": True})

    @mapped
    def end_restarts(self, task: str) -> None:
        """See Runtime."""
        directory = self.task_dir(task)
        if directory.path.is_dir():
            directory.no_restart.touch(mode=0o600)

    @mapped
    def signal(self, task: str, name: str) -> bool:
        """See Runtime."""
        number = signal.Signals[name]
        facts = self.task_dir(task).read("state.json") or {}
        if not is_alive(facts.get("pid"), facts.get("identity")):
            raise HostError(self.host, f"{task} does not run")
        return signal_handlers(facts["pid"], number)

    @mapped
    def remove(self, task: str) -> None:
        """See Runtime."""
        directory = self.task_dir(task).path
        if self._observed(self.task_dir(task)).state is State.RUNNING:
            raise HostError(self.host, f"{task} is running", "stop it first")
        if directory.is_dir():
            beside = directory.with_name(f".{directory.name}")  # so that a half-removed task is never taken for one
            shutil.rmtree(beside, ignore_errors=True)
            directory.rename(beside)
            shutil.rmtree(beside)

    @mapped
    def clean(self, keep: Collection[str] = ()) -> None:
        """See Runtime."""
        self.tidy(keep)
        with contextlib.suppress(OSError):  # not empty: a task is left, and may need the code
            (self.root / "tasks").rmdir()
        if not (self.root / "tasks").exists():
            shutil.rmtree(self.root / "code", ignore_errors=True)
            with contextlib.suppress(OSError):  # not empty: data that the next start wants
                self.root.rmdir()

    @mapped
    def files(self, task: str) -> Mapping[str, File]:
        """See Runtime."""
        base = str(self.task_dir(task).checkpoints)
        found = {}
        for parent, _, names in os.walk(base):
            for name in names:
                path = os.path.join(parent, name)  # noqa: PTH118  while a training is followed, paths cost half of this
                try:
                    status = os.lstat(path)
                except FileNotFoundError:  # the chief removes old checkpoints while we look
                    continue
                if stat.S_ISREG(status.st_mode):
                    found[path[len(base) + 1 :]] = File(status.st_size, status.st_mtime)
        return held_checkpoints.apart(found)[0]

    @mapped
    def hold(self, task: str) -> Mapping[str, File]:
        """See Runtime."""
        return held_checkpoints.hold(self.task_dir(task).checkpoints)

    @mapped
    def release(self, task: str) -> None:
        """See Runtime."""
        held_checkpoints.release(self.task_dir(task).checkpoints)

    @mapped
    def open(self, task: str, name: str) -> BinaryIO:
        """See Runtime."""
        return cast(BinaryIO, SparseFile(self.task_dir(task).checkpoints / name))

    def open_each(self, task: str, names: Collection[str], files: Mapping[str, File]) -> Iterator[tuple[str, BinaryIO]]:
        """See Runtime."""
        for name in names:
            with contextlib.suppress(HostError):
                yield name, self.open(task, name)

    @mapped
    def tail(self, task: str, name: str, size: int) -> bytes:
        """See Runtime."""
        with self.open(task, name) as file:
            end = file.seek(0, os.SEEK_END)
            start = file.seek(max(0, end - size))
            return file.read(end - start)

    @mapped
    def logs(self, task: str, *, tail: int | None = None, follow: bool = False) -> Iterator[str]:
        """See Runtime."""
        directory = self.task_dir(task)
        if not follow:
            return iter(last_lines([directory.older_log, directory.log], tail))
        return followed(directory.log, tail, lambda: self._observed(directory).state is State.RUNNING)

    def serves(self, task: Task) -> bool:
        """See Runtime."""
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.settimeout(1.0)
            return probe.connect_ex((task.address, task.port)) == 0

    @mapped
    def command(self, argv: Sequence[str]) -> tuple[int, str]:
        """See Runtime."""
        done = subprocess.run(list(argv), stdin=subprocess.DEVNULL, capture_output=True, check=False)
        return done.returncode, (done.stdout + done.stderr).decode("utf-8", errors="replace")

    @mapped
    def execute(self, task: str, argv: Sequence[str]) -> int:
        """See Runtime."""
        directory = self.task_dir(task)
        running = directory.read("order.json")
        if running is None:
            raise HostError(self.host, f"{task} is not there", "start it with `tfprov up`")
        try:
            return subprocess.run(list(argv), env=running["env"], cwd=directory.work, check=False).returncode
        except FileNotFoundError:
            raise HostError(self.host, f"no such command: {argv[0]}") from None

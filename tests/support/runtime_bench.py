"""Benches for the Runtime contract: the memory runtime and real processes, scripted by the same methods."""

import os
import sys
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.marked_processes import kill_marked_processes, marked_processes
from tests.support.ports import free_port
from tests.support.waiting import until
from tfprov.errors import Position
from tfprov.hosts.base import NO_FILES, OnProgress, Runtime, ignore_progress
from tfprov.hosts.memory import MemoryRuntime
from tfprov.hosts.process.runtime import ProcessRuntime
from tfprov.images.code import Code, pack
from tfprov.model.cluster import Task
from tfprov.model.state import Container, Observed, State

MARK = "TESTED_BY"
"""Environment variable of every process a test starts, by which the test finds it."""


def container(
    name: str = "worker/0", argv: Sequence[str] = ("sleep", "3600"), *, port: int | None = None, **changes: Any
) -> Container:
    """Return a container of the task `name`; by default a worker on a port of its own that does nothing for an hour."""
    job, _, index = name.partition("/")
    task = Task(job, int(index), job, "h", "127.0.0.1", port or free_port())
    spec = {"code": None, "command": list(argv), "endpoint": task.endpoint, **changes.pop("spec", {})}
    return replace(Container(task, spec, tuple(argv), {}, ""), **changes)


def code(directory: Path, **files: str) -> Code:
    """Return packed code with these files, by their stem, written to the new `directory`."""
    directory.mkdir()
    for name, text in files.items():
        (directory / f"{name}.py").write_text(text)
    return pack(directory, Position("test"))


class Bench(ABC):
    """A Runtime under test, with control over its tasks."""

    runtime: Runtime

    def see(self, task: str = "worker/0") -> Observed:
        return next(seen for seen in self.runtime.observe().containers if seen.task == task)

    def becomes(self, state: State, task: str = "worker/0") -> Observed:
        until(lambda: self.see(task).state is state)
        return self.see(task)

    def start(
        self,
        wanted: Container,
        run: str = "run-1",
        restore: Mapping[str, Path] = NO_FILES,
        on_progress: OnProgress = ignore_progress,
    ) -> Container:
        self.runtime.start(wanted, run, restore, on_progress)
        return wanted

    @abstractmethod
    def run_to_end(self, code: int, lines: Sequence[str] = (), **changes: Any) -> None:
        """Start worker/0, have it print `lines`, and end with `code`."""

    @abstractmethod
    def save(self, task: str, name: str, data: bytes) -> None:
        """Write a file to a task's checkpoint directory."""

    @abstractmethod
    def write(self, task: str, path: str, data: bytes) -> None:
        """Write a file to a task's working directory."""

    @abstractmethod
    def start_answering(self) -> Container:
        """Start a task that serves at its port."""

    @abstractmethod
    def answers(self, argv: Sequence[str], code: int, output: str) -> None:
        """Script a command on the host to print `output` and exit with `code`; real commands need no script."""

    def close(self) -> None:  # noqa: B027  in memory, nothing runs
        """End the tasks that still run."""


class MemoryBench(Bench):
    def __init__(self) -> None:
        self.memory = MemoryRuntime("h")
        self.runtime = self.memory

    def run_to_end(self, code: int, lines: Sequence[str] = (), **changes: Any) -> None:
        self.start(container(**changes))
        self.memory.prints("worker/0", *lines)
        self.memory.exits("worker/0", code)

    def save(self, task: str, name: str, data: bytes) -> None:
        self.memory.saves(task, name, data)

    def write(self, task: str, path: str, data: bytes) -> None:
        self.memory.writes(task, path, data)

    def start_unstartable(self) -> None:
        self.memory.unstartable["worker/0"] = "there is no program `no-such-program`; correct `command:`"
        self.start(container(argv=["no-such-program"]))

    def start_answering(self) -> Container:
        return self.start(container())

    def answers(self, argv: Sequence[str], code: int, output: str) -> None:
        self.memory.answer = lambda asked: (code, output) if list(asked) == list(argv) else (127, "")


class ProcessBench(Bench):
    def __init__(self, root: Path) -> None:
        self.root = root
        self.mark = uuid.uuid4().hex
        os.environ[MARK] = self.mark
        self.process = ProcessRuntime("h", root / "h")
        self.runtime = self.process

    def run_to_end(self, code: int, lines: Sequence[str] = (), **changes: Any) -> None:
        program = f"for line in {list(lines)!r}: print(line)\nraise SystemExit({code})"
        self.start(container(argv=[sys.executable, "-c", program], **changes))
        self.becomes(State.EXITED)

    def save(self, task: str, name: str, data: bytes) -> None:
        path = Path(self.process.checkpoint_dir(task)) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def write(self, task: str, path: str, data: bytes) -> None:
        to = self.process.task_dir(task).work / path
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(data)

    def start_unstartable(self) -> None:
        self.start(container(argv=["no-such-program"]))

    def start_answering(self) -> Container:
        port = free_port()
        program = f"import socket, time\ns = socket.create_server(('127.0.0.1', {port}))\ntime.sleep(60)"
        started = self.start(container(argv=[sys.executable, "-c", program], port=port))
        until(lambda: self.process.is_serving(started.task))
        return started

    def answers(self, argv: Sequence[str], code: int, output: str) -> None:
        """Do nothing: real commands need no script."""

    def facts(self, task: str = "worker/0") -> dict[str, Any]:
        return self.process.task_dir(task).read("state.json") or {}

    def pid(self, key: str = "pid", task: str = "worker/0") -> int:
        return int(self.facts(task)[key])

    def alive(self) -> list[int]:
        """Return the pids of all processes this test started, except the test itself."""
        return marked_processes(f"{MARK}={self.mark}")

    def close(self) -> None:
        for _ in range(3):  # a supervisor may be starting one while we look
            kill_marked_processes(f"{MARK}={self.mark}")
            time.sleep(0.01)
        os.environ.pop(MARK, None)

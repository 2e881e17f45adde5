"""A cluster on this machine: real commands and processes, in the directories of one test."""

import contextlib
import json
import os
import shutil
import textwrap
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.command_line import CommandLine
from tests.support.marked_processes import kill_marked_processes, marked_processes
from tests.support.paths import PROGRAMS
from tests.support.ports import free_ports
from tests.support.waiting import LONG, until
from tests.support.warm import AnyProcess

SLEEPER = "import sys, time; print('up', sys.argv[1:], flush=True); time.sleep(600)"


class LocalCluster(CommandLine):
    """A cluster on this machine; its state, cache and working directory lie below `directory`."""

    def __init__(self, directory: Path) -> None:
        home = {"XDG_STATE_HOME": str(directory / "state"), "XDG_CACHE_HOME": str(directory / "cache")}
        super().__init__(directory, {**os.environ, **home})
        self.port = free_ports(5)

    def write(self, text: str) -> None:
        """Write the inventory; `PORT` and `PROGRAMS` in it are filled in."""
        filled = textwrap.dedent(text).replace("PORT", str(self.port)).replace("PROGRAMS", str(PROGRAMS))
        self.inventory.write_text(filled)

    def tasks(self) -> dict[str, dict[str, Any]]:
        """Return the tasks of `status --json`, by name."""
        return {task["task"]: task for task in json.loads(self("status", "--json"))["tasks"]}

    def until_step(self, step: int) -> dict[str, Any]:
        """Return the chief's progress once it is past `step` and has a loss; fails as soon as a task has failed."""

        def passed() -> dict[str, Any] | None:
            status = json.loads(self("status", "--json"))
            failed = [task["task"] for task in status["tasks"] if task["state"] == "failed"]
            progress: dict[str, Any] | None = status["progress"]
            assert not failed, f"before step {step}, this had failed: {', '.join(failed)}"
            return progress if progress and progress["step"] > step and progress["loss"] is not None else None

        result: dict[str, Any] = until(passed, f"step {step}")
        return result

    def report(self) -> str:
        """Return what a failed test leaves to read: states, last lines of logs, what processes wait for, and sockets."""
        text = [self.run("status").stdout, self.run("logs", "--tail", "60").stdout]
        for process in (Path(f"/proc/{pid}") for pid in marked_processes(self._mark)):
            with contextlib.suppress(OSError):
                waits = Counter((thread / "wchan").read_text() for thread in (process / "task").iterdir())
                command = (process / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
                text.append(f"{process.name} {command} threads: {dict(waits)}")
        for table in Path("/proc/net").glob("tcp*"):  # without IPv6, there is one
            for line in table.read_text().splitlines()[1:]:
                _, local, remote, state, *_ = line.split()
                ports = {int(address.rpartition(":")[2], 16) for address in (local, remote)}
                if ports & {*range(self.port, self.port + 5)}:
                    text.append(f"{table.name} {local} {remote} {state}")
        return "\n".join(text)

    def pids(self) -> dict[str, str]:
        """Return the pid of every running task."""
        return {name: task["id"] for name, task in self.tasks().items() if task["id"]}

    def processes(self) -> list[str]:
        """Return the command lines of all processes that belong to this cluster: supervisors, tasks, their children."""
        result = []
        for pid in marked_processes(self._mark):
            with contextlib.suppress(OSError):
                result.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        return result

    @property
    def _mark(self) -> str:
        return f"XDG_STATE_HOME={self.directory / 'state'}"

    def lose_every_host(self) -> None:
        """Kill all that runs of this cluster, and remove what its hosts had."""
        until(lambda: kill_marked_processes(self._mark), "all have ended")
        shutil.rmtree(self.directory / "state")

    def close(self) -> None:
        """End the processes that still run, by pid."""
        self.end()
        if marked_processes(self._mark):
            self.run("down", "--discard")
        until(lambda: kill_marked_processes(self._mark), "nothing of the cluster is left")


def read_to_end(process: AnyProcess, seconds: float = LONG) -> str:
    """Return what a verb prints to its end, after lines of it were read; communicate() would miss what was read ahead."""
    assert process.stdout is not None
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        rest = process.stdout.read()
        process.wait()
    finally:
        timer.cancel()
    return rest


def open_local_cluster(directory: Path) -> Iterator[LocalCluster]:
    """Yield a Local and leave nothing of it running: for a fixture."""
    cluster = LocalCluster(directory)
    try:
        yield cluster
    finally:
        cluster.close()

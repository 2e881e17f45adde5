"""A cluster on this machine for tests: real commands, real processes, in directories of the test's own."""

import contextlib
import json
import os
import signal
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.ports import free_ports
from tests.support.command_line import CommandLine
from tests.support.warm import AnyProcess

PROGRAMS = Path(__file__).parents[2] / "images" / "train" / "programs"

LONG = 600.0
"""Seconds that nothing here takes, on a machine however busy: the limit of a wait for what is to happen."""

SLEEPER = "import sys, time; print('up', sys.argv[1:], flush=True); time.sleep(600)"


class Local(CommandLine):
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
        """Return what `status --json` says, by task."""
        return {task["task"]: task for task in json.loads(self("status", "--json"))["tasks"]}

    def progress(self) -> dict[str, Any] | None:
        """Return the chief's progress, as `status --json` has it."""
        found: dict[str, Any] | None = json.loads(self("status", "--json"))["progress"]
        return found

    def pids(self) -> dict[str, str]:
        """Return the pid of every running task."""
        return {name: task["id"] for name, task in self.tasks().items() if task["id"]}

    def processes(self) -> list[str]:
        """Return the command lines of all processes that belong to this cluster: supervisors, tasks, their children."""
        found = []
        for process in self._marked():
            with contextlib.suppress(OSError):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        return found

    def _marked(self) -> Iterator[Path]:
        mark = f"XDG_STATE_HOME={self.directory / 'state'}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it ended, or is another user's
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    yield process

    def close(self) -> None:
        """End whatever still runs, by pid."""
        self.end()
        if [*self._marked()]:
            self.run("down", "--discard")
        for process in self._marked():
            with contextlib.suppress(OSError):
                os.kill(int(process.name), signal.SIGKILL)


def rest_of(process: AnyProcess, seconds: float = LONG) -> str:
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


def until(
    check: Callable[[], Any], what: str, seconds: float = LONG, pause: float = 0.1, *, of: AnyProcess | None = None
) -> Any:
    """Return the first true answer of `check`, which is asked every `pause` seconds; fails after `seconds`.

    What `of` does can come no more once it has ended: that fails at once, with what it printed.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended = of is not None and of.poll() is not None
        if answer := check():
            return answer
        if ended:
            raise AssertionError(f"it ended before: {what}\n{of.communicate()[0] if of else ''}")
        time.sleep(pause)
    raise AssertionError(f"not within {seconds} s: {what}")


def local(directory: Path) -> Iterator[Local]:
    """Yield a Local and leave nothing of it running: for a fixture."""
    cluster = Local(directory)
    try:
        yield cluster
    finally:
        cluster.close()

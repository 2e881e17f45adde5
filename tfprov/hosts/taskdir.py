"""A task of the process runtime on disk: the directory that the controller and the supervisor share.

    order.json    what to run; written by the controller before the supervisor starts
    state.json    what became of it; written by the supervisor alone
    lock          held by the supervisor as long as it lives
    grace         seconds between SIGTERM and SIGKILL; written just before a stop
    no-restart    is there when the task is not to be started again, should it fail
    log, log.1    what the task printed; log.1 is the older part
    work/         a fresh copy of the code, the task's working directory
    checkpoints/  survives a restart of the task
    runtime/      for a task with a Python of its own: a link to tfprov, without what is installed beside it

Standard library only, and small: the supervisor imports it.
"""

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any

from tfprov.files import replace


class TaskDir:
    """The directory at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = path / "log"
        self.older_log = path / "log.1"
        self.no_restart = path / "no-restart"
        self.work = path / "work"
        self.checkpoints = path / "checkpoints"
        self.runtime = path / "runtime"

    def read(self, name: str) -> dict[str, Any] | None:
        """Return the JSON in the file `name`; None when there is none, or when it is not ours."""
        try:
            data = json.loads((self.path / name).read_text())
        except (OSError, ValueError):
            return None
        return data if isinstance(data, dict) else None

    def write(self, name: str, data: Any) -> None:
        """Replace the file `name`, so that a reader sees the old or the new one, never half; readable by the owner only."""
        replace(self.path / name, json.dumps(data, indent=1).encode(), mode=0o600)

    def lock(self, patience: float) -> int | None:
        """Take the supervisor's lock and return its descriptor; None when it is held for longer than `patience` seconds."""
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    os.close(descriptor)
                    return None
                time.sleep(0.01)
            else:
                return descriptor

    def is_supervised(self) -> bool:
        """Whether a supervisor lives: the kernel frees its lock with it, however it ends."""
        try:
            descriptor = os.open(self.path / "lock", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            # A shared lock, so that two observers do not take each other for a supervisor.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def told(self) -> tuple[bool, dict[str, Any]]:
        """Return whether a supervisor lives, and what it last said: of one time, for it may end between the two."""
        while True:
            supervised = self.is_supervised()
            facts = self.read("state.json") or {}
            if self.is_supervised() is supervised:
                return supervised, facts


def complete(directory: Path) -> list[Path]:
    """Return the entries of `directory` in order, without those that are half-made or half-removed (a dot in front)."""
    try:
        return sorted(path for path in directory.iterdir() if path.name[0] != ".")
    except FileNotFoundError:
        return []

"""Runs one task as a process, outlives the command that started it, and records how it ends.

    python -m tfprov.hosts.process.supervisor TASK_DIRECTORY

The first process returns as soon as the task runs (or has failed to), so its caller knows; the second stays. It leads no
terminal, keeps no descriptor of its caller, and holds the lock of the task's directory for as long as it lives.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from tfprov.hosts.crash import LINES, Life, is_hopeless, last_words
from tfprov.hosts.log_file import split
from tfprov.hosts.process.proc import identity, is_alive, signal_group
from tfprov.hosts.process.task_dir import TaskDir
from tfprov.hosts.program_checks import unstartable

LOG_LIMIT = 10 * 1024 * 1024
"""Bytes after which a log starts anew; one older part is kept, so that a flood of output ends at twice this."""
_LATE = 1024 * 1024
"""Bytes of the older part left for what the task writes while it is copied."""
_LAST_WORDS = 256 * 1024
"""Bytes at the end of a log in which is looked why a task ended."""
_BACKOFF = (1, 2, 4, 8)
"""Seconds before each restart; the last one repeats."""
_SIGNALS = (signal.SIGTERM, signal.SIGCHLD)


class Process(Protocol):
    """What a supervisor needs of a process that it has started."""

    @property
    def pid(self) -> int:
        """Its pid, which is also that of its process group."""

    def wait(self) -> int:
        """Return its exit code, or minus the signal that ended it."""


Spawn = Callable[..., Process]
"""Starts a process, as subprocess.Popen does; raises OSError where it cannot be started."""


class Supervisor:
    """Starts the process of an order, waits for it, and starts it again where the order says so."""

    def __init__(self, directory: TaskDir, spawn: Spawn = subprocess.Popen, umask: int = 0o022) -> None:
        self.directory = directory
        self.spawn = spawn
        self.umask = umask
        self.order = directory.read("order.json") or {}
        self.state: dict[str, Any] = {
            "supervisor": os.getpid(),
            "supervisor_identity": identity(os.getpid()),
            "restarts": 0,
        }
        self.stopped = False
        self.before: Life | None = None
        self.log_begin = 0

    def run(self, ready: int) -> None:
        """Run until the task has ended for good; closes `ready` once it is known whether it could start."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        while True:
            process = self.start()
            if ready >= 0:
                os.close(ready)
                ready = -1
            if process is None:
                return
            code = self.wait(process)
            self.record("exited", exit_code=code, finished_at=time.time(), stopped=self.stopped)
            if not self.wants_restart(code):
                return
            life = Life(code, time.time() - self.state["started_at"], self.last_words())
            if (self.before is not None and is_hopeless(self.before, life)) or self.directory.no_restart.exists():
                self.record("exited", gave_up=True)
                return
            self.before = life
            self.state["restarts"] += 1
            self.record("restarting", last_exit=code, last_words=life.words)
            if self.pause():
                self.record("exited", stopped=True)
                return

    def start(self) -> Process | None:
        """Start the process; None, and a record of why, when it cannot be."""
        try:
            with self.directory.log.open("ab") as log:
                self.log_begin = log.tell()
                process = self.spawn(
                    self.order["argv"],
                    env=self.order["env"],
                    cwd=self.directory.work,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    preexec_fn=self.begin,  # safe: there is one thread
                )
        except OSError as error:
            reason = unstartable(error, self.order["argv"][0], self.order["env"], self.directory.work)
            self.record("exited", exit_code=127, error=reason, finished_at=time.time())
            return None
        self.record("running", pid=process.pid, identity=identity(process.pid), started_at=time.time(), exit_code=None)
        return process

    def begin(self) -> None:
        """Give the process of the task, in which this runs, what it would have without a supervisor."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.umask(self.umask)

    def wait(self, process: Process) -> int:
        """Return the exit code, 128 + N after signal N; on SIGTERM, stop the whole process group first."""
        deadline: float | None = None
        while not self.has_ended(process):
            timeout = 1.0 if deadline is None else max(0.0, deadline - time.monotonic())
            received = signal.sigtimedwait(_SIGNALS, min(timeout, 1.0))
            if received is not None and received.si_signo == signal.SIGTERM and deadline is None:
                self.stopped = True
                deadline = time.monotonic() + self.grace()
                signal_group(process.pid, signal.SIGTERM)
            if deadline is not None and time.monotonic() >= deadline:
                signal_group(process.pid, signal.SIGKILL)
            self.limit_log()
        # The zombie still holds its pid, so the group cannot be someone else's yet: end what the task left behind.
        signal_group(process.pid, signal.SIGKILL)
        code = process.wait()
        self.limit_log()
        return code if code >= 0 else 128 - code

    def has_ended(self, process: Process) -> bool:
        """Whether the process has ended; it stays a zombie, so that its pid is not given away."""
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None

    def grace(self) -> float:
        """Return the seconds between SIGTERM and SIGKILL."""
        try:
            return float((self.directory.path / "grace").read_text())
        except (OSError, ValueError):
            return float(self.order.get("stop_grace", 30))

    def limit_log(self) -> None:
        """Keep a flood of output from filling the disk."""
        log = self.directory.log
        if (size := log.stat().st_size) <= LOG_LIMIT:
            return
        with log.open("rb") as source, self.directory.older_log.open("wb") as older:
            source.seek(size - LOG_LIMIT + _LATE)
            older.write(source.read(LOG_LIMIT - _LATE))  # no more: a fast writer must not keep us copying
            older.write(source.read(_LATE))  # but what it has written meanwhile may be its last word
            os.truncate(log, 0)  # the task appends, so its next line lands at the new start

    def last_words(self) -> str:
        """Return with which words the task ended, from what it has printed since it was started last."""
        with self.directory.log.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            begin = self.log_begin if self.log_begin <= size else 0  # the log may have started anew meanwhile
            log.seek(max(begin, size - _LAST_WORDS))
            lines = list(split([log.read(_LAST_WORDS)]))
        return last_words(lines[-LINES:])

    def wants_restart(self, code: int) -> bool:
        """Whether the task is to be started again after it ended with `code`."""
        again = self.order.get("restart") == "on-failure" and self.state["restarts"] < self.order.get("max_restarts", 0)
        return again and code != 0 and not self.stopped

    def pause(self) -> bool:
        """Wait before a restart; return whether a stop came in the meantime."""
        seconds = _BACKOFF[min(self.state["restarts"], len(_BACKOFF)) - 1]
        return signal.sigtimedwait((signal.SIGTERM,), seconds) is not None

    def record(self, state: str, **facts: Any) -> None:
        """Write what is known now to the disk."""
        self.state |= {"state": state, **facts}
        self.directory.write("state.json", self.state)


def main(spawn: Spawn = subprocess.Popen) -> int:
    """Start the supervisor of the directory in argv[1]; return when its task has started."""
    directory = TaskDir(Path(sys.argv[1]))
    umask = os.umask(0o077)  # what a task prints is for its owner alone; what it writes is its own affair
    lock = directory.lock(patience=10.0)
    before = directory.read("state.json") or {}
    if lock is None or is_alive(before.get("pid"), before.get("identity")):
        print("the task is already running", file=sys.stderr)
        return 1
    waiting, ready = os.pipe()
    if os.fork():
        os.close(ready)
        os.read(waiting, 1)
        return 0
    os.close(waiting)
    os.setsid()
    with Path(os.devnull).open("r+b") as nothing:  # the caller waits for the end of these
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    Supervisor(directory, spawn, umask).run(ready)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Supervise one task: start its process, outlive the command that started it, restart it, and record its end.

    python -m tfprov.hosts.process.supervisor TASK_DIRECTORY

The first process returns as soon as the task has started or failed to; its child stays, without a terminal or descriptors
of the caller, and holds the lock of the task's directory while it lives.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from tfprov.hosts.crash import LINES, FailedRun, is_hopeless, is_restarted, last_words
from tfprov.hosts.log_file import split_lines
from tfprov.hosts.process.proc import (
    adopt_orphans,
    identity,
    is_alive,
    kill_children,
    reap_children,
    signal_group,
    terminate,
)
from tfprov.hosts.process.task_dir import TaskDir
from tfprov.hosts.program_checks import start_error

LOG_LIMIT = 10 * 1024 * 1024
"""Bytes after which a log is rotated. One older part is kept, so the two have at most twice this size."""
_COPY_MARGIN = 1024 * 1024
"""Bytes of the older part reserved for output during the copy."""
_LAST_WORDS_SIZE = 256 * 1024
"""Bytes at the end of a log searched for the reason of the end."""
_BACKOFF = (1, 2, 4, 8)
"""Seconds before each restart; the last one repeats."""
_KILL_SECONDS = 5.0
"""Seconds for processes in sessions of their own to end after SIGKILL; one that cannot delays the record no longer."""
_SIGNALS = (signal.SIGTERM, signal.SIGCHLD)


class Process(Protocol):
    """The part of subprocess.Popen that a supervisor uses."""

    @property
    def pid(self) -> int:
        """Its pid, also the id of its process group."""

    def wait(self) -> int:
        """Return its exit code, or the negative number of the signal that ended it."""


Spawn = Callable[..., Process]
"""Starts a process like subprocess.Popen; raises OSError."""


class Supervisor:
    """Starts the process of an order, waits for it, and restarts it as the order says.

    If it `adopts` orphans, all children of this process are the task's, and end with it.
    """

    def __init__(
        self, directory: TaskDir, spawn: Spawn = subprocess.Popen, umask: int = 0o022, *, adopts: bool = False
    ) -> None:
        self.directory = directory
        self.spawn = spawn
        self.umask = umask
        self.adopts = adopts
        self.order = directory.read("order.json") or {}
        self.state: dict[str, Any] = {
            "supervisor": os.getpid(),
            "supervisor_identity": identity(os.getpid()),
            "restarts": 0,
        }
        self.stopped = False
        self.previous: FailedRun | None = None
        self.log_start = 0
        self.timed_size = -1
        self.started = 0.0
        """When the process started, by the monotonic clock: that of the host may be set meanwhile."""

    def run(self, ready: int) -> None:
        """Run until the task has ended for good; closes `ready` once it has started or failed to."""
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
            life = FailedRun(code, time.monotonic() - self.started, self.last_words())
            if (self.previous is not None and is_hopeless(self.previous, life)) or self.directory.no_restart.exists():
                self.record("exited", gave_up=True)
                return
            self.previous = life
            self.state["restarts"] += 1
            self.record("restarting", last_exit=code, last_words=life.words)
            if self.pause():
                self.record("exited", stopped=True)
                return
            self.end_line()

    def start(self) -> Process | None:
        """Start the process; on failure record the reason and return None."""
        try:
            with self.directory.log.open("ab") as log:
                self.log_start = log.tell()
                process = self.spawn(
                    self.order["argv"],
                    env=self.order["env"],
                    cwd=self.directory.work,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    preexec_fn=self.prepare_child,  # safe: there is only one thread
                )
        except OSError as error:
            reason = start_error(error, self.order["argv"][0], self.order["env"], self.directory.work)
            self.record("exited", exit_code=127, error=reason, finished_at=time.time())
            return None
        self.started = time.monotonic()
        self.record("running", pid=process.pid, identity=identity(process.pid), started_at=time.time(), exit_code=None)
        return process

    def end_line(self) -> None:
        """End the last line of the log, such as a progress bar, which the next run would go on with."""
        with contextlib.suppress(OSError), self.directory.log.open("r+b") as log:
            log.seek(-1, os.SEEK_END)
            if log.read(1) != b"\n":
                log.write(b"\n")

    def prepare_child(self) -> None:
        """Restore signal mask and umask in the child process."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.umask(self.umask)

    def wait(self, process: Process) -> int:
        """Return the exit code, 128 + N after signal N. On SIGTERM, stops the process group first."""
        deadline: float | None = None
        while not self.has_ended(process):
            timeout = 1.0 if deadline is None else max(0.0, deadline - time.monotonic())
            received = signal.sigtimedwait(_SIGNALS, min(timeout, 1.0))
            if received is not None and received.si_signo == signal.SIGTERM and deadline is None:
                self.stopped = True
                deadline = time.monotonic() + self.grace()
                terminate(process.pid, passes_signals=self.order.get("passes_signals", False))
            if deadline is not None and time.monotonic() >= deadline:
                signal_group(process.pid, signal.SIGKILL)
            self.limit_log()
        # The zombie keeps its pid reserved, so the group is still the task's: end its remaining processes.
        signal_group(process.pid, signal.SIGKILL)
        code = process.wait()
        if self.adopts:  # processes that left the group, for a session of their own
            kill_children(_KILL_SECONDS)
        self.limit_log()
        return code if code >= 0 else 128 - code

    def has_ended(self, process: Process) -> bool:
        """Whether the process has ended, without reaping it: as a zombie it keeps its pid reserved."""
        if self.adopts:
            reap_children(keep=process.pid)
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None

    def grace(self) -> float:
        """Return the seconds between SIGTERM and SIGKILL."""
        try:
            return float((self.directory.path / "grace").read_text())
        except (OSError, ValueError):
            return float(self.order.get("stop_grace", 30))

    def limit_log(self) -> None:
        """Record when the log grew, and rotate it beyond LOG_LIMIT; with a full disk, another time."""
        with contextlib.suppress(OSError):
            self._limit_log(self.directory.log)

    def _limit_log(self, log: Path) -> None:
        status = log.stat()
        if status.st_size != self.timed_size:
            self.directory.times.add(status.st_size, status.st_mtime)
            self.timed_size = status.st_size
        if (size := status.st_size) <= LOG_LIMIT:
            return
        with log.open("rb") as source, self.directory.older_log.open("wb") as older:
            source.seek(size - LOG_LIMIT + _COPY_MARGIN)
            older.write(source.read(LOG_LIMIT - _COPY_MARGIN))  # bounded: a fast writer must not prolong the copy
            older.write(source.read(_COPY_MARGIN))  # output during the copy may be the last words
            os.truncate(log, 0)  # the task appends, so it continues at the new start
        self.directory.times.rotate_to(self.directory.older_times, size - LOG_LIMIT + _COPY_MARGIN)

    def last_words(self) -> str:
        """Return the last words of the current run, from its part of the log."""
        with self.directory.log.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            prepare_child = self.log_start if self.log_start <= size else 0  # the log may have been rotated
            log.seek(max(prepare_child, size - _LAST_WORDS_SIZE))
            lines = list(split_lines([log.read(_LAST_WORDS_SIZE)]))
        return last_words(lines[-LINES:])

    def wants_restart(self, code: int) -> bool:
        """Whether the task is to be restarted after exit code `code`."""
        allowed = self.order.get("restart") == "on-failure" and self.state["restarts"] < self.order.get(
            "max_restarts", 0
        )
        only, never = self.order.get("restart_on", ()), self.order.get("no_restart_on", ())
        return allowed and is_restarted(code, only, never) and not self.stopped

    def pause(self) -> bool:
        """Wait before a restart; return whether SIGTERM arrived meanwhile."""
        seconds = _BACKOFF[min(self.state["restarts"], len(_BACKOFF)) - 1]
        return signal.sigtimedwait((signal.SIGTERM,), seconds) is not None

    def record(self, state: str, **fields: Any) -> None:
        """Update the state file, also on a full disk."""
        self.state |= {"state": state, **fields}
        try:
            self.directory.write("state.json", self.state)
        except OSError:
            self.directory.overwrite("state.json", self.state)


def main(spawn: Spawn = subprocess.Popen) -> int:
    """Start the supervisor of the directory argv[1]; return once its task has started."""
    directory = TaskDir(Path(sys.argv[1]))
    umask = os.umask(0o077)  # the log is private to the owner; the task itself gets the original umask
    lock = directory.lock(timeout=10.0)
    previous = directory.read("state.json") or {}
    if lock is None or is_alive(previous.get("pid"), previous.get("identity")):
        print("the task is already running", file=sys.stderr)
        return 1
    read_end, ready = os.pipe()
    if os.fork():
        os.close(ready)
        os.read(read_end, 1)
        return 0
    os.close(read_end)
    os.setsid()
    with Path(os.devnull).open("r+b") as devnull:  # the caller waits until these are closed
        os.dup2(devnull.fileno(), 1)
        os.dup2(devnull.fileno(), 2)
    Supervisor(directory, spawn, umask, adopts=adopt_orphans()).run(ready)
    return 0


if __name__ == "__main__":
    sys.exit(main())

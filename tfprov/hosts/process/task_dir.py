"""The directory of a task of the process runtime, shared by the controller and the supervisor.

    order.json    the command to run; written by the controller before the supervisor starts
    state.json    its state; written by the supervisor only
    lock          held by the supervisor while it lives
    grace         seconds between SIGTERM and SIGKILL; written just before a stop
    no-restart    exists if the task must not be restarted after a failure
    log, log.1    the output of the task; log.1 is the older part
    log.times     when the log had how many bytes, and log.1.times; without them, lines have no times
    work/         a fresh copy of the code, the task's working directory
    checkpoints/  survives a restart of the task
    runtime/      for a task with its own Python: a link to tfprov alone, without its neighbours in site-packages

Small, standard library only: the supervisor imports it.
"""

import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from tfprov.atomic_write import private_directory, replace
from tfprov.errors import HostError
from tfprov.hosts.log_lines import TimesFile
from tfprov.hosts.process.proc import is_alive, stands_still
from tfprov.model.state import Container, Observed, State


class TaskDir:
    """The task directory at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = path / "log"
        self.older_log = path / "log.1"
        self.times, self.older_times = TimesFile(path / "log.times"), TimesFile(path / "log.1.times")
        self.no_restart = path / "no-restart"
        self.work = path / "work"
        self.checkpoints = path / "checkpoints"
        self.runtime = path / "runtime"

    def read(self, name: str) -> dict[str, Any] | None:
        """Return the JSON object in the file `name`; None if it is missing or malformed.

        Raises PermissionError: a task that cannot be looked at may run, and must not count as one that was never started.
        """
        try:
            content = json.loads((self.path / name).read_text())
        except PermissionError:
            raise
        except (OSError, ValueError):
            return None
        return content if isinstance(content, dict) else None

    def write(self, name: str, content: Any) -> None:
        """Replace the file `name` atomically, readable by the owner only."""
        replace(self.path / name, json.dumps(content, indent=1).encode(), mode=0o600)

    def overwrite(self, name: str, content: Any) -> None:
        """Write over the file `name` in its place, which takes no room on the disk if it is not longer than a block."""
        with (self.path / name).open("r+b") as file:
            size = os.fstat(file.fileno()).st_size
            file.write(json.dumps(content, indent=1).encode().ljust(size))

    def lock(self, timeout: float) -> int | None:
        """Take the supervisor's lock and return its descriptor; None if it is still held after `timeout` seconds."""
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + timeout
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
        """Whether a supervisor lives: the kernel releases its lock when it ends."""
        try:
            descriptor = os.open(self.path / "lock", os.O_RDONLY | os.O_CLOEXEC)
        except PermissionError:
            raise
        except OSError:
            return False
        try:
            # Shared, so that two observers do not take each other for a supervisor.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def read_consistent_state(self) -> tuple[bool, dict[str, Any]]:
        """Return whether a supervisor lives, and its state file, both of the same time: it may end in between."""
        while True:
            supervised = self.is_supervised()
            state_file = self.read("state.json") or {}
            if self.is_supervised() is supervised:
                return supervised, state_file


def complete_entries(directory: Path) -> list[Path]:
    """Return the entries of `directory`, sorted, without incomplete ones, whose names start with a dot."""
    try:
        return sorted(path for path in directory.iterdir() if path.name[0] != ".")
    except FileNotFoundError:
        return []


def observe_task(directory: TaskDir, host: str) -> Observed:
    """Return the current state of the task of `directory`."""
    job, _, index = directory.path.name.rpartition("-")
    order = directory.read("order.json") or {}
    supervised, state_file = directory.read_consistent_state()
    state = _state(supervised, state_file)
    restarting = state is State.RUNNING and state_file.get("state") == "restarting"
    pid = None if restarting else state_file.get("pid")
    return Observed(
        task=f"{job}/{index}",
        host=host,
        state=state,
        spec=order.get("spec", {}),
        id=str(pid or ""),
        run=order.get("run", ""),
        exit_code=state_file.get("exit_code") if state is State.EXITED else None,
        started_at=state_file.get("started_at"),
        finished_at=state_file.get("finished_at") if state is State.EXITED else None,
        restarts=state_file.get("restarts", 0),
        restarting=restarting,
        unpause=f"kill -CONT {pid}" if pid and state is State.RUNNING and stands_still(pid) else "",
        last_exit=state_file.get("last_exit"),
        last_words=state_file.get("last_words", ""),
        gave_up=bool(state_file.get("gave_up")) and state is State.EXITED,
        stopped=bool(state_file.get("stopped")),
        error=state_file.get("error", "") if state is State.EXITED else "",
    )


def _state(supervised: bool, state_file: Mapping[str, Any]) -> State:
    recorded = state_file.get("state")
    if recorded == "exited" and not supervised:
        return State.EXITED
    if supervised or is_alive(state_file.get("pid"), state_file.get("identity")):
        return State.RUNNING
    return State.LOST if recorded else State.CREATED


_PACKAGE = Path(__file__).resolve().parents[2]


def prepare(directory: TaskDir, container: Container, code: Path | None) -> None:
    """Replace the working directory of `container` by a copy of `code`; its checkpoint directory stays. Raises OSError."""
    private_directory(directory.checkpoints)
    if directory.work.exists():
        shutil.rmtree(directory.work)
    if code is None:
        private_directory(directory.work)
    else:  # a copy, so that files the program writes there do not change the delivered code
        shutil.copytree(code, directory.work, symlinks=True)
        directory.work.chmod(0o700)
    if container.link is not None:
        _create_link(directory.work / container.link[0], Path(container.link[1]))
    if container.python is not None:
        _link_runtime(directory.runtime)


def _create_link(link: Path, target: Path) -> None:
    """Create `link` to the directory `target`, creating that too: the chief, its owner, may not have started yet."""
    private_directory(target)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target, target_is_directory=True)


def _link_runtime(directory: Path) -> None:
    """Let the task's own Python import `tfprov.runtime`, but no other package of this installation."""
    private_directory(directory)
    link = directory / _PACKAGE.name
    link.unlink(missing_ok=True)
    link.symlink_to(_PACKAGE, target_is_directory=True)


_FIXES = {
    errno.EACCES: "give this user access to it",
    errno.EPERM: "give this user access to it",
    errno.ENOSPC: "free some there",
    errno.EDQUOT: "free some there",
    errno.ENOTDIR: "move the file that is in its way, or set XDG_STATE_HOME",
    errno.EROFS: "set XDG_STATE_HOME to a directory that can be written",
}
"""What helps against an error of the operating system, by its number."""
Method = TypeVar("Method", bound=Callable[..., Any])


def os_errors(method: Method) -> Method:
    """Turn OSError of a method into HostError for its object's `host`."""

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except shutil.Error as error:  # of copytree(): source, target and reason for every file, as text
            _, target, reason = error.args[0][0]
            number, _, text = reason.removeprefix("[Errno ").partition("] ")
            fix = _FIXES.get(int(number), "") if number.isdecimal() else ""
            raise HostError(self.host, f"{text.partition(': ')[0] or reason}: {target}", fix) from error
        except OSError as error:
            where = f": {error.filename}" if error.filename else ""
            raise HostError(self.host, f"{error.strerror or error}{where}", _FIXES.get(error.errno or 0, "")) from error

    return call  # type: ignore[return-value]

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
import shutil
import time
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from tfprov.atomic_write import private_directory, replace
from tfprov.errors import HostError
from tfprov.hosts.process.proc import is_alive
from tfprov.model.state import Container, Observed, State


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


def observed(directory: TaskDir, host: str) -> Observed:
    """Return the task that `directory` belongs to, as it is now."""
    job, _, index = directory.path.name.rpartition("-")
    ordered = directory.read("order.json") or {}
    supervised, facts = directory.told()
    state = _state(supervised, facts)
    restarting = state is State.RUNNING and facts.get("state") == "restarting"
    return Observed(
        task=f"{job}/{index}",
        host=host,
        state=state,
        spec=ordered.get("spec", {}),
        id="" if restarting else str(facts.get("pid") or ""),
        run=ordered.get("run", ""),
        exit_code=facts.get("exit_code") if state is State.EXITED else None,
        started_at=facts.get("started_at"),
        finished_at=facts.get("finished_at") if state is State.EXITED else None,
        restarts=facts.get("restarts", 0),
        restarting=restarting,
        last_exit=facts.get("last_exit"),
        last_words=facts.get("last_words", ""),
        gave_up=bool(facts.get("gave_up")) and state is State.EXITED,
        stopped=bool(facts.get("stopped")),
        error=facts.get("error", "") if state is State.EXITED else "",
    )


def _state(supervised: bool, facts: Mapping[str, Any]) -> State:
    stated = facts.get("state")
    if stated == "exited" and not supervised:
        return State.EXITED
    if supervised or is_alive(facts.get("pid"), facts.get("identity")):
        return State.RUNNING
    return State.LOST if stated else State.CREATED


_PACKAGE = Path(__file__).resolve().parents[2]


def make(directory: TaskDir, container: Container, code: Path | None) -> None:
    """Make the working directory of `container` anew, from `code`; its checkpoint directory stays. Raises OSError."""
    private_directory(directory.checkpoints)
    if directory.work.exists():
        shutil.rmtree(directory.work)
    if code is None:
        private_directory(directory.work)
    else:  # a copy of its own: what a program writes beside itself must not change what the next task runs
        shutil.copytree(code, directory.work, symlinks=True)
        directory.work.chmod(0o700)
    if container.link is not None:
        _link(directory.work / container.link[0], Path(container.link[1]))
    if container.python is not None:
        _bring_runtime(directory.runtime)


def _link(link: Path, target: Path) -> None:
    """Make `link` lead to the directory `target`, also before the chief, whose it is, was started at all."""
    private_directory(target)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target, target_is_directory=True)


def _bring_runtime(directory: Path) -> None:
    """Let another Python than ours import `tfprov.runtime`, and nothing else of what lies beside it."""
    private_directory(directory)
    link = directory / _PACKAGE.name
    link.unlink(missing_ok=True)
    link.symlink_to(_PACKAGE, target_is_directory=True)


Method = TypeVar("Method", bound=Callable[..., Any])


def mapped(method: Method) -> Method:
    """Turn the operating system's errors into one line that names the `host` of the method's object."""

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except OSError as error:
            where = f": {error.filename}" if error.filename else ""
            raise HostError(self.host, f"{error.strerror or error}{where}") from error

    return call  # type: ignore[return-value]

"""The holder of a lock: the text in the lock file, and whether its process is known to be dead."""

import getpass
import json
import os
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tfprov.errors import printable
from tfprov.hosts.process.proc import identity, is_alive

UNKNOWN = "another run"
"""The holder in messages about a lock file that cannot be read."""


@dataclass(frozen=True)
class LockHolder:
    """One run of tfprov. `process` is unique among all processes that ever had its `pid`; `table` is its pid namespace."""

    verb: str
    user: str
    controller: str
    pid: int
    since: str
    process: str = ""
    table: str = ""

    @classmethod
    def current(cls, verb: str) -> "LockHolder":
        """Return this process."""
        pid = os.getpid()
        return cls(verb, _user(), socket.gethostname(), pid, _now(), identity(pid) or "", _table())

    @classmethod
    def read(cls, text: str) -> "LockHolder | None":
        """Parse the text of a lock file, which anybody may have written; None if it is invalid."""
        try:
            values: dict[str, Any] = json.loads(text)
            holder = cls(**{name: values[name] for name in cls.__annotations__})
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        return holder if all(type(getattr(holder, n)) is kind for n, kind in cls.__annotations__.items()) else None

    def to_text(self) -> str:
        """Return the text for the lock file: one line of ASCII."""
        return json.dumps(asdict(self))

    def is_dead(self) -> bool:
        """Whether this process has certainly ended; False for one of another machine or pid namespace."""
        is_visible = bool(self.process and self.table) and (_boot(self.process), self.table) == _place()
        return is_visible and not is_alive(self.pid, self.process)

    def __str__(self) -> str:
        who = f"{printable(self.user)}@{printable(self.controller)}"
        return f"`tfprov {printable(self.verb)}` of {who} (pid {self.pid}, since {printable(self.since)})"


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S %z")


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may run as a uid without a name
        return str(os.getuid())


def _place() -> tuple[str, str]:
    return _boot(identity(os.getpid()) or ""), _table()


def _boot(process: str) -> str:
    return process.partition(":")[0]


def _table() -> str:
    """Return the name of this process's pid namespace: containers on one kernel do not see each other's processes."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""

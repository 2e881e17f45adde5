"""One run at a time changes a cluster. The kernel frees the lock with its holder: there is nothing to unlock."""

import fcntl
import getpass
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tfprov.errors import Locked


@contextmanager
def held(path: Path, cluster: str, verb: str) -> Iterator[None]:
    """Hold the lock at `path` for the time of the block; Locked names who has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Locked(f"cluster {cluster} is in use by {_holder(descriptor)}", "wait for it, or stop it") from None
        _sign(descriptor, verb)
        yield
    finally:
        os.close(descriptor)


def _sign(descriptor: int, verb: str) -> None:
    """Write who holds the lock: for people, the lock itself does not depend on it."""
    facts = {"verb": verb, "pid": os.getpid(), "user": _user(), "since": time.strftime("%H:%M:%S")}
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(facts).encode(), 0)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may run as a uid without a name
        return str(os.getuid())


def _holder(descriptor: int) -> str:
    try:
        facts = json.loads(os.pread(descriptor, 4096, 0))
        return "`tfprov {verb}` of {user} (pid {pid}, since {since})".format(**facts)
    except (ValueError, KeyError, TypeError):
        return "another run"

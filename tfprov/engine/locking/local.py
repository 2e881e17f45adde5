"""The controller's half of the lock: two runs of one user on one machine."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tfprov.engine.locking.facts import UNKNOWN, Facts
from tfprov.errors import Locked
from tfprov.files import private_directory


@contextmanager
def held(path: Path, cluster: str, facts: Facts) -> Iterator[None]:
    """Hold the lock at `path` for the time of the block; Locked names who has it.

    The kernel frees it with its holder: there is nothing to unlock.
    """
    private_directory(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = Facts.read(os.pread(descriptor, 4096, 0).decode(errors="replace")) or UNKNOWN
            raise Locked(f"cluster {cluster} is in use by {holder}", "wait for it, or stop it") from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, facts.to_text().encode(), 0)
        yield
    finally:
        os.close(descriptor)

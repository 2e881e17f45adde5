"""Locks of whole files that end with their holder, and that others can look at without taking them.

These are locks of an open file description (fcntl(2), Linux). As with flock(2), the kernel frees one when the last copy of
its descriptor is closed. But whoever looks at a flock has to take it for a moment, in which a process that wants it fails.
"""

import errno
import fcntl
import os
import struct
from pathlib import Path

_FLOCK = struct.Struct("hhqqi4x")
"""`struct flock` on 64-bit Linux: type, whence, start, length (0: to the end), pid (0 for these locks)."""


def open_lock(path: Path) -> int:
    """Return a descriptor of a lock file, which is created if it is missing, private to its owner."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def take_lock(descriptor: int, *, shared: bool = False, wait: bool = False) -> bool:
    """Take the lock of an open file; False if others have it, without `wait`.

    Several processes can have a `shared` one together.
    """
    kind = fcntl.F_RDLCK if shared else fcntl.F_WRLCK
    command = fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK
    try:
        fcntl.fcntl(descriptor, command, _FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0))
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def is_locked(path: Path) -> bool:
    """Whether a living process has the lock of a file; False for a missing file, and where there are no locks."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked))[0]
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return bool(kind != fcntl.F_UNLCK)

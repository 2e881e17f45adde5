"""Replacing a file of the user's: it is the old one or the new one at any time, and its own in all but its content."""

import errno
import os
import shutil
import tempfile
from pathlib import Path

from tfprov.files import sync


def rewrite(path: Path, before: bytes, data: bytes) -> None:
    """Replace the file at `path`, which held `before` when it was read.

    Its mode, owner, extended attributes and access list stay, and a link to it still leads to it. OSError says why it
    was left as it is: it holds something else by now, it has other names, or it would have another owner.
    """
    target = Path(os.path.realpath(path))
    found = target.stat()
    if found.st_nlink > 1:
        raise OSError(errno.EMLINK, f"it has {found.st_nlink} names (hard links), and only one would have the change")
    # Hidden: in a directory of inventories it is not read as one.
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    beside = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            _keep_owner(file.fileno(), found)
            shutil.copystat(target, beside)
            os.utime(beside)
            file.flush()
            os.fsync(file.fileno())
        _refuse_changed(target, before)
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync(target.parent)


def _keep_owner(descriptor: int, found: os.stat_result) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (found.st_uid, found.st_gid):
        try:
            os.fchown(descriptor, found.st_uid, found.st_gid)
        except OSError:
            raise OSError(errno.EPERM, "it belongs to another user or group, and would not any more") from None


def _refuse_changed(target: Path, before: bytes) -> None:
    if target.read_bytes() != before:
        raise OSError(errno.EBUSY, "it was changed by somebody else meanwhile")

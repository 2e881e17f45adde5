"""Files in the staging directory that an interrupted gather has left: the next one copies only what they lack.

Nothing is recorded beside them, so that a killed gather leaves as much as any other. Their content proves itself: the host
compares the SHA-256 of as many bytes of its own file, before it sends the rest.
"""

import hashlib
import stat
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from tfprov.hosts.base import Prefix

if TYPE_CHECKING:
    from hashlib import _Hash

WORTHWHILE = 1024 * 1024
"""Bytes from which a file is kept: comparing it takes a request, and a program on the host."""
_CHUNK = 256 * 1024
"""Bytes read at a time."""


def unfinished_size(path: Path, size: int) -> int:
    """Return how much there is of a file of `size` bytes; 0 if it is not worthwhile, or belongs to another file."""
    try:
        status = path.lstat()
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) and WORTHWHILE <= status.st_size <= size else 0


def hash_prefix(path: Path, size: int) -> "tuple[_Hash, Prefix]":
    """Read the first `size` bytes of a file; return their SHA-256, to be continued, and what the host compares."""
    digest, left = hashlib.sha256(), size
    with path.open("rb") as file:
        while left and (chunk := file.read(min(_CHUNK, left))):
            digest.update(chunk)
            left -= len(chunk)
    return digest, Prefix(size - left, digest.hexdigest())


def keep_unfinished(directory: Path, names: Collection[str]) -> None:
    """Remove all files below `directory` but those of `names` that are worthwhile to continue."""
    if not directory.is_dir():
        return
    kept = {directory / name for name in names}
    for path in sorted(directory.rglob("*"), reverse=True):  # files before the folders that have them
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path not in kept or path.lstat().st_size < WORTHWHILE:
            path.unlink()
    if not any(directory.iterdir()):
        directory.rmdir()

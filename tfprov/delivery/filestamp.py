"""The digest of a large file, read once: a gigabyte of archive that has not changed is not read again by every command."""

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

from tfprov.files import private_directory, replace

KEEP = 50
"""Files that are remembered: the last ones that were read."""


def digest_of_file(path: Path, cache: Path) -> str:
    """Return the sha256 of the file at `path`; OSError when it cannot be read.

    The file `cache` remembers it as long as the size, the time of change to the nanosecond and the inode stay. A cache
    that is damaged, or cannot be written, costs only time.
    """
    key, stamp = str(path.resolve()), _stamp(path)
    known = _read(cache).get(key)
    if isinstance(known, list) and known[:-1] == stamp and isinstance(known[-1], str):
        return known[-1]
    with path.open("rb") as file:
        digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    if _stamp(path) == stamp:  # else it was written while it was read
        _remember(cache, key, [*stamp, digest])
    return digest


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def _remember(cache: Path, key: str, entry: list[Any]) -> None:
    known = _read(cache)
    known.pop(key, None)
    known[key] = entry
    last = dict(list(known.items())[-KEEP:])
    with contextlib.suppress(OSError):
        private_directory(cache.parent)
        replace(cache, json.dumps(last).encode(), mode=0o600)


def _read(cache: Path) -> dict[str, Any]:
    try:
        found = json.loads(cache.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}

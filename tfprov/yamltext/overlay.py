"""Which files were read, and what is taken for their content while an edit is tried out."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Reading:
    """Files as they are read: `instead` holds other content for some, by their real paths; `files` all that were read."""

    instead: Mapping[str, bytes] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)


_current: ContextVar[Reading | None] = ContextVar("reading", default=None)


@contextmanager
def reading(instead: Mapping[str, bytes] | None = None) -> Iterator[Reading]:
    """Note every file that is read, and let `instead` stand for the content of some."""
    found = Reading(instead or {})
    token = _current.set(found)
    try:
        yield found
    finally:
        _current.reset(token)


def taken(path: Path, data: bytes) -> bytes:
    """Return what is to be taken for the content of the file at `path`, which has just been read."""
    found = _current.get()
    if found is None:
        return data
    data = found.instead.get(os.path.realpath(path), data)
    found.files.setdefault(str(path), data)
    return data

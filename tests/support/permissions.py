"""Modes of files that count for root, too, as they do for a plain user."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_VERSION = 0x20080522
_OVERRIDE, _READ_SEARCH = 1, 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH of capabilities(7)."""


@contextmanager
def forbidden(path: Path, allowed: int = 0) -> Iterator[None]:
    """Take the rights to a file or a directory, but for the mode `allowed`, from this thread and those that it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(_VERSION, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    before, mode = sets[0], path.stat().st_mode
    path.chmod(allowed)
    sets[0] &= ~(1 << _OVERRIDE | 1 << _READ_SEARCH)
    assert libc.capset(header, sets) == 0
    try:
        yield
    finally:
        sets[0] = before
        assert libc.capset(header, sets) == 0
        path.chmod(mode)

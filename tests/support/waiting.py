"""Wait for a condition, with one time limit that no busy machine reaches."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.warm import AnyProcess

LONG = 600.0
"""Seconds."""
_SHARE, _LONGEST = 2, 2.0
"""A check that takes a second is asked again after `_SHARE` seconds, `_LONGEST` at most, and leaves the CPU to others."""


def started(pid: int) -> str:
    """Return when a process started, in ticks; an empty text once it is gone, and not yet for a zombie.

    A run of the tests starts so many processes that the number of one that has ended soon belongs to another.
    """
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def until(
    check: Callable[[], Any],
    what: str = "what is waited for",
    seconds: float = LONG,
    pause: float = 0.05,
    *,
    of: AnyProcess | None = None,
) -> Any:
    """Return the first true answer of `check`, which is asked every `pause` seconds, or less often if it takes long.

    Fails after `seconds`.

    Once the process `of` has ended, nothing that it does can happen any more: that fails at once, with what it printed.
    """
    deadline = time.monotonic() + seconds
    while True:
        begin, ended = time.monotonic(), of is not None and of.poll() is not None
        if answer := check():
            return answer
        assert not ended, f"it ended before: {what}\n{of.communicate()[0] if of else ''}"
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(max(pause, min(_SHARE * (time.monotonic() - begin), _LONGEST)))

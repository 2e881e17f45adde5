"""Waiting for what is to happen, with one limit that nothing reaches on a machine however busy."""

import time
from collections.abc import Callable
from typing import Any

LONG = 600.0
"""Seconds."""


def until(
    check: Callable[[], Any], what: str = "what is waited for", seconds: float = LONG, pause: float = 0.05
) -> Any:
    """Return the first true answer of `check`, which is asked every `pause` seconds; fail after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (answer := check()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(pause)
    return answer

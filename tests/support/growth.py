"""How the time of a piece of work grows with its size, which is the same on any machine."""

import time
from collections.abc import Callable

_SHORTEST = 0.002
"""CPU seconds below which clocks and caches decide."""
_TRIES = 10


def check_growth(few: Callable[[], object], many: Callable[[], object], below: float) -> None:
    """Raise AssertionError unless `many` takes less than `below` times the CPU time of `few`.

    A machine that shares its processors with others makes single times longer, and none shorter. So the shortest count,
    and both are measured again while the ratio is too large.
    """
    short = long = float("inf")
    for _ in range(_TRIES):
        short, long = min(short, _seconds(few)), min(long, _seconds(many))
        if long < below * max(_SHORTEST, short):
            return
    raise AssertionError(f"{long / max(_SHORTEST, short):.1f} times as long")


def _seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin

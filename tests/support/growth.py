"""How the time of a piece of work grows with its size, which is the same on any machine."""

import time
from collections.abc import Callable

_SHORTEST = 0.002
"""CPU seconds below which clocks and caches decide."""
_TIMES = 3


def growth(few: Callable[[], object], many: Callable[[], object]) -> float:
    """Return how many times as much CPU time `many` takes as `few`: the shortest of three times each.

    A machine that shares its processors with others makes one time longer, and none shorter.
    """
    return _shortest(many) / max(_SHORTEST, _shortest(few))


def _shortest(work: Callable[[], object]) -> float:
    return min(_seconds(work) for _ in range(_TIMES))


def _seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin

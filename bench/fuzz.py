"""Input that nobody would write, for as long as one likes: nothing but one line for each problem may come of it.

    python -m bench.fuzz [--minutes 10] [--seed N]

Ends with exit code 1 at the first input that does worse, or takes more than a second, and prints it.
"""

import argparse
import itertools
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, seed, settings

from tests.support.fuzz import ATTEMPTS, Attempt

from .measure import say

_AT_ONCE = 1000
"""Inputs of one kind before it is the next one's turn."""


@dataclass
class Tally:
    """How many inputs there were so far, and the CPU seconds of the slowest."""

    count: int = 0
    slowest: float = 0.0


def hunt(attempt: Attempt, number: int, directory: Path, end: float, tally: Tally) -> None:
    """Try inputs of one kind until there were enough or `end` has come; what is wrong with one is raised."""

    @seed(number)
    @settings(max_examples=_AT_ONCE, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(drawn=attempt.strategy)
    def attempts(drawn: Any) -> None:
        if time.monotonic() < end:
            tally.slowest = max(tally.slowest, attempt(drawn, directory))
            tally.count += 1

    attempts()


def main() -> None:
    """Hunt until the time is over."""
    parser = argparse.ArgumentParser(prog="python -m bench.fuzz", description="Input that nobody would write.")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long; %(default)s")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="where to begin; default: the time")
    given_ = parser.parse_args()
    end = time.monotonic() + 60 * given_.minutes
    tally = Tally()
    with tempfile.TemporaryDirectory() as name:
        for number in itertools.count(given_.seed):
            for kind, attempt in ATTEMPTS.items():
                if time.monotonic() >= end:
                    print(
                        f"{tally.count:,} inputs, the slowest {tally.slowest:.2f} s of CPU time; nothing but one line each"
                    )
                    return
                say(f"{kind}, seed {number}")
                hunt(attempt, number, Path(name) / "work", end, tally)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted")

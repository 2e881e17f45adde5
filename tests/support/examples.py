"""The number of examples per property, of Hypothesis or with a fixed seed: a third normally, all in `make matrix`."""

import os
from typing import Any

from hypothesis import settings

MATRIX = os.environ.get("TFPROV_TESTS_MATRIX") == "1"


def quick(count: int) -> int:
    """Return how many of `count` cases a test tries."""
    return count if MATRIX else -(-count // 3)


def examples(count: int, **others: Any) -> settings:
    """Return the settings of a test for which `count` examples are all, and what else it sets."""
    return settings(max_examples=quick(count), **others)

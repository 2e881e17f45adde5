"""Ids of runs: they sort by the time of their first start.

An id is the UTC second, and six hexadecimal digits: three for the 4,096th part of that second, so that runs which begin
within one second keep their order, and three random ones.
"""

import re
import secrets
import time

RUN_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]+", re.ASCII)
"""The form of an id."""
_SECOND = 10**9
_PARTS = 16**3


def new_run() -> str:
    """Return an id for a run that starts now."""
    return run_id(time.time_ns(), secrets.randbelow(_PARTS))


def run_id(nanoseconds: int, random: int) -> str:
    """Return the id of a run that starts `nanoseconds` after the epoch; `random` is below 4,096."""
    second, part = divmod(nanoseconds, _SECOND)
    return time.strftime("%Y%m%dT%H%M%SZ-", time.gmtime(second)) + f"{part * _PARTS // _SECOND:03x}{random:03x}"

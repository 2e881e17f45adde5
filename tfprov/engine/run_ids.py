"""Ids of runs: the UTC time of their first start, and six random digits."""

import re
import secrets
import time

RUN_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]+", re.ASCII)
"""The form of an id."""


def new_run() -> str:
    """Return an id for a run that starts now."""
    return time.strftime("%Y%m%dT%H%M%SZ-", time.gmtime()) + secrets.token_hex(3)

"""Times on the command line, as for `docker logs`: `10m`, `1h30m`, `2026-11-25T09:30`, or seconds since 1970."""

import math
import re
from datetime import datetime

from tfprov.errors import Usage, printable

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = r"(\d+(?:\.\d+)?)(ms|s|m|h|d)"
_DURATION = re.compile(rf"(?:{_PART})+", re.ASCII)
_SECONDS = re.compile(r"\d{1,12}(?:\.\d{1,9})?", re.ASCII)
_FIX = "write a duration such as `10m`, or a time such as `2026-11-25T09:30` or `2026-11-25T09:30:00Z`"


def parse_moment(option: str, text: str, now: float) -> float:
    """Return the time in seconds since 1970: a duration before `now`, or a time, which is local without a zone.

    Raises Usage that names `option`.
    """
    if _DURATION.fullmatch(text):
        return max(0.0, now - sum(float(count) * _UNITS[unit] for count, unit in re.findall(_PART, text)))
    if _SECONDS.fullmatch(text) and len(text) > len("20261125"):  # a date may have eight digits
        return float(text)
    try:
        moment = datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        raise Usage(f"`{option} {printable(text)}` is no time", _FIX) from None
    return max(0.0, moment)


def parse_range(since: str | None, until: str | None, now: float) -> tuple[float | None, float | None]:
    """Return both ends of a range; Usage if it is empty."""
    begin = None if since is None else parse_moment("--since", since, now)
    end = None if until is None else parse_moment("--until", until, now)
    if begin is not None and end is not None and (begin >= end or math.isnan(begin + end)):
        raise Usage(f"`--since {printable(since)}` is not before `--until {printable(until)}`", "exchange the two")
    return begin, end

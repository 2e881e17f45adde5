"""Who a container runs as: a number or a name, with a group or without. Pure."""

import re
from typing import Any

from tfprov.model.checks import Wrong, said_text

_ID = "(?:[0-9]{1,10}|[A-Za-z_][A-Za-z0-9_.-]{0,31})"
PATTERN = f"^{_ID}(?::{_ID})?$"
MOST = 65534
"""The largest number of a user that Linux has by default without user namespaces."""


def user(value: Any) -> Any:
    """Check the user of a container."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= MOST:
            raise Wrong(f"must be from 0 to {MOST}, not {value}")
    elif value is not None and not (isinstance(value, str) and re.search(PATTERN, value)):
        raise Wrong(f"must be a number or a name, with a group after a colon or without, not {_given(value)}")
    return value


def _given(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return said_text(value) if isinstance(value, str) else f"a {type(value).__name__}"


def number_of(user: str | None) -> int | None:
    """Return the number of a user, without the group; None for a name, and for the user of the image."""
    first = (user or "").partition(":")[0]
    return int(first) if first.isdigit() else None

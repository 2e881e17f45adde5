"""JSON as `ansible-inventory` prints it, and data with numbers that JSON lacks."""

import json
import math
from typing import Any

_INDENT = "    "


def dumps(data: Any) -> str:
    """Return what `json.dumps(data, sort_keys=True, indent=4, ensure_ascii=False)` returns.

    An object that occurs several times is encoded once.
    """
    return _text(data, "\n", {})


def finite(data: Any) -> Any:
    """Return data with None in place of NaN and infinities, which JSON lacks: a loss may be one."""
    if isinstance(data, dict):
        return {key: finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _text(data: Any, line: str, known: dict[tuple[int, int], str]) -> str:
    """Return `data` as JSON. `line` is a line break with its indentation; `known` caches texts by id and depth."""
    if isinstance(data, dict | list | tuple) and data:
        place = id(data), len(line)
        if place not in known:
            known[place] = _collection(data, line, known)
        return known[place]
    return _single(data)


def _collection(
    data: "dict[str, Any] | list[Any] | tuple[Any, ...]", line: str, known: dict[tuple[int, int], str]
) -> str:
    below = line + _INDENT
    if isinstance(data, dict):
        inner = [f"{_single(key)}: {_text(data[key], below, known)}" for key in sorted(data)]
        return f"{{{below}{f',{below}'.join(inner)}{line}}}"
    return f"[{below}{f',{below}'.join(_text(item, below, known) for item in data)}{line}]"


_single = json.JSONEncoder(ensure_ascii=False).encode

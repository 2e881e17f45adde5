"""Names of many tasks and hosts as ranges: `worker/0-35`, `node[17:52]`. Pure."""

import re
from collections.abc import Iterable, Sequence

_FEW = 4
"""Ranges that are written out; the others are counted."""
_NUMBERED = re.compile(r"(?P<before>.*?)(?P<number>\d{1,18})(?P<after>\D*)", re.ASCII)


def ranges(indexes: Iterable[str], limit: int | None = None) -> str:
    """Return numbers as ranges: `0-35,40`; text that is no number is left out.

    With `limit`, only so many ranges are written, and the numbers of the others are counted: `0,2 and 48 more`.
    """
    parts = _runs({int(index) for index in indexes if index.isdecimal()})
    kept = parts if limit is None else parts[:limit]
    text = ",".join(_range(first, last, "-") for first, last in kept)
    return text + _more(sum(last - first + 1 for first, last in parts[len(kept) :]))


def host_names(hosts: Iterable[str]) -> str:
    """Return hosts as Ansible writes ranges, `node[17:52]`, where they are numbered; else a few, and how many more."""
    parts: list[list[str]] = []
    by_shape: dict[tuple[str, str | None], list[str]] = {}
    for name in sorted(set(hosts)):
        match = _NUMBERED.fullmatch(name)
        shape = (match["before"], match["after"]) if match else (name, None)
        if shape not in by_shape:
            by_shape[shape] = []
            parts.append(by_shape[shape])
        by_shape[shape].append(name)
    pieces = [piece for part in parts for piece in _pieces(part)]
    return ", ".join(text for text, _ in pieces[:_FEW]) + _more(sum(count for _, count in pieces[_FEW:]))


def _pieces(names: Sequence[str]) -> list[tuple[str, int]]:
    """Return names that differ in one number as one range, with their count; each by itself if the range would be wrong."""
    matches = [match for name in names if (match := _NUMBERED.fullmatch(name))]
    texts = [match["number"] for match in matches]
    padded = any(text.startswith("0") and text != "0" for text in texts)
    if len(names) == 1 or (padded and len({len(text) for text in texts}) > 1):
        return [(name, 1) for name in names]
    width = len(texts[0]) if padded else 0
    runs = _runs({int(text) for text in texts})
    colon = ":" if len(runs) == 1 else "-"
    inside = ",".join(_range(first, last, colon, width) for first, last in runs[:_FEW])
    inside += _more(sum(last - first + 1 for first, last in runs[_FEW:]))
    return [(f"{matches[0]['before']}[{inside}]{matches[0]['after']}", len(names))]


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and the last of each run of consecutive numbers."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def _range(first: int, last: int, between: str, width: int = 0) -> str:
    return f"{first:0{width}}" if first == last else f"{first:0{width}}{between}{last:0{width}}"


def _more(count: int) -> str:
    return f" and {count} more" if count else ""

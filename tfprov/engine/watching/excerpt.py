"""What of a failed task's log says why it failed: one whole traceback, in the user's own paths. Pure."""

import re
from collections.abc import Callable, Iterator, Sequence

from tfprov.hosts.crash import condensed, exception_at

LINES = 20
"""Lines that are shown of a log without a traceback, and of what follows the exception's line in one with."""
_WHOLE = 120
"""Lines of a traceback that are shown; of a longer one the middle is left out."""
_HEAD = 20
"""Lines before what is left out."""
_LONGEST = 300
"""Characters of a line that are shown; TensorFlow prints whole tensors in one."""
_VALUES = 3
"""Lines of nothing but values that are shown as they are; of more only the first."""
_NUMERIC = re.compile(r"[\d\s\[\](){},.:+\-]|e[+-]\d|nan|inf")
_BEGINS = re.compile(r"[\d\[({.+\-]|nan|inf")
_MOSTLY = 0.8


def excerpt(lines: Sequence[str]) -> list[str]:
    """Return the last traceback in `lines`, with the exceptions that led to it, or else the last lines; shortened."""
    where = exception_at(lines)
    if where is None:
        return _once(shortened(lines))[-LINES:]
    begin, at = where
    shown = [*shortened(lines[begin : at + 1]), *shortened(lines[at + 1 :])[:LINES]]
    if len(shown) <= _WHOLE:
        return shown
    left_out = len(shown) - _WHOLE
    return [*shown[:_HEAD], f"… ({left_out} lines left out)", *shown[_HEAD + left_out :]]


def shortened(lines: Sequence[str]) -> list[str]:
    """Return `lines` without the values of tensors: a block of them keeps its first line, a long line its begin."""
    return [_cut(condensed(line)) for line in _without_values(lines)]


def _once(lines: list[str]) -> list[str]:
    """Return `lines` without what their last lines repeat: a task that was started again says the same once more."""
    for size in range(1, min(LINES, len(lines) // 2) + 1):
        while lines[-size:] == lines[-2 * size : -size]:
            lines = lines[:-size]
    return lines


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}… ({len(line) - _LONGEST} more characters)"


def _without_values(lines: Sequence[str]) -> Iterator[str]:
    block: list[str] = []
    for line in lines:
        if _is_values(line):
            block.append(line)
            continue
        yield from _condensed(block)
        block = []
        yield line
    yield from _condensed(block)


def _condensed(block: list[str]) -> list[str]:
    return block if len(block) <= _VALUES else [block[0], f"… ({len(block) - 1} lines of values)"]


def _is_values(line: str) -> bool:
    text = line.strip()
    numeric = sum(len(match[0]) for match in _NUMERIC.finditer(text))
    return bool(_BEGINS.match(text)) and any(c.isdigit() for c in text) and numeric >= _MOSTLY * len(text)


def in_own_paths(task: str, directory: str, *, in_container: bool) -> Callable[[str], str]:
    """Return what puts the user's `directory` into a line, in place of the copy of it that `task` runs."""
    work = rf"[^\s\"'(]*/tasks/{re.escape(task.replace('/', '-'))}/work"
    copy = re.compile(r"(?<![\w./-])/code(?=/)" if in_container else rf"{work}(?=/)")
    return lambda line: copy.sub(lambda _: directory, line)

"""Whether an edit may be made: what it would make wrong that was not wrong before."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tfprov.config.text.syntax import BREAK
from tfprov.errors import Problem

_LINE = re.compile(r"line \d+")
NOT_MADE = "(after the edit, which was not made)"

Texts = Mapping[str, tuple[str, str]]
"""The text of every file that an edit changes, before and after, by its name."""


def caused(before: Sequence[Problem], after: Sequence[Problem], texts: Texts) -> list[Problem]:
    """Return the problems of `after` that are the edit's own doing.

    Those that were there before are not, wherever they stand by now. An edit that mends something may bring others to
    light, which were not looked for before: then those on the lines it wrote are its own.
    """
    known = Counter(map(_key, before))
    new = []
    for problem in after:
        if known[_key(problem)]:
            known[_key(problem)] -= 1
        else:
            new.append(problem)
    if +known:
        new = [problem for problem in new if _is_written(problem, texts)]
    return [replace(problem, fix=f"{problem.fix} {NOT_MADE}".lstrip()) for problem in new]


def _key(problem: Problem) -> tuple[str, str, str]:
    return problem.at.file, _LINE.sub("line", problem.what), _LINE.sub("line", problem.fix)


def _is_written(problem: Problem, texts: Texts) -> bool:
    if problem.at.file not in texts:
        return False
    first, last = written_lines(*texts[problem.at.file])
    return first <= problem.at.line <= last


def written_lines(before: str, after: str) -> tuple[int, int]:
    """Return the first and the last line of `after` that `before` does not have at its place."""
    old, new = BREAK.split(before), BREAK.split(after)
    same = next(
        (n for n, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), min(len(old), len(new))
    )
    most = min(len(old), len(new)) - same
    behind = zip(reversed(old), reversed(new), strict=False)
    alike = next((n for n, (one, other) in enumerate(behind) if n >= most or one != other), most)
    return same + 1, len(new) - alike

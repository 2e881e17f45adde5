"""Host ranges, as Ansible writes them: `node[1:3]`, `www[01:50:2].example.com`, `db-[a:f]`, several in one name."""

import itertools
import re
import string

from tfprov.errors import shown

_NUMBER = re.compile(r"[0-9]{1,18}\Z")  # not isdigit(), which is true of `²`, of which int() knows nothing
_RANGE = re.compile(r"\[([^\[\]]*)\]")
MAX_HOSTS = 100_000


class RangeError(ValueError):
    """A range that cannot be counted through."""


def expand(pattern: str) -> list[str]:
    """Return the names `pattern` stands for; the pattern itself where it holds no range. Both ends are included."""
    pieces = _RANGE.split(pattern)
    if "[" in "".join(pieces[::2]) or "]" in "".join(pieces[::2]):
        raise RangeError(f"unbalanced brackets in `{shown(pattern)}`")
    choices = [_count(piece) if number % 2 else [piece] for number, piece in enumerate(pieces)]
    size = 1
    for choice in choices:
        size *= len(choice)
    if size > MAX_HOSTS:
        raise RangeError(f"`{shown(pattern)}` stands for {size:,} hosts, more than {MAX_HOSTS:,}")
    return ["".join(parts) for parts in itertools.product(*choices)]


def _count(text: str) -> list[str]:
    first, colon, rest = text.partition(":")
    last, _, stride = rest.partition(":")
    if not colon or not last:
        raise RangeError(f"`[{shown(text)}]` is not a range")
    if stride and (not _NUMBER.match(stride) or int(stride) == 0):
        raise RangeError(f"the step of `[{shown(text)}]` must be a whole number above 0")
    step = int(stride or 1)
    if (_NUMBER.match(first) or not first) and _NUMBER.match(last):
        return _numbers(first or "0", last, step, text)
    letters = string.ascii_letters
    if len(first) == len(last) == 1 and first in letters and last in letters:
        return _ordered(list(letters[letters.index(first) : letters.index(last) + 1 : step]), text)
    raise RangeError(f"`[{shown(text)}]` must count from a number to a number, or from a letter to a letter")


def _numbers(first: str, last: str, step: int, text: str) -> list[str]:
    if int(last) - int(first) > MAX_HOSTS:
        raise RangeError(f"`[{shown(text)}]` stands for more than {MAX_HOSTS:,} hosts")
    width = len(first) if first.startswith("0") and len(first) > 1 else 0
    if width and width != len(last):
        raise RangeError(
            f"both ends of `[{shown(text)}]` must have the same number of digits, because the first starts with 0"
        )
    return _ordered([str(number).zfill(width) for number in range(int(first), int(last) + 1, step)], text)


def _ordered(names: list[str], text: str) -> list[str]:
    if not names:
        raise RangeError(f"`[{shown(text)}]` counts backwards and stands for no host")
    return names

"""Host ranges, as Ansible writes them: `node[1:3]`, `www[01:50:2].example.com`, `db-[a:f]`, several in one name."""

import itertools
import re
import string
from typing import Any

from tfprov.errors import shown
from tfprov.model.node import Scalar

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
    choices = [_expand_piece(piece) if number % 2 else [piece] for number, piece in enumerate(pieces)]
    size = 1
    for choice in choices:
        size *= len(choice)
    if size > MAX_HOSTS:
        raise RangeError(f"`{shown(pattern)}` stands for {size:,} hosts, more than {MAX_HOSTS:,}")
    return ["".join(parts) for parts in itertools.product(*choices)]


def _expand_piece(text: str) -> list[str]:
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
        return _require_names(list(letters[letters.index(first) : letters.index(last) + 1 : step]), text)
    raise RangeError(f"`[{shown(text)}]` must count from a number to a number, or from a letter to a letter")


def _numbers(first: str, last: str, step: int, text: str) -> list[str]:
    if int(last) - int(first) > MAX_HOSTS:
        raise RangeError(f"`[{shown(text)}]` stands for more than {MAX_HOSTS:,} hosts")
    width = len(first) if first.startswith("0") and len(first) > 1 else 0
    if width and width != len(last):
        raise RangeError(
            f"both ends of `[{shown(text)}]` must have the same number of digits, because the first starts with 0"
        )
    return _require_names([str(number).zfill(width) for number in range(int(first), int(last) + 1, step)], text)


def _require_names(names: list[str], text: str) -> list[str]:
    if not names:
        raise RangeError(f"`[{shown(text)}]` counts backwards and stands for no host")
    return names


_NAME = re.compile(r"[A-Za-z0-9_\u0080-\U0010ffff][A-Za-z0-9_.\u0080-\U0010ffff-]*\Z")
_MAX_BYTES = 253
"""A host's name is also the name of a directory, which no file system allows to be longer than 255 bytes."""
_GROUP = re.compile(r"\w(?:[\w. @+-]{0,251}[\w.@+-])?\Z")
"""A group's name is the name of a file in group_vars, and stands in patterns, where some marks mean something."""
_IN_BRACKETS = re.compile(r"\[(.+)\]:([0-9]+)\Z")
_WITH_PORT = re.compile(r"((?:[^:\[\]]|\[[^\]]*\])*):([0-9]+)\Z")
_SEPARATORS = re.compile(r"[\s,;]+")


def split_port(text: str) -> tuple[str, int | None]:
    """Return a host's name, or its pattern, and the port behind it: `node[1:3]:2222`, or `[fd00::1]:2222`."""
    port = None
    for form in (_IN_BRACKETS, _WITH_PORT):
        if found := form.match(text):
            text, port = found[1], int(found[2][:9])
    return text, port


def check_name(kind: str, key: Scalar, name: str | None = None) -> tuple[str, str] | None:
    """Return what is wrong with the name of a host or a group and what to do about it, or None.

    `kind` is "host" or "group"; `name` is the one to judge where what was written stands for other names.
    """
    text = shown(key.text) or "''"
    if not isinstance(key.data, str):
        what = f"{kind} name `{text}` is read by YAML as {_type_name(key.data)}, not as text"
        return what, f'quote it: "{text}"' if key.text else "write a name"
    judged = key.text if name is None else name
    if _is_name(judged) or (_GROUP.match(judged) if kind == "group" else ":" in judged and _is_address(judged)):
        return None
    return f"{kind} name `{text}` is not valid", _name_fix(kind, key.text)


def _is_name(text: str) -> bool:
    return bool(_NAME.match(text)) and text.isprintable() and len(text.encode(errors="replace")) <= _MAX_BYTES


def _is_address(text: str) -> bool:
    from ipaddress import IPv6Address  # noqa: PLC0415  hardly anybody calls a host so, and it takes a while to import

    try:
        return bool(IPv6Address(text))
    except ValueError:
        return False


def _name_fix(kind: str, text: str) -> str:
    if kind == "host" and "@" in text:
        return "give the user as `ansible_user`, and the address as `ansible_host`"
    if "{{" in text:
        return "write it out: names are no templates"
    if kind == "host" and len(_SEPARATORS.split(text)) > 1:
        return "write each host on a line of its own, with a `:` behind it"
    return "use at most 253 letters, digits, `-`, `_` and `.`, beginning with a letter or a digit"


def _type_name(data: Any) -> str:
    if data is None or isinstance(data, bool):
        return "nothing" if data is None else "true or false"
    return "a number" if isinstance(data, int | float) else "a date"

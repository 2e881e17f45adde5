"""Names of hosts and groups, Ansible's host ranges, `node[1:3]` and `db-[a:f]`, and machines as SSH names them."""

import itertools
import re
import string
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Any

from tfprov.errors import Usage, printable
from tfprov.model.yaml_node import NOWHERE, Scalar

_NUMBER = re.compile(r"[0-9]{1,18}\Z")  # not isdigit(), which accepts `²`; int() does not
_RANGE = re.compile(r"\[([^\[\]]*)\]")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
MAX_HOSTS = 100_000


class NameKind(StrEnum):
    """Whose name it is; the value is the word in messages."""

    HOST = auto()
    GROUP = auto()


class RangeError(ValueError):
    """A malformed host range."""


def expand(pattern: str) -> list[str]:
    """Return the host names of `pattern`, which may have several ranges; both ends are included."""
    pieces = _RANGE.split(pattern)
    if not {"[", "]"}.isdisjoint(_RANGE.sub("", pattern)):
        raise RangeError(f"unbalanced brackets in `{printable(pattern)}`")
    choices = [_expand_piece(piece) if number % 2 else [piece] for number, piece in enumerate(pieces)]
    size = 1
    for choice in choices:
        size *= len(choice)
    if size > MAX_HOSTS:
        raise RangeError(f"`{printable(pattern)}` stands for {size:,} hosts, more than {MAX_HOSTS:,}")
    return ["".join(parts) for parts in itertools.product(*choices)]


def _expand_piece(text: str) -> list[str]:
    first, colon, rest = text.partition(":")
    last, _, stride = rest.partition(":")
    if not colon or not last:
        raise RangeError(f"`[{printable(text)}]` is not a range")
    if stride and (not _NUMBER.match(stride) or int(stride) == 0):
        raise RangeError(f"the step of `[{printable(text)}]` must be a whole number above 0")
    step = int(stride or 1)
    if (_NUMBER.match(first) or not first) and _NUMBER.match(last):
        return _numbers(first or "0", last, step, text)
    letters = string.ascii_letters
    if len(first) == len(last) == 1 and first in letters and last in letters:
        return _require_names(list(letters[letters.index(first) : letters.index(last) + 1 : step]), text)
    raise RangeError(f"`[{printable(text)}]` must count from a number to a number, or from a letter to a letter")


def _numbers(first: str, last: str, step: int, text: str) -> list[str]:
    if int(last) - int(first) > MAX_HOSTS:
        raise RangeError(f"`[{printable(text)}]` stands for more than {MAX_HOSTS:,} hosts")
    width = len(first) if first.startswith("0") and len(first) > 1 else 0
    if width and width != len(last):
        raise RangeError(
            f"both ends of `[{printable(text)}]` must have the same number of digits, because the first starts with 0"
        )
    return _require_names([str(number).zfill(width) for number in range(int(first), int(last) + 1, step)], text)


def _require_names(names: list[str], text: str) -> list[str]:
    if not names:
        raise RangeError(f"`[{printable(text)}]` counts backwards and stands for no host")
    return names


_NAME = re.compile(r"[A-Za-z0-9_\u0080-\U0010ffff][A-Za-z0-9_.\u0080-\U0010ffff-]*\Z")
_MAX_BYTES = 253
"""A host's name is also the name of a directory; file systems allow 255 bytes."""
_GROUP = re.compile(r"\w(?:[\w. @+-]{0,251}[\w.@+-])?\Z")
"""A group's name is also the name of a file in group_vars, and a word of host patterns."""
_IN_BRACKETS = re.compile(r"\[(.+)\]:([0-9]+)\Z")
_WITH_PORT = re.compile(r"((?:[^:\[\]]|\[[^\]]*\])*):([0-9]+)\Z")
_SEPARATORS = re.compile(r"[\s,;]+")


def split_port(text: str) -> tuple[str, int | None]:
    """Split a host name or range from its port: `node[1:3]:2222`, or `[fd00::1]:2222`."""
    port = None
    for form in (_IN_BRACKETS, _WITH_PORT):
        if match := form.match(text):
            text, port = match[1], int(match[2][:9])
    return text, port


def check_name(kind: NameKind, key: Scalar, name: str | None = None) -> tuple[str, str] | None:
    """Return the problem and the fix of an invalid name of a host or group, or None.

    `name` is checked instead of `key` where `key` is a range.
    """
    if isinstance(key.data, str) and _is_valid(kind, key.text if name is None else name):
        return None
    text = printable(key.text) or "''"
    if isinstance(key.data, str):
        return f"{kind} name `{text}` is not valid", _name_fix(kind, key.text)
    what = f"{kind} name `{text}` is read by YAML as {_type_name(key.data)}, not as text"
    return what, f'quote it: "{text}"' if key.text else "write a name"


def _is_valid(kind: NameKind, name: str) -> bool:
    if _is_name(name):
        return True
    return bool(_GROUP.match(name)) if kind is NameKind.GROUP else ":" in name and _is_address(name)


def _is_name(text: str) -> bool:
    return bool(_NAME.match(text)) and text.isprintable() and len(text.encode(errors="replace")) <= _MAX_BYTES


def _is_address(text: str) -> bool:
    from ipaddress import IPv6Address  # noqa: PLC0415  slow to import, and rarely needed

    try:
        return bool(IPv6Address(text))
    except ValueError:
        return False


def _name_fix(kind: NameKind, text: str) -> str:
    if kind is NameKind.HOST and "@" in text:
        return "give the user as `ansible_user`, and the address as `ansible_host`"
    if "{{" in text:
        return "write it out: names are no templates"
    if kind is NameKind.HOST and len(_SEPARATORS.split(text)) > 1:
        return "write each host on a line of its own, with a `:` behind it"
    return "use at most 253 letters, digits, `-`, `_` and `.`, beginning with a letter or a digit"


def _type_name(data: Any) -> str:
    if data is None or isinstance(data, bool):
        return "nothing" if data is None else "true or false"
    return "a number" if isinstance(data, int | float) else "a date"


@dataclass(frozen=True)
class SshTarget:
    """A machine as SSH names it: `[user@]name[:port]`."""

    name: str
    user: str | None = None
    port: int | None = None


def read_machines(text: str) -> tuple[SshTarget, ...]:
    """Return the machines in a list such as `trainer@node1, node2:2200`; Raises Usage for an invalid name."""
    machines: list[SshTarget] = []
    for word in re.split(r"[\s,]+", text.strip()):
        if word:
            user, at, rest = word.rpartition("@")
            name, port = split_port(rest)
            wrong = check_name(NameKind.HOST, Scalar(name, NOWHERE, name))
            if wrong or (at and not _USER.fullmatch(user)) or not 1 <= (1 if port is None else port) <= 65535:
                raise Usage(f"`{printable(word)}` is no machine", "write `name`, `user@name` or `user@name:port`")
            machines.append(SshTarget(name, user or None, port))
    names = [machine.name for machine in machines]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise Usage(f"{printable(twice)} is set twice", "give every machine once")
    return tuple(machines)

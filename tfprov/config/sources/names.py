"""What hosts and groups may be called, and the port that a host's name may end with."""

import re
from typing import Any

from tfprov.errors import shown
from tfprov.model.node import Scalar

_NAME = re.compile(r"[A-Za-z0-9_\u0080-\U0010ffff][A-Za-z0-9_.\u0080-\U0010ffff-]*\Z")
_MAX_BYTES = 253
"""A host's name is also the name of a directory, which no file system allows to be longer than 255 bytes."""
_GROUP = re.compile(r"\w(?:[\w. @+-]{0,251}[\w.@+-])?\Z")
"""A group's name is the name of a file in group_vars, and stands in patterns, where some marks mean something."""
_IN_BRACKETS = re.compile(r"\[(.+)\]:([0-9]+)\Z")
_WITH_PORT = re.compile(r"((?:[^:\[\]]|\[[^\]]*\])*):([0-9]+)\Z")
_SEPARATORS = re.compile(r"[\s,;]+")


def without_port(text: str) -> tuple[str, int | None]:
    """Return a host's name, or its pattern, and the port behind it: `node[1:3]:2222`, or `[fd00::1]:2222`."""
    port = None
    for form in (_IN_BRACKETS, _WITH_PORT):
        if found := form.match(text):
            text, port = found[1], int(found[2][:9])
    return text, port


def wrong_name(kind: str, key: Scalar, name: str | None = None) -> tuple[str, str] | None:
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
    return f"{kind} name `{text}` is not valid", _valid_name(kind, key.text)


def _is_name(text: str) -> bool:
    return bool(_NAME.match(text)) and text.isprintable() and len(text.encode(errors="replace")) <= _MAX_BYTES


def _is_address(text: str) -> bool:
    from ipaddress import IPv6Address  # noqa: PLC0415  hardly anybody calls a host so, and it takes a while to import

    try:
        return bool(IPv6Address(text))
    except ValueError:
        return False


def _valid_name(kind: str, text: str) -> str:
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

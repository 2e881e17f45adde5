"""What a single setting may be: checks that say what is wrong, and where the example would not help, what to do."""

import re
from ipaddress import ip_address
from typing import Any

from pydantic import AfterValidator

from tfprov.errors import shown

_SYSTEM = ("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "sbin", "sys")
"""Nothing may be put anywhere in these."""
_SHARED_BY_ALL = ("home", "media", "mnt", "opt", "root", "run", "srv", "tmp", "usr", "var")
"""Nothing may be put directly into these: the chief's directory is emptied with the task."""
_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*")


class Wrong(ValueError):
    """A value that cannot be, with a fix of its own; without one, the setting's example is shown."""

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what)
        self.fix = fix


def matching(pattern: str, form: str) -> AfterValidator:
    """Check that a text is of a `form` that `pattern` describes."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise Wrong(f"must be {form}, not {_said(value)}")
        return value

    return AfterValidator(check)


def named(kind: str, pattern: str, fix: str, reserved: str) -> AfterValidator:
    """Check the key of a mapping; what matches `reserved` is tfprov's own."""

    def check(name: str) -> str:
        if re.fullmatch(reserved, name):
            raise Wrong("is set by tfprov for every task", "remove it")
        if not re.fullmatch(pattern, name):
            bare = name.lstrip("-")
            dashes = bare != name and re.fullmatch(pattern, bare)
            raise Wrong(f"is not the name of {kind}", f"write `{shown(bare)}`, without dashes" if dashes else fix)
        return name

    return AfterValidator(check)


def _said(value: str) -> str:
    return f"`{shown(value)}`" if value else "an empty text"


def one_line(value: str) -> str:
    """Check that a text can be a word of a command line."""
    if "\0" in value:
        raise Wrong("must not hold a null byte", "remove it")
    if any(mark in value for mark in "\n\r"):
        raise Wrong("must be one line", "remove the line break")
    if any("\ud800" <= c <= "\udfff" for c in value):
        raise Wrong("must be text that UTF-8 can hold")
    return value


def path(value: str) -> str:
    """Check a path on the controller."""
    if not value.strip():
        raise Wrong("must not be empty")
    if value.startswith("~") and not value.startswith("~/") and value != "~":
        raise Wrong(f"must not begin with another user's home directory, as in `{shown(value)}`")
    return value


def program(value: list[str]) -> list[str]:
    """Check a command."""
    if not value[0].strip():
        raise Wrong("must begin with a program")
    return value


def whole_number(value: Any) -> Any:
    """Say it in one way for all numbers: pydantic has two messages for 2.5 and 2.0."""
    if isinstance(value, float) and not value.is_integer():
        raise Wrong(f"must be a whole number, not {value}")
    return value


def absolute_apart(value: str) -> str:
    """Check a directory of its own on a host."""
    if not value.startswith("/"):
        raise Wrong(f"must be an absolute path, not {_said(value)}")
    if ".." in value.split("/"):
        raise Wrong("must not contain `..`")
    parts = [part for part in value.split("/") if part not in ("", ".")]
    if not parts or parts[0] in _SYSTEM or (len(parts) == 1 and parts[0] in _SHARED_BY_ALL):
        raise Wrong(f"must not be the system's own directory `{shown(value)}`")
    return value


def wrong_address(value: str) -> str | None:
    """Say why other hosts cannot reach a task at `value`, or return None when it is a host name or an IPv4 address."""
    if len(value) > 253 or not _HOST_NAME.fullmatch(value):
        return f"must be a host name or an IPv4 address, not {_said(value)}"
    if not value.replace(".", "").isdigit():
        return None
    try:
        number = ip_address(value)
    except ValueError:
        return f"must be a host name or an IPv4 address, not {_said(value)}"
    if number.is_unspecified or number.is_multicast or number.is_reserved:
        return f"must be an address that other hosts can reach, not {_said(value)}"
    return None


def address(value: str) -> str:
    """Check an address under which other hosts reach this one."""
    if reason := wrong_address(value):
        raise Wrong(reason)
    return value

"""Parsers of Ansible's connection variables. Each raises InvalidValue with the message and the fix."""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from tfprov.errors import printable
from tfprov.model.validators import InvalidValue, address_error
from tfprov.settings.pydantic_errors import describe_value
from tfprov.vault.redaction import SECRETS

# Of several names for one value, the last one that is set wins, as in Ansible.
ADDRESSES = ("ansible_host", "ansible_ssh_host")
PORTS = ("ansible_port", "ansible_ssh_port")
USERS = ("ansible_user", "ansible_ssh_user")
KEY_FILES = ("ansible_private_key_file", "ansible_ssh_private_key_file")
TIMEOUTS = ("ansible_timeout", "ansible_ssh_timeout")
ARGS = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")
_LONGEST_TIMEOUT = 3600
_TRUE, _FALSE = ("y", "yes", "on", "1", "true", "t"), ("n", "no", "off", "0", "false", "f")
"""Ansible's words for booleans, in any case."""


def _whole_number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 6 else value


def parse_port(name: str, value: Any) -> int:
    """Parse a port."""
    number = _whole_number(value)
    if isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= 65535:
        return number
    raise InvalidValue(
        f"`{name}` must be a port from 1 to 65535, not {describe_value(value)}", f"for example `{name}: 22`"
    )


def parse_seconds(name: str, value: Any) -> float:
    """Parse a time in whole seconds."""
    number = _whole_number(value)
    if isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= _LONGEST_TIMEOUT:
        return float(number)
    what = f"`{name}` must be a number of seconds from 1 to {_LONGEST_TIMEOUT}, not {describe_value(value)}"
    raise InvalidValue(what, f"for example `{name}: 10`")


def parse_boolean(name: str, value: Any) -> bool:
    """Parse a boolean, as Ansible does."""
    if isinstance(value, bool | int | float) and value in (0, 1):
        return bool(value)
    if isinstance(value, str) and value.strip().lower() in (*_TRUE, *_FALSE):
        return value.strip().lower() in _TRUE
    raise InvalidValue(f"`{name}` must be true or false, not {describe_value(value)}", f"for example `{name}: true`")


def parse_text(name: str, value: Any) -> str:
    """Parse a text that may have blanks."""
    if not isinstance(value, str) or not value:
        raise InvalidValue(f"`{name}` must be text, not {describe_value(value)}", "write a name, or quote it")
    if "\0" in value or "\n" in value.strip("\n"):
        raise InvalidValue(f"`{name}` must be one line", "remove the line break")
    return value


def parse_arguments(name: str, value: Any) -> str:
    """Parse arguments of a program; an empty text overrides those of a parent group."""
    return value if value == "" else parse_text(name, value)


def parse_word(name: str, value: Any) -> str:
    """Parse a text without blanks, which no program takes for an option."""
    word = parse_text(name, value)
    if any(c.isspace() or not c.isprintable() for c in word) or word.startswith("-"):
        raise InvalidValue(f"`{name}: {printable(word)}` holds a blank or starts with a dash", "correct it")
    return word


def parse_connection_type(name: str, value: Any) -> str:
    """Parse the connection type: `ssh` or `local`."""
    connection_type = parse_text(name, value)
    if connection_type not in ("local", "ssh"):
        raise InvalidValue(f"`{name}: {printable(connection_type)}` is not supported", "use `local` or `ssh`")
    return connection_type


def parse_host(name: str, value: Any) -> str:
    """Parse an address; IPv6 is allowed for SSH."""
    setting = f"`{name}: {printable(value)}`"
    if "@" in parse_text(name, value):
        raise InvalidValue(f"{setting} holds a user", "give the user as `ansible_user`")
    address = parse_word(name, value)
    if address.count(":") == 1:
        raise InvalidValue(f"{setting} holds a port", "give the port as `ansible_port`")
    if ":" not in address and (reason := address_error(address)):
        raise InvalidValue(f"`{name}` {reason}", "for example `ansible_host: 10.0.0.11`")
    return address


def parse_password(name: str, value: Any) -> str:
    """Parse a password; errors never repeat it."""
    if not isinstance(value, str) or not value:
        kind = next((word for types, word in _TYPES.items() if isinstance(value, types)), "date")
        actual = "an empty text" if value == "" else "nothing" if value is None else f"a {kind}"
        is_single = isinstance(value, bool | int | float | date)
        raise InvalidValue(
            f"`{name}` must be text, not {actual}", "quote it" if is_single else "write the password, or remove it"
        )
    if any(mark in value for mark in "\0\r\n"):
        raise InvalidValue(f"`{name}` must be one line", "remove the line break")
    return value


def expand_path(text: str) -> Path:
    """Return a path with `~` expanded; a relative one is relative to the working directory, as in Ansible."""
    try:
        return Path(text).expanduser()
    except RuntimeError:  # no such user
        return Path(text)


def check_key_file(name: str, path: str) -> None:
    """Check that `path` is a readable private key; `name` is the variable in messages."""
    file, setting = expand_path(path), f"`{name}`: `{printable(path)}`"
    try:
        exists, is_file = file.exists(), file.is_file()
    except OSError:  # a name that is too long, or a directory that may not be searched
        exists, is_file = True, True
    if not exists:
        raise InvalidValue(f"{setting} does not exist", "correct the path")
    if not is_file:
        raise InvalidValue(f"{setting} is not a file", "name the file with the private key")
    if not os.access(file, os.R_OK):
        raise InvalidValue(f"{setting} cannot be read", "allow it with chmod, or name another key")
    if file.suffix == ".pub":
        raise InvalidValue(f"{setting} is a public key", "name the private key beside it, without `.pub`")


_TYPES: dict[type, str] = {
    bool: "truth value",
    int: "number",
    float: "number",
    Sequence: "list",
    Mapping: "mapping",
}
"""Types in words. The order matters: a bool is an int."""

PARSERS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(ADDRESSES, parse_host),
    **dict.fromkeys(PORTS, parse_port),
    **dict.fromkeys(USERS, parse_word),
    "ansible_connection": parse_connection_type,
    **dict.fromkeys(KEY_FILES, parse_text),
    **dict.fromkeys(SECRETS, parse_password),
    **dict.fromkeys(TIMEOUTS, parse_seconds),
    **dict.fromkeys(ARGS, parse_arguments),
    "ansible_become": parse_boolean,
    "ansible_become_method": parse_word,
    "ansible_become_user": parse_word,
}
"""The parser of every supported connection variable."""

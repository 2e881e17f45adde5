"""What a single setting may be: checks that say what is wrong, and where the example would not help, what to do."""

import re
from decimal import Decimal
from ipaddress import IPv4Address, ip_address
from typing import Any
from urllib.parse import urlsplit

from tfprov.errors import shown

SYSTEM = ("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "sbin", "sys")
"""Nothing may be put anywhere in these."""
SHARED_BY_ALL = ("home", "media", "mnt", "opt", "root", "run", "srv", "tmp", "usr", "var")
"""Nothing may be put directly into these: the chief's directory is emptied with the task."""
_MEMORY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([bkmg])", re.IGNORECASE)
_UNITS = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
LEAST_MEMORY = 6 << 20
"""Bytes: Docker starts nothing with less."""
_MOST_MEMORY = 1 << 50
"""Bytes: more than any machine has, and few enough for Docker's numbers."""
MOST_GPUS = 1024
_WEB = ("http://", "https://")
_SUMS = {32: "an MD5 sum", 40: "a SHA-1 sum", 56: "a SHA-224 sum", 96: "a SHA-384 sum", 128: "a SHA-512 sum"}
"""What a sum of so many hex digits probably is."""
_LONGEST_NAME = 200
"""Bytes: file systems have 255, and a file that is being fetched has a longer name."""
_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*")


class Wrong(ValueError):
    """A value that cannot be, with a fix of its own; without one, the setting's example is shown."""

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what)
        self.fix = fix


def said_text(value: str) -> str:
    """Return a text as a message repeats it."""
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
        raise Wrong(f"must be an absolute path, not {said_text(value)}")
    if ".." in value.split("/"):
        raise Wrong("must not contain `..`")
    parts = [part for part in value.split("/") if part not in ("", ".")]
    if not parts or parts[0] in SYSTEM or (len(parts) == 1 and parts[0] in SHARED_BY_ALL):
        raise Wrong(f"must not be the system's own directory `{shown(value)}`")
    return value


def wrong_address(value: str) -> str | None:
    """Say why other hosts cannot reach a task at `value`, or return None when it is a host name or an IPv4 address."""
    if len(value) > 253 or not _HOST_NAME.fullmatch(value):
        return f"must be a host name or an IPv4 address, not {said_text(value)}"
    if not value.replace(".", "").isdigit():
        return None
    try:
        number = ip_address(value)
    except ValueError:
        return f"must be a host name or an IPv4 address, not {said_text(value)}"
    if number.is_unspecified or number.is_multicast or number.is_reserved:
        return f"must be an address that other hosts can reach, not {said_text(value)}"
    return None


def address(value: str) -> str:
    """Check an address under which other hosts reach this one."""
    if reason := wrong_address(value):
        raise Wrong(reason)
    return value


def ip_v4(value: str) -> str:
    """Check an IPv4 address of a machine's own, or the one that stands for all of them."""
    try:
        number = IPv4Address(value)
    except ValueError:
        raise Wrong(f"must be an IPv4 address of the host, not {said_text(value)}") from None
    if number.is_multicast or number.is_reserved:
        raise Wrong(f"must be an address that a host can have, not {said_text(value)}")
    return value


def is_loopback(value: str) -> bool:
    """Whether `value` means another machine on every machine."""
    return value == "localhost" or value.startswith("127.")


def bytes_of(text: str) -> int:
    """Return the bytes that a size in Docker's form means: `512m`, `4g`, `1.5g`. ValueError where it is none."""
    found = _MEMORY.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no size")
    return int(Decimal(found[1]) * _UNITS[found[2].lower()])


def with_unit(value: Any) -> Any:
    """Check that an amount of memory is no bare number: `4` would be four bytes."""
    if isinstance(value, int | float):
        raise Wrong(f"must be a number and one of the units b, k, m and g, not {_given(value)}")
    return value


def memory(value: str) -> str:
    """Check an amount of memory."""
    try:
        amount = bytes_of(value)
    except ValueError:
        raise Wrong(f"must be a number and one of the units b, k, m and g, not {said_text(value)}") from None
    if amount < LEAST_MEMORY:
        raise Wrong(f"must be at least 6m, not {said_text(value)}")
    if amount > _MOST_MEMORY:
        raise Wrong(f"must be at most {_MOST_MEMORY >> 30}g, not {said_text(value)}")
    return value


def gpus(value: Any) -> Any:
    """Check a number of GPUs, or the word for all of them."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if value != "all" and not (is_number and 0 <= value <= MOST_GPUS):
        raise Wrong(f"must be `all` or a number from 0 to {MOST_GPUS}, not {_given(value)}")
    return value


def _given(value: object) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    if isinstance(value, str) and value.isdigit():
        return f'the text "{shown(value)}"'
    return "nothing" if value is None else said_text(str(value).lower() if isinstance(value, bool) else str(value))


def dockerfile(value: str) -> str:
    """Check the path of a Dockerfile in the directory that is built."""
    if not value.strip():
        raise Wrong("must not be empty")
    if value.startswith(("/", "~")) or ".." in value.split("/"):
        raise Wrong(f"must be a path inside the directory that `build` names, not {said_text(value)}")
    return value


def wiring(value: Any) -> Any:
    """Check that a wiring is one of two words, or the mapping that renames flags."""
    if isinstance(value, str | int | float | list | None) and value not in ("flags", "tf_config"):
        raise Wrong(f"must be `flags`, `tf_config` or a mapping, not {_given(value)}")
    return value


def no_checkpoints(value: Any) -> bool:
    """Whether the setting `checkpoints` is the word `none`; any other word is no mapping."""
    if isinstance(value, str) and value.strip() and value != "none":
        raise Wrong(
            f"must be `none` or a mapping, not {said_text(value)}", f"write `checkpoints: {{to: {shown(value)}}}`"
        )
    return bool(value == "none")


def no_short_data(value: Any) -> Any:
    """Say how data is written out."""
    if not isinstance(value, str) or not value.strip():
        return value
    if value.startswith(_WEB):
        fix = "write `data: {fetch: [{url: …, sha256: …}]}`"
    else:
        fix = f"write `data: {{path: {shown(value)}}}`"
    raise Wrong(f"must be a mapping, not {said_text(value)}", fix)


def data(value: str) -> str:
    """Check a directory with data."""
    path(value)
    if not value.startswith("/"):
        return value  # it counts from the file it is written in
    if not [part for part in value.split("/") if part not in ("", ".")]:
        raise Wrong("must not be the whole file system")
    if ".." in value.split("/"):
        raise Wrong("must not contain `..`")
    return value


def no_short_source(value: Any) -> Any:
    """Say how a file to fetch is written out: its sum is no less needed than where it is."""
    if not isinstance(value, str) or not value.startswith(_WEB):
        return value
    raise Wrong(f"must be a mapping, not {said_text(value)}", f"write `{{url: {shown(value)}, sha256: …}}`")


def no_short_list(value: Any) -> Any:
    """Say that what is fetched is a list, also of one file."""
    if not isinstance(value, dict | str):
        return value
    given = "a mapping" if isinstance(value, dict) else said_text(value)
    raise Wrong(f"must be a list, not {given}", "write `fetch: [{url: …, sha256: …}]`")


def web_address(value: str) -> str:
    """Check where a file is fetched from, as far as that can be known without asking."""
    if "@" in value.partition("//")[2].partition("/")[0]:
        raise Wrong("must not hold a user or a password", "give a `url` that needs none: an inventory is no safe")
    if not value.startswith(_WEB):
        raise Wrong(f"must begin with http:// or https://, not {said_text(value)}")
    if not value.isascii() or not value.isprintable() or " " in value:
        raise Wrong("must be plain ASCII without blanks", "write other characters as %XX, such as %20 for a blank")
    try:
        named = bool(urlsplit(value).hostname) and urlsplit(value).port != 0
    except ValueError:  # a port beyond 65535, or half an IPv6 address
        named = False
    if not named:
        raise Wrong(f"must name a host, and a port that can be, not {said_text(value)}")
    return value


def sha256(value: str) -> str:
    """Check the sum of a file, and return it as tools write it."""
    if re.fullmatch(r"[0-9a-fA-F]{64}", value):
        return value.lower()
    bare = value.rpartition(":")[2].strip()
    if re.fullmatch(r"[0-9a-fA-F]{64}", bare):
        raise Wrong("must be the 64 hex digits alone", f"write `sha256: {bare.lower()}`")
    other = _SUMS.get(len(value)) if re.fullmatch(r"[0-9a-fA-F]+", value) else None
    what = f"must be 64 hex digits, not {said_text(value)}{f', which looks like {other}' if other else ''}"
    raise Wrong(what, "take what `sha256sum FILE` prints")


def file_name(value: str) -> str:
    """Check the name of a file in a directory of tfprov's own, where names with a dot in front are half of a file."""
    if not value.strip() or value.startswith("."):
        raise Wrong(f"must be a name that does not begin with a dot, not {said_text(value)}")
    if "/" in value:
        raise Wrong(f"must be a name without `/`, not {said_text(value)}")
    if not value.isprintable():
        raise Wrong("must be printable")
    if len(value.encode()) > _LONGEST_NAME:
        raise Wrong(f"must not be longer than {_LONGEST_NAME} bytes")
    return value


def no_short_image(value: Any) -> Any:
    """Say how an image is written out: `image: repo:tag` is what other tools have."""
    if not isinstance(value, str) or not value.strip():
        return value
    kind = "build" if value.startswith((".", "/", "~")) else "name"
    raise Wrong(f"must be a mapping, not {said_text(value)}", f"write `image: {{{kind}: {shown(value)}}}`")


def no_short_mount(value: Any) -> Any:
    """Say how a mount is written out: `/data:/data:ro` is what Docker has."""
    if not isinstance(value, str) or ":" not in value:
        return value
    source, target, *options = value.split(":")
    written = "" if options == ["ro"] else ", read_only: false"
    fix = f"write `{{source: {shown(source)}, target: {shown(target)}{written}}}`"
    raise Wrong(f"must be a mapping, not {said_text(value)}", fix)


def host_directory(value: str) -> str:
    """Check a path on a host."""
    if not value.startswith("/"):
        raise Wrong(f"must be an absolute path, not {said_text(value)}")
    if ".." in value.split("/"):
        raise Wrong("must not contain `..`")
    return value

"""Validators of single settings, used by the pydantic models: each returns its value or raises InvalidValue."""

import re
from decimal import Decimal
from ipaddress import IPv4Address, ip_address
from typing import Any
from urllib.parse import urlsplit

from tfprov.errors import printable

SYSTEM_DIRECTORIES = ("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "sbin", "sys")
"""Top-level directories in which no setting may place anything."""
SHARED_DIRECTORIES = ("home", "media", "mnt", "opt", "root", "run", "srv", "tmp", "usr", "var")
"""Directories that may not be used themselves: the chief's directory is emptied with the task."""
_MEMORY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([bkmg])", re.IGNORECASE)
_UNITS = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
MIN_MEMORY = 6 << 20
"""Bytes: Docker starts nothing with less."""
_MAX_MEMORY = 1 << 50
"""Bytes: more than any machine has, and within the range of Docker's integers."""
MAX_GPUS = 1024
_WEB = ("http://", "https://")
_SUMS = {32: "an MD5 sum", 40: "a SHA-1 sum", 56: "a SHA-224 sum", 96: "a SHA-384 sum", 128: "a SHA-512 sum"}
"""The hash that a sum of this many hex digits probably is."""
_MAX_NAME = 200
"""Bytes: file systems allow 255, and a file being fetched has a suffix."""
_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*")


class InvalidValue(ValueError):
    """An invalid value. Without a `fix`, the error shows the setting's example."""

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what)
        self.fix = fix


def quote_value(value: str) -> str:
    """Return `value` in backticks for an error message."""
    return f"`{printable(value)}`" if value else "an empty text"


def check_one_line(value: str) -> str:
    """Check that a text can be an argument of a command line."""
    if "\0" in value:
        raise InvalidValue("must not hold a null byte", "remove it")
    if any(mark in value for mark in "\n\r"):
        raise InvalidValue("must be one line", "remove the line break")
    if any("\ud800" <= c <= "\udfff" for c in value):
        raise InvalidValue("must be text that UTF-8 can hold")
    return value


def check_path(value: str) -> str:
    """Check a path on the controller."""
    if not value.strip():
        raise InvalidValue("must not be empty")
    if value.startswith("~") and not value.startswith("~/") and value != "~":
        raise InvalidValue(f"must not begin with another user's home directory, as in `{printable(value)}`")
    return value


def check_command(value: list[str]) -> list[str]:
    """Check a command."""
    if not value[0].strip():
        raise InvalidValue("must begin with a program")
    return value


def refuse_fraction(value: Any) -> Any:
    """Refuse a fraction for a whole number; pydantic has different messages for 2.5 and 2.0."""
    if isinstance(value, float) and not value.is_integer():
        raise InvalidValue(f"must be a whole number, not {value}")
    return value


def check_directory(value: str) -> str:
    """Check an absolute directory on a host that is not one of the system's own."""
    if not value.startswith("/"):
        raise InvalidValue(f"must be an absolute path, not {quote_value(value)}")
    if ".." in value.split("/"):
        raise InvalidValue("must not contain `..`")
    parts = [part for part in value.split("/") if part not in ("", ".")]
    if not parts or parts[0] in SYSTEM_DIRECTORIES or (len(parts) == 1 and parts[0] in SHARED_DIRECTORIES):
        raise InvalidValue(f"must not be the system's own directory `{printable(value)}`")
    return value


def address_error(value: str) -> str | None:
    """Return why other hosts cannot reach a task at `value`; None for a host name or an IPv4 address."""
    if len(value) > 253 or not _HOST_NAME.fullmatch(value):
        return f"must be a host name or an IPv4 address, not {quote_value(value)}"
    if not value.replace(".", "").isdigit():
        return None
    try:
        number = ip_address(value)
    except ValueError:
        return f"must be a host name or an IPv4 address, not {quote_value(value)}"
    if number.is_unspecified or number.is_multicast or number.is_reserved:
        return f"must be an address that other hosts can reach, not {quote_value(value)}"
    return None


def check_address(value: str) -> str:
    """Check the address at which other hosts reach this one."""
    if reason := address_error(value):
        raise InvalidValue(reason)
    return value


def check_ipv4(value: str) -> str:
    """Check an IPv4 address to publish ports on; 0.0.0.0 is allowed."""
    try:
        number = IPv4Address(value)
    except ValueError:
        raise InvalidValue(f"must be an IPv4 address of the host, not {quote_value(value)}") from None
    if number.is_multicast or number.is_reserved:
        raise InvalidValue(f"must be an address that a host can have, not {quote_value(value)}")
    return value


def parse_size(text: str) -> int:
    """Return the bytes of a size in Docker's notation: `512m`, `4g`, `1.5g`. Raises ValueError for anything else."""
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a size")
    return int(Decimal(match[1]) * _UNITS[match[2].lower()])


def require_unit(value: Any) -> Any:
    """Refuse a bare number as an amount of memory: `4` would be four bytes."""
    if isinstance(value, int | float):
        raise InvalidValue(f"must be a number and one of the units b, k, m and g, not {_describe(value)}")
    return value


def check_memory(value: str) -> str:
    """Check an amount of memory."""
    try:
        amount = parse_size(value)
    except ValueError:
        raise InvalidValue(f"must be a number and one of the units b, k, m and g, not {quote_value(value)}") from None
    if amount < MIN_MEMORY:
        raise InvalidValue(f"must be at least 6m, not {quote_value(value)}")
    if amount > _MAX_MEMORY:
        raise InvalidValue(f"must be at most {_MAX_MEMORY >> 30}g, not {quote_value(value)}")
    return value


def check_gpus(value: Any) -> Any:
    """Check a number of GPUs, or `all`."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if value != "all" and not (is_number and 0 <= value <= MAX_GPUS):
        raise InvalidValue(f"must be `all` or a number from 0 to {MAX_GPUS}, not {_describe(value)}")
    return value


def _describe(value: object) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    if isinstance(value, str) and value.isdigit():
        return f'the text "{printable(value)}"'
    return "nothing" if value is None else quote_value(str(value).lower() if isinstance(value, bool) else str(value))


def check_dockerfile(value: str) -> str:
    """Check the path of a Dockerfile inside the build directory."""
    if not value.strip():
        raise InvalidValue("must not be empty")
    if value.startswith(("/", "~")) or ".." in value.split("/"):
        raise InvalidValue(f"must be a path inside the directory that `build` names, not {quote_value(value)}")
    return value


def check_wiring(value: Any) -> Any:
    """Check that `wiring` is `flags`, `tf_config` or a mapping."""
    if isinstance(value, str | int | float | list | None) and value not in ("flags", "tf_config"):
        raise InvalidValue(f"must be `flags`, `tf_config` or a mapping, not {_describe(value)}")
    return value


def is_none_word(value: Any) -> bool:
    """Whether `checkpoints` is the word `none`; raises InvalidValue for any other word."""
    if isinstance(value, str) and value.strip() and value != "none":
        fix = f"write `checkpoints: {{to: {printable(value)}}}`"
        raise InvalidValue(f"must be `none` or a mapping, not {quote_value(value)}", fix)
    return bool(value == "none")


def refuse_short_data(value: Any) -> Any:
    """Refuse a bare path or URL for `data`, and show the mapping to write."""
    if not isinstance(value, str) or not value.strip():
        return value
    if value.startswith(_WEB):
        fix = "write `data: {fetch: [{url: …, sha256: …}]}`"
    else:
        fix = f"write `data: {{path: {printable(value)}}}`"
    raise InvalidValue(f"must be a mapping, not {quote_value(value)}", fix)


def check_data_path(value: str) -> str:
    """Check a directory with training data."""
    check_path(value)
    if not value.startswith("/"):
        return value  # relative to the file it is written in
    if not [part for part in value.split("/") if part not in ("", ".")]:
        raise InvalidValue("must not be the whole file system")
    if ".." in value.split("/"):
        raise InvalidValue("must not contain `..`")
    return value


def refuse_short_source(value: Any) -> Any:
    """Refuse a bare URL: a file to fetch needs its sha256 as well."""
    if not isinstance(value, str) or not value.startswith(_WEB):
        return value
    raise InvalidValue(
        f"must be a mapping, not {quote_value(value)}", f"write `{{url: {printable(value)}, sha256: …}}`"
    )


def refuse_single_source(value: Any) -> Any:
    """Refuse a single file for `fetch`, which is a list."""
    if not isinstance(value, dict | str):
        return value
    kind = "a mapping" if isinstance(value, dict) else quote_value(value)
    raise InvalidValue(f"must be a list, not {kind}", "write `fetch: [{url: …, sha256: …}]`")


def check_url(value: str) -> str:
    """Check the syntax of a URL that hosts fetch from."""
    if "@" in value.partition("//")[2].partition("/")[0]:
        fix = "give a `url` that needs none: an inventory is no safe"
        raise InvalidValue("must not hold a user or a password", fix)
    if not value.startswith(_WEB):
        raise InvalidValue(f"must begin with http:// or https://, not {quote_value(value)}")
    if not value.isascii() or not value.isprintable() or " " in value:
        fix = "write other characters as %XX, such as %20 for a blank"
        raise InvalidValue("must be plain ASCII without blanks", fix)
    try:
        has_host = bool(urlsplit(value).hostname) and urlsplit(value).port != 0
    except ValueError:  # a port beyond 65535, or half an IPv6 address
        has_host = False
    if not has_host:
        raise InvalidValue(f"must name a host, and a port that can be, not {quote_value(value)}")
    return value


def check_sha256(value: str) -> str:
    """Check a SHA-256 in hex digits, and return it in lower case."""
    if re.fullmatch(r"[0-9a-fA-F]{64}", value):
        return value.lower()
    bare = value.rpartition(":")[2].strip()
    if re.fullmatch(r"[0-9a-fA-F]{64}", bare):
        raise InvalidValue("must be the 64 hex digits alone", f"write `sha256: {bare.lower()}`")
    other = _SUMS.get(len(value)) if re.fullmatch(r"[0-9a-fA-F]+", value) else None
    what = f"must be 64 hex digits, not {quote_value(value)}{f', which looks like {other}' if other else ''}"
    raise InvalidValue(what, "take what `sha256sum FILE` prints")


def check_file_name(value: str) -> str:
    """Check the name of a fetched file; names with a leading dot are reserved for partial files."""
    if not value.strip() or value.startswith("."):
        raise InvalidValue(f"must be a name that does not begin with a dot, not {quote_value(value)}")
    if "/" in value:
        raise InvalidValue(f"must be a name without `/`, not {quote_value(value)}")
    if not value.isprintable():
        raise InvalidValue("must be printable")
    if len(value.encode()) > _MAX_NAME:
        raise InvalidValue(f"must not be longer than {_MAX_NAME} bytes")
    return value


def refuse_short_image(value: Any) -> Any:
    """Refuse `image: repo:tag`, as other tools have it, and show the mapping to write."""
    if not isinstance(value, str) or not value.strip():
        return value
    kind = "build" if value.startswith((".", "/", "~")) else "name"
    raise InvalidValue(f"must be a mapping, not {quote_value(value)}", f"write `image: {{{kind}: {printable(value)}}}`")


def refuse_short_mount(value: Any) -> Any:
    """Refuse Docker's `/data:/data:ro`, and show the mapping to write."""
    if not isinstance(value, str) or ":" not in value:
        return value
    source, target, *options = value.split(":")
    written = "" if options == ["ro"] else ", read_only: false"
    fix = f"write `{{source: {printable(source)}, target: {printable(target)}{written}}}`"
    raise InvalidValue(f"must be a mapping, not {quote_value(value)}", fix)


def check_host_path(value: str) -> str:
    """Check an absolute path on a host."""
    if not value.startswith("/"):
        raise InvalidValue(f"must be an absolute path, not {quote_value(value)}")
    if ".." in value.split("/"):
        raise InvalidValue("must not contain `..`")
    return value

"""Types of texts under `tfprov:`, each with a description, a pattern for editors and a check."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from tfprov.errors import printable
from tfprov.filesystems import urls
from tfprov.model import validators
from tfprov.model.validators import InvalidValue, quote_value

MAX_IMAGE_NAME = 255
"""Maximum characters of registry and repository together."""

_DNS_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
_REGISTRY = re.compile(rf"(\[[0-9a-fA-F:]+\]|{_DNS_LABEL}(\.{_DNS_LABEL})*)(:[0-9]{{1,5}})?")
_PART = re.compile(r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")
_IMAGE_ID = re.compile(r"(sha256:)?[0-9a-f]{64}")
IMAGE_NAME_PATTERN = (
    rf"^(?!{_IMAGE_ID.pattern}$)(?:{_REGISTRY.pattern}/)?{_PART.pattern}(?:/{_PART.pattern})*"
    rf"(?::{_TAG.pattern})?(?:@(?:{_DIGEST.pattern}))?$"
)
"""Matches every image name, for editors; `check_image_name` is stricter."""


def check_image_name(value: str) -> str:
    """Check the name of an image in a registry. Raises InvalidValue."""
    if not value.strip():
        raise InvalidValue("must not be empty")
    name_text = f"`{printable(value)}`"
    if "://" in value:
        raise InvalidValue(f"must be the name of an image, not the URL {name_text}", "leave out what ends in `://`")
    if value.startswith((".", "/", "~")):
        raise InvalidValue(
            f"must be the name of an image, not the path {name_text}",
            "use `build` for a directory, `archive` for a file",
        )
    if _IMAGE_ID.fullmatch(value):
        raise InvalidValue("must be the name of an image in a registry, not the id of an image")
    rest, at, digest = value.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise InvalidValue(f"{name_text} has a digest that is not `sha256:` and 64 hexadecimal digits in lower case")
    name, colon, tag = rest.rpartition(":")
    if not colon or "/" in tag:  # that colon belongs to the registry's port
        name, tag = rest, "latest"
    if not _TAG.fullmatch(tag):
        fix = "use letters, digits, `_`, `.` and `-`, at most 128 of them"
        raise InvalidValue(f"{name_text} has {f'the tag `{printable(tag)}`' if tag else 'no tag behind its `:`'}", fix)
    if reason := _repository_error(name):
        raise InvalidValue(reason.format(name=name_text))
    return value


def _repository_error(name: str) -> str | None:
    first, slash, path = name.partition("/")
    in_registry = bool(slash) and ("." in first or ":" in first or first == "localhost")
    if in_registry and not _REGISTRY.fullmatch(first):
        return "{name} has a registry that is not `host` or `host:port`"
    path = path if in_registry else name
    if path != path.lower():
        return "must be in lower case up to the tag, not {name}"
    if not all(map(_PART.fullmatch, path.split("/"))):
        return "must be the name of an image in a registry, not {name}"
    return f"must be at most {MAX_IMAGE_NAME} characters long" if len(name) > MAX_IMAGE_NAME else None


def check_endpoint(value: str) -> str:
    """Check the address and port of a server outside of the cluster, with or without `grpc://`."""
    address, colon, port = value.removeprefix("grpc://").rpartition(":")
    if not colon or not re.fullmatch("[0-9]{1,5}", port) or not 1 <= int(port) <= 65535:
        raise InvalidValue(f"must be an address and a port, such as `10.0.0.20:5050`, not {quote_value(value)}")
    if reason := validators.address_error(address):
        raise InvalidValue(reason)
    return value


def refuse_short_data_service(value: Any) -> Any:
    """Refuse a bare address for `data_service`, and show the mapping to write."""
    if not isinstance(value, str) or not value.strip():
        return value
    fix = f"write `data_service: {{address: {printable(value)}}}`"
    raise InvalidValue(f"must be a mapping, not {quote_value(value)}", fix)


def check_checkpoint_dir(value: str) -> str:
    """Check an absolute directory on a host, or the URL of a directory on a remote file system."""
    if urls.scheme_of(value) is None:
        return validators.check_directory(value)
    if (problem := urls.url_problem(value)) is not None:
        raise InvalidValue(f"`{printable(urls.without_user(value))}`: {problem[0]}", problem[1])
    return value.rstrip("/")


def check_data_path(value: str) -> str:
    """Check a directory with training data: a path, or the URL of a directory on a remote file system."""
    if urls.scheme_of(value) is None:
        return validators.check_data_path(value)
    if (problem := urls.url_problem(value)) is not None:
        web = "use `fetch` with the `url` and `sha256` of each file"
        fix = web if urls.scheme_of(value) in ("http", "https", "ftp") else problem[1]
        raise InvalidValue(f"`{printable(urls.without_user(value))}`: {problem[0]}", fix)
    return value.rstrip("/")


_ID = "(?:[0-9]{1,10}|[A-Za-z_][A-Za-z0-9_.-]{0,31})"
USER_PATTERN = f"^{_ID}(?::{_ID})?$"
MAX_UID = 65534
"""The largest user id without user namespaces."""


def check_user(value: Any) -> Any:
    """Check the user that a container runs as."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= MAX_UID:
            raise InvalidValue(f"must be from 0 to {MAX_UID}, not {value}")
    elif value is not None and not (isinstance(value, str) and re.fullmatch(USER_PATTERN, value)):
        raise InvalidValue(f"must be a number or a name, with a group after a colon or without, not {_describe(value)}")
    return value


def _describe(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return quote_value(value) if isinstance(value, str) else f"a {type(value).__name__}"


def parse_uid(user: str | None) -> int | None:
    """Return the uid in a `user:` setting; None for a name, and for the image's own user."""
    first = (user or "").partition(":")[0]
    return int(first) if first.isdigit() else None


@dataclass(frozen=True)
class TextFormat:
    """A type of text: its description in `words`, a `pattern` for editors, and the `check` that decides.

    The pattern is a regular expression for `search`, in the syntax that Python and JavaScript share. Every text that
    passes the check matches it; a text that matches may still fail the check.
    """

    words: str
    pattern: str
    check: Callable[[str], str]

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Run the check after the validators before it."""
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Add the pattern, and the message that the YAML language server shows for a mismatch."""
        return {**handler(schema), "pattern": self.pattern, "patternErrorMessage": f"must be {self.words}"}


def pattern_format(pattern: str, words: str, fix: str = "") -> TextFormat:
    """Return the type of texts that match `pattern` as a whole; without a `fix`, errors show the setting's example."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise InvalidValue(f"must be {words}, not {quote_value(value)}", fix)
        return value

    return TextFormat(words, f"^(?:{pattern})$", check)


def key_format(kind: str, pattern: str, fix: str, reserved: str) -> TextFormat:
    """Return the type of a mapping's keys; names that match `reserved` are tfprov's own."""

    def check(name: str) -> str:
        if re.fullmatch(reserved, name):
            raise InvalidValue("is set by tfprov for every task", "remove it")
        if not re.fullmatch(pattern, name):
            bare = name.lstrip("-")
            has_dashes = bare != name and re.fullmatch(pattern, bare)
            raise InvalidValue(
                f"is not the name of {kind}", f"write `{printable(bare)}`, without dashes" if has_dashes else fix
            )
        return name

    return TextFormat(f"the name of {kind}", f"^(?!(?:{reserved})$)(?:{pattern})$", check)


def _check_link(value: str) -> str:
    """Check a path below the working directory of a task."""
    parts = value.strip().split("/")
    if value.startswith(("/", "~")) or ".." in parts:
        raise InvalidValue(f"must be a path below the working directory, not {quote_value(value)}")
    if not any(part.strip(".") for part in parts):
        raise InvalidValue("must name a directory")
    return value


_ONE_LINE = r"^(?![\s\S]*[\u0000\n\r])"
_NOTHING_ABOVE = r"(?![\s\S]*(?:^|/)\.\.(?:/|$))"
_NO_SYSTEM = (
    rf"(?!(?:/|\.(?=/|$))*(?:$|(?:{'|'.join(validators.SYSTEM_DIRECTORIES)})(?:/|$)"
    rf"|(?:{'|'.join(validators.SHARED_DIRECTORIES)})(?:/+\.?)*$))"
)
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IP_V4 = rf"(?:22[0-3]|2[01][0-9]|1[0-9][0-9]|[1-9]?[0-9])(?:\.{_BYTE}){{3}}"
_LABEL = "[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?"

LINE = TextFormat("one line", _ONE_LINE, validators.check_one_line)
PATH = TextFormat("a path", rf"{_ONE_LINE}(?!~[^/])\s*\S", validators.check_path)
DIRECTORY = TextFormat(
    "an absolute path, and none of the system's own directories",
    f"{_ONE_LINE}{_NOTHING_ABOVE}{_NO_SYSTEM}/",
    validators.check_directory,
)
CHECKPOINT_DIR = TextFormat(
    "an absolute path, and none of the system's own directories, or a URL with s3://, hdfs:// or gs://",
    f"(?:{_ONE_LINE}{_NOTHING_ABOVE}{_NO_SYSTEM}/|^{urls.PATTERN}$)",
    check_checkpoint_dir,
)
HOST_PATH = TextFormat("an absolute path", f"{_ONE_LINE}{_NOTHING_ABOVE}/", validators.check_host_path)
DATA = TextFormat(
    "a path, and not the whole file system, or a URL with s3://, hdfs:// or gs://",
    rf"{_ONE_LINE}(?!~[^/])(?!/(?:/|\.(?=/|$))*$)(?!/(?:[\s\S]*/)?\.\.(?:/|$))\s*\S",
    check_data_path,
)
URL = TextFormat(
    "an address that begins with http:// or https://",
    r"^https?://(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?(?:[/?#][!-~]*)?$",
    validators.check_url,
)
SHA256 = TextFormat("64 hex digits", "^[0-9a-fA-F]{64}$", validators.check_sha256)
FILE_NAME = TextFormat(
    "a name without `/` that does not begin with a dot", r"^(?!\.)(?=[\s\S]*\S)[^/]{1,200}$", validators.check_file_name
)
DOCKERFILE = TextFormat(
    "a path inside the directory that `build` names",
    rf"{_ONE_LINE}{_NOTHING_ABOVE}(?![/~])\s*\S",
    validators.check_dockerfile,
)
LINK = TextFormat(
    "a path below the working directory", rf"{_ONE_LINE}{_NOTHING_ABOVE}(?![/~])(?=[\s\S]*[^./\s])", _check_link
)
IMAGE_NAME = TextFormat("the name of an image in a registry", IMAGE_NAME_PATTERN, check_image_name)
ADDRESS = TextFormat(
    "a host name or an IPv4 address",
    rf"^(?!0\.0\.0\.0$)(?:{_IP_V4}|(?![0-9.]*$){_LABEL}(?:\.{_LABEL})*)$",
    validators.check_address,
)
ENDPOINT = TextFormat(
    "an address and a port",
    rf"^(?:grpc://)?(?:{_IP_V4}|(?![0-9.]*:){_LABEL}(?:\.{_LABEL})*):(?:[1-9][0-9]{{0,3}}|[1-5][0-9]{{4}}|6[0-4][0-9]{{3}}|65[0-4][0-9]{{2}}|655[0-2][0-9]|6553[0-5])$",
    check_endpoint,
)
MOUNT_OPTIONS = pattern_format(
    r"[a-z0-9_]+(=[A-Za-z0-9_.:/-]+)?(,[a-z0-9_]+(=[A-Za-z0-9_.:/-]+)?)*", "mount options with commas between them"
)
IP_V4 = TextFormat("an IPv4 address of the host", f"^{_IP_V4}$", validators.check_ipv4)
MEMORY = TextFormat(
    "a number and one of the units b, k, m and g", r"^[0-9]{1,15}(?:\.[0-9]{1,9})?[bkmgBKMG]$", validators.check_memory
)
DEVICE = pattern_format(
    r"/dev(?:/[A-Za-z0-9_][A-Za-z0-9_.@+-]*)+",
    "a device file, or a directory of them, below /dev",
    "write its path on the host, which is the same in the container",
)
USER = TextFormat("a user of the image", USER_PATTERN, check_user)

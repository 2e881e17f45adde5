"""What a text under `tfprov:` must be, said three times in one place: in words, as a pattern, and as a check."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from tfprov.errors import shown
from tfprov.model import validators
from tfprov.model.validators import Wrong, said_text

LONGEST = 255
"""Characters of registry and repository together."""

_DNS_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
_REGISTRY = re.compile(rf"(\[[0-9a-fA-F:]+\]|{_DNS_LABEL}(\.{_DNS_LABEL})*)(:[0-9]{{1,5}})?")
_PART = re.compile(r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")
_IMAGE_ID = re.compile(r"(sha256:)?[0-9a-f]{64}")
REFERENCE_PATTERN = (
    rf"^(?!{_IMAGE_ID.pattern}$)(?:{_REGISTRY.pattern}/)?{_PART.pattern}(?:/{_PART.pattern})*"
    rf"(?::{_TAG.pattern})?(?:@(?:{_DIGEST.pattern}))?$"
)
"""What every name of an image matches, for editors; `reference` knows more."""


def reference(value: str) -> str:
    """Check the name of an image in a registry. Raises Wrong with what is amiss."""
    if not value.strip():
        raise Wrong("must not be empty")
    given = f"`{shown(value)}`"
    if "://" in value:
        raise Wrong(f"must be the name of an image, not the URL {given}", "leave out what ends in `://`")
    if value.startswith((".", "/", "~")):
        raise Wrong(
            f"must be the name of an image, not the path {given}", "use `build` for a directory, `archive` for a file"
        )
    if _IMAGE_ID.fullmatch(value):
        raise Wrong("must be the name of an image in a registry, not the id of an image")
    rest, at, digest = value.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise Wrong(f"{given} has a digest that is not `sha256:` and 64 hexadecimal digits in lower case")
    name, colon, tag = rest.rpartition(":")
    if not colon or "/" in tag:  # that colon belongs to the registry's port
        name, tag = rest, "latest"
    if not _TAG.fullmatch(tag):
        fix = "use letters, digits, `_`, `.` and `-`, at most 128 of them"
        raise Wrong(f"{given} has {f'the tag `{shown(tag)}`' if tag else 'no tag behind its `:`'}", fix)
    if reason := _wrong_repository(name):
        raise Wrong(reason.format(given=given))
    return value


def _wrong_repository(name: str) -> str | None:
    first, slash, path = name.partition("/")
    in_registry = bool(slash) and ("." in first or ":" in first or first == "localhost")
    if in_registry and not _REGISTRY.fullmatch(first):
        return "{given} has a registry that is not `host` or `host:port`"
    path = path if in_registry else name
    if path != path.lower():
        return "must be in lower case up to the tag, not {given}"
    if not all(map(_PART.fullmatch, path.split("/"))):
        return "must be the name of an image in a registry, not {given}"
    return f"must be at most {LONGEST} characters long" if len(name) > LONGEST else None


_ID = "(?:[0-9]{1,10}|[A-Za-z_][A-Za-z0-9_.-]{0,31})"
USER_PATTERN = f"^{_ID}(?::{_ID})?$"
MOST = 65534
"""The largest number of a user that Linux has by default without user namespaces."""


def user(value: Any) -> Any:
    """Check the user of a container."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= MOST:
            raise Wrong(f"must be from 0 to {MOST}, not {value}")
    elif value is not None and not (isinstance(value, str) and re.search(USER_PATTERN, value)):
        raise Wrong(f"must be a number or a name, with a group after a colon or without, not {_given(value)}")
    return value


def _given(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return said_text(value) if isinstance(value, str) else f"a {type(value).__name__}"


def number_of(user: str | None) -> int | None:
    """Return the number of a user, without the group; None for a name, and for the user of the image."""
    first = (user or "").partition(":")[0]
    return int(first) if first.isdigit() else None


@dataclass(frozen=True)
class Form:
    """What a text must be: in `words`, as a `pattern` for editors, and as the `check` that has the last word.

    The pattern is a regular expression that Python and JavaScript read alike and search for. Whatever passes the check
    matches it; what matches it may still fail the check.
    """

    words: str
    pattern: str
    check: Callable[[str], str]

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Let pydantic check it, behind whatever stands before it."""
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Let a JSON Schema say it; the YAML language server shows the words for what does not match."""
        return {**handler(schema), "pattern": self.pattern, "patternErrorMessage": f"must be {self.words}"}


def matching(pattern: str, words: str, fix: str = "") -> Form:
    """Return the form that `pattern` describes, and `words` too; without a `fix`, the setting's example is shown."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise Wrong(f"must be {words}, not {said_text(value)}", fix)
        return value

    return Form(words, f"^(?:{pattern})$", check)


def named(kind: str, pattern: str, fix: str, reserved: str) -> Form:
    """Return the form of a mapping's keys; what matches `reserved` is tfprov's own."""

    def check(name: str) -> str:
        if re.fullmatch(reserved, name):
            raise Wrong("is set by tfprov for every task", "remove it")
        if not re.fullmatch(pattern, name):
            bare = name.lstrip("-")
            dashes = bare != name and re.fullmatch(pattern, bare)
            raise Wrong(f"is not the name of {kind}", f"write `{shown(bare)}`, without dashes" if dashes else fix)
        return name

    return Form(f"the name of {kind}", f"^(?!(?:{reserved})$)(?:{pattern})$", check)


def _link(value: str) -> str:
    """Check a name below the working directory of a task."""
    parts = value.strip().split("/")
    if value.startswith(("/", "~")) or ".." in parts:
        raise Wrong(f"must be a path below the working directory, not {said_text(value)}")
    if not any(part.strip(".") for part in parts):
        raise Wrong("must name a directory")
    return value


_ONE_LINE = r"^(?![\s\S]*[\u0000\n\r])"
_NOTHING_ABOVE = r"(?![\s\S]*(?:^|/)\.\.(?:/|$))"
_NO_SYSTEM = (
    rf"(?!(?:/|\.(?=/|$))*(?:$|(?:{'|'.join(validators.SYSTEM)})(?:/|$)"
    rf"|(?:{'|'.join(validators.SHARED_BY_ALL)})(?:/+\.?)*$))"
)
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IP_V4 = rf"(?:22[0-3]|2[01][0-9]|1[0-9][0-9]|[1-9]?[0-9])(?:\.{_BYTE}){{3}}"
_LABEL = "[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?"

LINE = Form("one line", _ONE_LINE, validators.one_line)
PATH = Form("a path", rf"{_ONE_LINE}(?!~[^/])\s*\S", validators.path)
DIRECTORY = Form(
    "an absolute path, and none of the system's own directories",
    f"{_ONE_LINE}{_NOTHING_ABOVE}{_NO_SYSTEM}/",
    validators.absolute_apart,
)
HOST_PATH = Form("an absolute path", f"{_ONE_LINE}{_NOTHING_ABOVE}/", validators.host_directory)
DATA = Form(
    "a path, and not the whole file system",
    rf"{_ONE_LINE}(?!~[^/])(?!/(?:/|\.(?=/|$))*$)(?!/(?:[\s\S]*/)?\.\.(?:/|$))\s*\S",
    validators.data,
)
WEB_ADDRESS = Form(
    "an address that begins with http:// or https://",
    r"^https?://(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?(?:[/?#][!-~]*)?$",
    validators.web_address,
)
SHA256 = Form("64 hex digits", "^[0-9a-fA-F]{64}$", validators.sha256)
FILE_NAME = Form(
    "a name without `/` that does not begin with a dot", r"^(?!\.)(?=[\s\S]*\S)[^/]{1,200}$", validators.file_name
)
DOCKERFILE = Form(
    "a path inside the directory that `build` names",
    rf"{_ONE_LINE}{_NOTHING_ABOVE}(?![/~])\s*\S",
    validators.dockerfile,
)
LINK = Form("a path below the working directory", rf"{_ONE_LINE}{_NOTHING_ABOVE}(?![/~])(?=[\s\S]*[^./\s])", _link)
IMAGE_NAME = Form("the name of an image in a registry", REFERENCE_PATTERN, reference)
ADDRESS = Form(
    "a host name or an IPv4 address",
    rf"^(?!0\.0\.0\.0$)(?:{_IP_V4}|(?![0-9.]*$){_LABEL}(?:\.{_LABEL})*)$",
    validators.address,
)
IP_V4 = Form("an IPv4 address of the host", f"^{_IP_V4}$", validators.ip_v4)
MEMORY = Form(
    "a number and one of the units b, k, m and g", r"^[0-9]{1,15}(?:\.[0-9]{1,9})?[bkmgBKMG]$", validators.memory
)
USER = Form("a user of the image", USER_PATTERN, user)

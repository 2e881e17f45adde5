"""What a text under `tfprov:` must be, said three times in one place: in words, as a pattern, and as a check."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from tfprov.errors import shown
from tfprov.model import checks, users
from tfprov.model.checks import Wrong, said_text
from tfprov.model.reference import PATTERN, reference


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
    rf"(?!(?:/|\.(?=/|$))*(?:$|(?:{'|'.join(checks.SYSTEM)})(?:/|$)|(?:{'|'.join(checks.SHARED_BY_ALL)})(?:/+\.?)*$))"
)
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IP_V4 = rf"(?:22[0-3]|2[01][0-9]|1[0-9][0-9]|[1-9]?[0-9])(?:\.{_BYTE}){{3}}"
_LABEL = "[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?"

LINE = Form("one line", _ONE_LINE, checks.one_line)
PATH = Form("a path", rf"{_ONE_LINE}(?!~[^/])\s*\S", checks.path)
DIRECTORY = Form(
    "an absolute path, and none of the system's own directories",
    f"{_ONE_LINE}{_NOTHING_ABOVE}{_NO_SYSTEM}/",
    checks.absolute_apart,
)
HOST_PATH = Form("an absolute path", f"{_ONE_LINE}{_NOTHING_ABOVE}/", checks.host_directory)
DATA = Form(
    "a path, and not the whole file system",
    rf"{_ONE_LINE}(?!~[^/])(?!/(?:/|\.(?=/|$))*$)(?!/(?:[\s\S]*/)?\.\.(?:/|$))\s*\S",
    checks.data,
)
WEB_ADDRESS = Form(
    "an address that begins with http:// or https://",
    r"^https?://(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?(?:[/?#][!-~]*)?$",
    checks.web_address,
)
SHA256 = Form("64 hex digits", "^[0-9a-fA-F]{64}$", checks.sha256)
FILE_NAME = Form(
    "a name without `/` that does not begin with a dot", r"^(?!\.)(?=[\s\S]*\S)[^/]{1,200}$", checks.file_name
)
DOCKERFILE = Form(
    "a path inside the directory that `build` names", rf"{_ONE_LINE}{_NOTHING_ABOVE}(?![/~])\s*\S", checks.dockerfile
)
LINK = Form("a path below the working directory", rf"{_ONE_LINE}{_NOTHING_ABOVE}(?![/~])(?=[\s\S]*[^./\s])", _link)
IMAGE_NAME = Form("the name of an image in a registry", PATTERN, reference)
ADDRESS = Form(
    "a host name or an IPv4 address",
    rf"^(?!0\.0\.0\.0$)(?:{_IP_V4}|(?![0-9.]*$){_LABEL}(?:\.{_LABEL})*)$",
    checks.address,
)
IP_V4 = Form("an IPv4 address of the host", f"^{_IP_V4}$", checks.ip_v4)
MEMORY = Form("a number and one of the units b, k, m and g", r"^[0-9]{1,15}(?:\.[0-9]{1,9})?[bkmgBKMG]$", checks.memory)
USER = Form("a user of the image", users.PATTERN, users.user)

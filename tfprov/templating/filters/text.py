"""Ansible's filters for templates, as far as they are deterministic: no clock, no network, no unseeded random.

Imported when a template uses a filter that Jinja2 does not have. A filter that fails raises TemplateRuntimeError or any
Python error; the caller adds the template's position.
"""

import base64
import hashlib
import math
import posixpath
import re
import shlex
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote_plus, urlsplit

from jinja2 import Environment, TemplateRuntimeError, Undefined, pass_context, pass_environment
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context

from tfprov.templating.filters import lists as filters_lists
from tfprov.templating.filters import numbers as filters_numbers
from tfprov.templating.lazy_values import to_plain
from tfprov.templating.limits import MAX_OUTPUT, TOO_LARGE
from tfprov.templating.lookups import note_variable

_NAMESPACE = uuid.UUID("361E6D51-FAEC-444A-9079-341386DA8E2E")
"""The namespace of Ansible's UUIDs."""
_TRUE, _FALSE = ("yes", "on", "true", "1"), ("no", "off", "false", "0", "", "none")
UNSUPPORTED = (
    "fileglob", "from_yaml_all", "ipaddr", "password_hash", "rekey_on_member", "strftime", "subelements", "to_datetime",
    "unvault", "vault", "win_basename", "win_dirname", "win_splitdrive", "comment", "json_query",
)  # fmt: skip
"""Filters of Ansible that inventories use and that are not supported."""


def to_bool(value: Any) -> bool:
    """Return the boolean for `yes`, `off`, `1` and the like; unlike Ansible, refuse anything else."""
    text = str(value).lower()
    if text in _TRUE or value == 1:
        return True
    if text in _FALSE:
        return False
    raise TemplateRuntimeError(f"`{value}` is neither true nor false")


def mandatory(value: Any, msg: str | None = None) -> Any:
    """Return `value`, or fail with `msg` where it is undefined."""
    if isinstance(value, Undefined):
        if msg is None:
            str(value)  # raises, with its name
        raise TemplateRuntimeError(str(msg))
    return value


def ternary(value: Any, true_val: Any, false_val: Any, none_val: Any = None) -> Any:
    """Return `true_val` or `false_val`, by whether `value` is true."""
    if value is None and none_val is not None:
        return none_val
    return true_val if value else false_val


def type_debug(value: Any) -> str:
    """Return the name of the type of `value`."""
    return type(to_plain(value)).__name__


@pass_environment
def extract(environment: Environment, item: Any, container: Any, morekeys: Any = None) -> Any:
    """Return the entry `item` of `container`, and in that the entries `morekeys`."""
    more = morekeys if isinstance(morekeys, list) else [] if morekeys is None else [morekeys]
    for key in (item, *more):
        container = environment.getitem(container, key)
    return container


# -- texts ------------------------------------------------------------------------------------------------------------


def text_of(value: Any) -> str:
    """Return `value` as text for a regular expression; raises if it is too large to search."""
    text = str(value)
    if len(text) > MAX_OUTPUT:
        raise SecurityError(TOO_LARGE)
    return text


def flags_of(ignorecase: bool, multiline: bool) -> re.RegexFlag:
    """Return the flags of a regular expression."""
    return (re.IGNORECASE if ignorecase else re.NOFLAG) | (re.MULTILINE if multiline else re.NOFLAG)


def regex_replace(  # noqa: PLR0913, PLR0917  as in Ansible
    value: Any = "",
    pattern: str = "",
    replacement: str = "",
    ignorecase: bool = False,
    multiline: bool = False,
    count: int = 0,
    mandatory_count: int = 0,
) -> str:
    """Return `value` with matches of `pattern` replaced, at most `count` times."""
    size = 0

    def expand(match: re.Match[str]) -> str:
        nonlocal size
        text = match.expand(replacement)
        size += len(text)
        if size > MAX_OUTPUT:
            raise SecurityError(TOO_LARGE)
        return text

    compiled = re.compile(pattern, flags_of(ignorecase, multiline))
    text, times = compiled.subn(expand, text_of(value), count=count)
    if mandatory_count and times != mandatory_count:
        raise TemplateRuntimeError(f"`{pattern}` matches {times} times, not {mandatory_count}")
    return text


def regex_search(value: Any, regex: str, *references: str, ignorecase: bool = False, multiline: bool = False) -> Any:
    r"""Return the first match, or its groups in `references` (`\1` or `\g<name>`); None without a match."""
    groups = [_group(reference) for reference in references]
    match = re.search(regex, text_of(value), flags_of(ignorecase, multiline))
    if match is None:
        return None
    return [match[group] for group in groups] if groups else match[0]


def _group(reference: str) -> int | str:
    match = re.fullmatch(r"\\g<(\S+)>|\\(\d+)", str(reference))
    if match is None:
        raise TemplateRuntimeError(rf"`{reference}` is no group: write `\\1` or `\\g<name>`")
    group = match[1] or match[2]
    return int(group) if group.isdecimal() else group


def regex_findall(value: Any, regex: str, multiline: bool = False, ignorecase: bool = False) -> list[Any]:
    """Return all matches, or their groups if `regex` has any."""
    return re.findall(regex, text_of(value), flags_of(ignorecase, multiline))


def regex_escape(value: Any, re_type: str = "python") -> str:
    """Return `value` escaped for a regular expression."""
    if re_type == "posix_basic":
        return re.sub(r"([].[^$*\\])", r"\\\1", text_of(value))
    if re_type != "python":
        raise TemplateRuntimeError(f"`{re_type}` is no kind of regular expression here: `python` or `posix_basic`")
    return re.escape(text_of(value))


def quote(value: Any) -> str:
    """Return `value` as one word for a shell."""
    return shlex.quote("" if value is None else str(value))


def b64encode(value: Any, encoding: str = "utf-8", urlsafe: bool = False) -> str:
    """Return the text `value` in base64."""
    return (base64.urlsafe_b64encode if urlsafe else base64.b64encode)(str(value).encode(encoding)).decode()


def b64decode(value: Any, encoding: str = "utf-8", urlsafe: bool = False) -> str:
    """Decode base64."""
    return (base64.urlsafe_b64decode if urlsafe else base64.b64decode)(str(value).encode()).decode(encoding)


def digest(value: Any, hashtype: str = "sha1") -> str:
    """Return a digest of the text `value`, in hexadecimal."""
    if hashtype not in hashlib.algorithms_available:
        raise TemplateRuntimeError(f"no hash `{hashtype}`: for example `sha256`")
    return hashlib.new(hashtype, str(value).encode()).hexdigest()


def to_uuid(value: Any, namespace: str | uuid.UUID = _NAMESPACE) -> str:
    """Return the version 5 UUID of `value` in `namespace`."""
    return str(uuid.uuid5(namespace if isinstance(namespace, uuid.UUID) else uuid.UUID(namespace), str(value)))


def split(value: Any, separator: str | None = None, maxsplit: int = -1) -> list[str]:
    """Return the parts of `value` between separators, by default blanks."""
    return str(value).split(separator, maxsplit)


def url_parts(value: str, query: str = "") -> Any:
    """Return the parts of a URL, or the part `query`."""
    url = urlsplit(value)
    names = ("fragment", "hostname", "netloc", "password", "path", "port", "query", "scheme", "username")
    if query and query not in names:
        raise TemplateRuntimeError(f"a URL has no `{query}`: {', '.join(names)}")
    parts = {name: getattr(url, name) for name in names}
    return parts[query] if query else parts


# -- paths ------------------------------------------------------------------------------------------------------------


@pass_context  # Jinja2 calls a filter without the context when it compiles a template, once for all renderings
def expandvars(context: Context, path: str) -> str:
    """Return a path with environment variables expanded; the secrets among them are those of `lookup('env', …)`."""
    for name in re.findall(r"\$\{?(\w+)", path):
        note_variable(context.environment, name)
    return posixpath.expandvars(path)


def path_join(paths: Any) -> str:
    """Join the parts of a path."""
    return paths if isinstance(paths, str) else posixpath.join(*map(str, paths))


def commonpath(paths: Any) -> str:
    """Return the longest common directory of `paths`."""
    return posixpath.commonpath([str(path) for path in paths])


def splitext(path: str) -> list[str]:
    """Return a path without its extension, and the extension."""
    return list(posixpath.splitext(path))


def bounded(function: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Return `function` with its result as a list of limited size."""

    def collect(*values: Any, **options: Any) -> list[Any]:
        parts = [value for value in (*values, options.get("repeat")) if isinstance(value, int)]
        if math.prod(map(abs, parts)) * len(values) > MAX_OUTPUT:
            raise SecurityError(TOO_LARGE)
        items, size = [], 0
        for item in function(*values, **options):
            items.append(item)
            size += len(item) + 1
            if size > MAX_OUTPUT:
                raise SecurityError(TOO_LARGE)
        return items

    return collect


TABLE: dict[str, Callable[..., Any]] = {
    "b64decode": b64decode,
    "b64encode": b64encode,
    "basename": posixpath.basename,
    "bool": to_bool,
    "checksum": digest,
    "commonpath": commonpath,
    "dirname": posixpath.dirname,
    "expanduser": posixpath.expanduser,
    "expandvars": expandvars,
    "extract": extract,
    "hash": digest,
    "mandatory": mandatory,
    "md5": lambda value: digest(value, "md5"),
    "normpath": posixpath.normpath,
    "path_join": path_join,
    "quote": quote,
    "realpath": posixpath.realpath,
    "regex_escape": regex_escape,
    "regex_findall": regex_findall,
    "regex_replace": regex_replace,
    "regex_search": regex_search,
    "relpath": posixpath.relpath,
    "sha1": digest,
    "split": split,
    "splitext": splitext,
    "ternary": ternary,
    "to_uuid": to_uuid,
    "type_debug": type_debug,
    "urldecode": unquote_plus,
    "urlsplit": url_parts,
    **filters_numbers.FORMATS_TABLE,
    **filters_numbers.TABLE,
    **filters_lists.TABLE,
    **{name: bounded(function) for name, function in filters_lists.SERIES.items()},
}
"""The filters by name."""

"""Ansible's Jinja2 tests (`{{ name is match('gpu') }}`) that depend on their value alone."""

import math
import operator
import posixpath
import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlsplit

from jinja2 import TemplateRuntimeError

from tfprov.templating.filters.text import flags_of, text_of, to_bool

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    **dict.fromkeys(("==", "=", "eq"), operator.eq),
    **dict.fromkeys(("!=", "<>", "ne"), operator.ne),
    **dict.fromkeys(("<", "lt"), operator.lt),
    **dict.fromkeys(("<=", "le"), operator.le),
    **dict.fromkeys((">", "gt"), operator.gt),
    **dict.fromkeys((">=", "ge"), operator.ge),
}
_VERSION_PART = re.compile(r"\d+|[a-z]+|[^\d.a-z]+", re.IGNORECASE)


def matches(value: Any, pattern: str = "", ignorecase: bool = False, multiline: bool = False) -> bool:
    """Whether `pattern` matches at the beginning of `value`."""
    return re.match(pattern, text_of(value), flags_of(ignorecase, multiline)) is not None


def contains_match(value: Any, pattern: str = "", ignorecase: bool = False, multiline: bool = False) -> bool:
    """Whether `pattern` matches anywhere in `value`."""
    return re.search(pattern, text_of(value), flags_of(ignorecase, multiline)) is not None


def regex(
    value: Any, pattern: str = "", ignorecase: bool = False, multiline: bool = False, match_type: str = "search"
) -> bool:
    """Whether `pattern` matches `value`; `match_type` is `search`, `match` or `fullmatch`."""
    if match_type not in ("search", "match", "fullmatch"):
        match_type = "search"
    compiled = re.compile(pattern, flags_of(ignorecase, multiline))
    return getattr(compiled, match_type)(text_of(value)) is not None


def version(value: Any, other: Any, operator: str = "eq", strict: Any = None, version_type: str | None = None) -> bool:
    """Compare two versions with `operator`; numbers in them are compared as numbers."""
    if strict or version_type not in (None, "loose"):
        raise TemplateRuntimeError("`is version` compares loosely here: leave out `strict` and `version_type`")
    if not value or not other:
        raise TemplateRuntimeError("`is version` needs two versions, and one is empty")
    if operator not in _OPERATORS:
        raise TemplateRuntimeError(f"`{operator}` does not compare versions: use `==`, `!=`, `<`, `<=`, `>` or `>=`")
    try:
        left, right = _parts(value), _parts(other)
        return _OPERATORS[operator]((left > right) - (left < right), 0)
    except TypeError:
        raise TemplateRuntimeError(f"`{value}` and `{other}` cannot be compared as versions") from None


def _parts(value: Any) -> list[int | str]:
    return [int(part) if part.isdecimal() else part for part in _VERSION_PART.findall(str(value))]


def subset(value: Iterable[Any], other: Iterable[Any]) -> bool:
    """Whether `value` is a subset of `other`."""
    return set(value) <= set(other)


def superset(value: Iterable[Any], other: Iterable[Any]) -> bool:
    """Whether `value` is a superset of `other`."""
    return set(value) >= set(other)


def contains(value: Any, item: Any) -> bool:
    """Whether `item` is in `value`."""
    return item in value


def truthy(value: Any, convert_bool: bool = False) -> bool:
    """Whether `value` is true; with `convert_bool`, words such as `no` are false."""
    if convert_bool and isinstance(value, str | int | float):
        try:
            return to_bool(value)
        except TemplateRuntimeError:
            pass
    return bool(value)


def falsy(value: Any, convert_bool: bool = False) -> bool:
    """Whether `value` is not `truthy`."""
    return not truthy(value, convert_bool)


def nan(value: Any) -> bool:
    """Whether `value` is NaN."""
    return isinstance(value, float) and math.isnan(value)


def uri(value: Any, schemes: Iterable[str] | None = None) -> bool:
    """Whether `value` is a URI, with one of `schemes` if there are any."""
    try:
        parts = urlsplit(value)
    except (ValueError, AttributeError):
        return False
    return not schemes or parts.scheme in schemes


def url(value: Any, schemes: Iterable[str] | None = None) -> bool:
    """Whether `value` is a URI with a host."""
    return uri(value, schemes) and bool(urlsplit(value).netloc or urlsplit(value).scheme == "file")


TABLE: dict[str, Callable[..., bool]] = {
    "all": all,
    "any": any,
    "abs": posixpath.isabs,
    "is_abs": posixpath.isabs,
    "contains": contains,
    "falsy": falsy,
    "issubset": subset,
    "subset": subset,
    "issuperset": superset,
    "superset": superset,
    "match": matches,
    "search": contains_match,
    "regex": regex,
    "nan": nan,
    "isnan": nan,
    "truthy": truthy,
    "uri": uri,
    "url": url,
    "version": version,
    "version_compare": version,
}
"""Every test by its name."""

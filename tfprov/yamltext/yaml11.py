"""Warns of values and keys that YAML 1.1 reads differently than they look: `NO`, `22:22`, `012`, `2026-01-01`."""

from collections.abc import Iterator
from datetime import date
from math import isfinite
from typing import Any

import yaml

from tfprov.errors import Problem, printable
from tfprov.model.yaml_node import Mapping, Node, Scalar


def lint_values(node: Node, *, as_text: bool = False) -> Iterator[Problem]:
    """Yield a problem for every value in `node` that YAML 1.1 reads differently than it looks.

    With `as_text`, also for numbers that change when they become text: YAML reads `3.10` as `3.1`.
    """
    if isinstance(node, Scalar):
        if not _reads_as_written(node) or (as_text and not _round_trips(node)):
            yield _problem(node)
        return
    for below in node.entries.values() if isinstance(node, Mapping) else node.items:
        yield from lint_values(below, as_text=as_text)


def lint_keys(node: Mapping) -> Iterator[Problem]:
    """Yield a problem for every key of `node` that looks like a name and is none to YAML: `on` is a boolean."""
    for key in node.keys.values():
        if not isinstance(key.data, str) and key.text[:1].isalpha():  # a number is no name, with or without quotes
            yield Problem(key.at, _read_as(key), f'quote it: "{printable(key.text)}"')


def _problem(node: Scalar) -> Problem:
    data = node.data
    instead = "write null, or " if data is None else "" if _has_no_plain_form(data) else f"write {printable(data)}, or "
    return Problem(node.at, _read_as(node), f'{instead}quote it: "{printable(node.text)}"')


def _has_no_plain_form(data: Any) -> bool:
    return isinstance(data, date) or (isinstance(data, float) and not isfinite(data))  # a float cannot hold every int


def _read_as(node: Scalar) -> str:
    data = node.data
    kind = "a date" if isinstance(data, date) else "nothing" if data is None else f"`{printable(data)}`"
    return f"`{printable(node.text)}` is read by YAML as {kind}"


def _reads_as_written(node: Scalar) -> bool:
    data, text = node.data, node.text
    if node.quoted or not isinstance(data, int | float | date | None):
        return True
    if data is None:
        return text != "~"  # elsewhere, `~` is the home directory
    if isinstance(data, bool):
        return text in ("true", "false", "True", "False")
    if isinstance(data, int):
        return str(data) == text.removeprefix("+")
    return not isinstance(data, date) and ":" not in text and "_" not in text and isfinite(data)


def _round_trips(node: Scalar) -> bool:
    return node.quoted or not isinstance(node.data, int | float) or str(node.data).lower() == node.text


_PREFIX = "tag:yaml.org,2002:"
_KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "timestamp": "a date"}
_TEXT = ("str", "merge", "value")
"""The last two are `<<` and `=`: their position decides what they mean."""
_MAX_BITS = 1024
"""Larger whole numbers mean nothing in an inventory, and Python refuses to print those above 4300 digits."""

_loader: Any = yaml.SafeLoader("")


class ScalarError(ValueError):
    """A scalar that is no value of its tag; the message says why."""


def resolve_tag(event: Any, *, quoted: bool) -> str:
    """Return the short name of an event's tag; without a tag, the one that YAML resolves."""
    tag = event.tag
    if tag is None and not quoted:
        return resolve_plain_tag(event.value)
    return "str" if tag is None or tag == "!" else short_tag(tag)


def resolve_plain_tag(text: str) -> str:
    """Return the tag of a plain scalar; PyYAML's own `resolve` does the same, and takes half of a large file's time."""
    for tag, form in yaml.SafeLoader.yaml_implicit_resolvers.get(text[:1], ()):
        if form.match(text):
            return short_tag(tag)
    return "str"


def short_tag(tag: str) -> str:
    """Return `str` for `tag:yaml.org,2002:str`; other tags as they are."""
    return tag.removeprefix(_PREFIX)


def is_scalar_tag(name: str) -> bool:
    """Whether a single value can have this tag."""
    return name in _KINDS or name in _TEXT or name == "null"


def construct_scalar(name: str, text: str) -> Any:
    """Return the value of `text` under the tag `name`; ScalarError if it has none."""
    if name in _TEXT:
        return text
    if name == "null":
        return None
    if name == "int" and len(text) > _MAX_BITS:
        raise ScalarError("is too large a number")
    try:
        data = yaml.SafeLoader.yaml_constructors[_PREFIX + name](_loader, yaml.ScalarNode(name, text))
    except Exception:  # PyYAML's constructors raise anything: `!!bool maybe` is a KeyError
        raise ScalarError(f"is not {_KINDS[name]}") from None
    if isinstance(data, int) and data.bit_length() > _MAX_BITS:
        raise ScalarError("is too large a number")
    return data

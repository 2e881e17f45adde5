"""YAML scalars to Python values: the types of YAML 1.1, which Ansible reads too, and no others."""

from typing import Any

import yaml

_PREFIX = "tag:yaml.org,2002:"
_KINDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
    "timestamp": "a date",
}
_TEXT = ("merge", "value")
"""`<<` and `=`: their meaning comes from where they stand."""
_MAX_BITS = 1024
"""Larger whole numbers mean nothing in an inventory, and Python refuses to print those above 4300 digits."""

_loader: Any = yaml.SafeLoader("")


class ScalarError(ValueError):
    """A scalar that its tag does not fit; says what is amiss with it."""


def tag_of(event: Any, *, quoted: bool) -> str:
    """Return the short name of an event's tag, resolved where the file states none."""
    tag = event.tag
    if tag is None and not quoted:
        return tag_of_plain(event.value)
    return "str" if tag is None or tag == "!" else short_tag(tag)


def tag_of_plain(text: str) -> str:
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
    return name in _KINDS or name in _TEXT


def value_of(name: str, text: str) -> Any:
    """Return the value of `text` under the tag `name`; ScalarError where it has none."""
    if name in _TEXT or name == "str":
        return text
    if name == "int" and len(text) > _MAX_BITS:
        raise ScalarError("is too large a number")
    try:
        data = yaml.SafeLoader.yaml_constructors[_PREFIX + name](_loader, yaml.ScalarNode(name, text))
    except Exception:  # PyYAML's constructors raise whatever comes: `!!bool maybe` is a KeyError
        raise ScalarError(f"is not {_KINDS[name]}") from None
    if isinstance(data, int) and data.bit_length() > _MAX_BITS:
        raise ScalarError("is too large a number")
    return data

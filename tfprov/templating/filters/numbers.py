"""Ansible's filters for numbers, sizes, JSON and YAML."""

import json
import math
import re
from collections.abc import Callable
from typing import Any

import yaml
from jinja2 import TemplateRuntimeError
from jinja2.exceptions import SecurityError

from tfprov.errors import InvalidInput
from tfprov.model.yaml_node import plain
from tfprov.templating.lazy_values import to_plain
from tfprov.templating.limits import MAX_OUTPUT, TOO_LARGE
from tfprov.yamltext.load import parse

_PREFIXES = "KMGTPEZY"
_SIZE = re.compile(r"([0-9]*\.?[0-9]+)\s*([A-Za-z]+)?\s*")


def log(value: float, base: float = math.e) -> float:
    """Return the logarithm of `value`."""
    return math.log10(value) if base == 10 else math.log(value, base)


def power(value: float, exponent: float) -> float:
    """Return `value` to the power of `exponent`."""
    return math.pow(value, exponent)


def root(value: float, base: float = 2) -> float:
    """Return the square root, or the root of another `base`."""
    return math.sqrt(value) if base == 2 else math.pow(value, 1 / base)


def human_readable(value: float, isbits: bool = False, unit: str | None = None) -> str:
    """Return a number of bytes or bits with a unit; `unit` fixes it, such as `G`."""
    name, letter = ("bits", "b") if isbits else ("Bytes", "B")
    power = _power(unit) if unit else sum(value >= 1024**n for n in range(1, 9))
    return f"{value / 1024**power:.2f} {_PREFIXES[power - 1] + letter if power else name}"


def human_to_bytes(value: Any, default_unit: str | None = None, isbits: bool = False) -> int:
    """Return the number of bytes or bits in a text such as `10M` or `2.5 GB`."""
    match = _SIZE.fullmatch(str(value))
    if match is None:
        raise TemplateRuntimeError(f"`{value}` is not a size: for example `10M`")
    unit = match[2] or default_unit
    if unit is None:
        return round(float(match[1]))
    if len(unit) > 1 and not _is_unit(unit, isbits):
        raise TemplateRuntimeError(f"`{unit}` is not a unit of {'bits' if isbits else 'bytes'}")
    factor: int = 1024 ** _power(unit)
    return round(float(match[1]) * factor)


def _is_unit(unit: str, isbits: bool) -> bool:
    names = ("kilo", "mega", "giga", "tera", "peta", "exa", "zeta", "yotta")
    whole = {f"{name}{'bit' if isbits else 'byte'}" for name in ("", *names)}
    return unit[1:] == ("b" if isbits else "B") or unit.lower() in whole


def _power(unit: str) -> int:
    letter = unit[:1].upper()
    if letter != "B" and letter not in _PREFIXES:
        raise TemplateRuntimeError(f"`{unit}` is not a unit: one of B, {', '.join(_PREFIXES)}")
    return _PREFIXES.find(letter) + 1


TABLE: dict[str, Callable[..., Any]] = {
    "human_readable": human_readable,
    "human_to_bytes": human_to_bytes,
    "log": log,
    "pow": power,
    "root": root,
}
"""The filters by name."""


def to_json(value: Any, **options: Any) -> str:
    """Return `value` as JSON, with the options of Python's json.dumps."""
    _check_indent(options)
    return json.dumps(to_plain(value, MAX_OUTPUT), default=str, **options)


def to_nice_json(value: Any, indent: int = 4, sort_keys: bool = True, **options: Any) -> str:
    """Return `value` as indented JSON."""
    options.pop("separators", None)
    return to_json(value, indent=indent, sort_keys=sort_keys, separators=(",", ": "), **options)


def from_json(text: str, **options: Any) -> Any:
    """Parse JSON."""
    return json.loads(text, **options)


def to_yaml(value: Any, *_: Any, default_flow_style: bool | None = None, **options: Any) -> str:
    """Return `value` as YAML, in flow style where it has no nested collections."""
    _check_indent(options)
    return _dump(value, default_flow_style, options)


def to_nice_yaml(value: Any, indent: int = 4, *_: Any, default_flow_style: bool = False, **options: Any) -> str:
    """Return `value` as YAML in block style."""
    options["indent"] = indent
    _check_indent(options)
    return _dump(value, default_flow_style, options)


def _dump(value: Any, flow: bool | None, options: dict[str, Any]) -> str:
    text: str = yaml.dump(
        to_plain(value, MAX_OUTPUT), Dumper=yaml.SafeDumper, allow_unicode=True, default_flow_style=flow, **options
    )
    return text.removesuffix("...\n")  # the end mark after a scalar document


def from_yaml(text: str | None) -> Any:
    """Parse YAML."""
    try:
        return None if text is None or not text.strip() else plain(parse(text, "from_yaml"))
    except InvalidInput as error:  # the line to correct is that of the template
        first, *_ = error.problems
        line = f"line {first.at.line}: " if first.at.line else ""
        raise TemplateRuntimeError(f"from_yaml: {line}{first.what}; {first.fix}") from None


def _check_indent(options: dict[str, Any]) -> None:
    if any(isinstance(value, int) and abs(value) > 100 for key, value in options.items() if key != "width"):
        raise SecurityError(TOO_LARGE)


FORMATS_TABLE: dict[str, Callable[..., Any]] = {
    "from_json": from_json,
    "from_yaml": from_yaml,
    "to_json": to_json,
    "to_nice_json": to_nice_json,
    "to_nice_yaml": to_nice_yaml,
    "to_yaml": to_yaml,
}
"""The filters by name."""

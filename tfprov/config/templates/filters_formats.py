"""Ansible's filters between values and their texts in JSON and YAML."""

import json
from collections.abc import Callable
from typing import Any

import yaml
from jinja2.exceptions import SecurityError

from tfprov.config.templates.seen import whole
from tfprov.config.templates.sizes import MAX_OUTPUT, TOO_LARGE
from tfprov.config.text.yaml import parse
from tfprov.model.node import plain


def to_json(value: Any, **options: Any) -> str:
    """Return `value` as JSON, with the options of Python's json.dumps."""
    _check_indent(options)
    return json.dumps(whole(value, MAX_OUTPUT), default=str, **options)


def to_nice_json(value: Any, indent: int = 4, sort_keys: bool = True, **options: Any) -> str:
    """Return `value` as JSON for people."""
    options.pop("separators", None)
    return to_json(value, indent=indent, sort_keys=sort_keys, separators=(",", ": "), **options)


def from_json(text: str, **options: Any) -> Any:
    """Return what `text` says in JSON."""
    return json.loads(text, **options)


def to_yaml(value: Any, *_: Any, default_flow_style: bool | None = None, **options: Any) -> str:
    """Return `value` as YAML: what fits on a line, on one line."""
    _check_indent(options)
    return _dump(value, default_flow_style, options)


def to_nice_yaml(value: Any, indent: int = 4, *_: Any, default_flow_style: bool = False, **options: Any) -> str:
    """Return `value` as YAML for people."""
    options["indent"] = indent
    _check_indent(options)
    return _dump(value, default_flow_style, options)


def _dump(value: Any, flow: bool | None, options: dict[str, Any]) -> str:
    found: str = yaml.dump(
        whole(value, MAX_OUTPUT), Dumper=yaml.SafeDumper, allow_unicode=True, default_flow_style=flow, **options
    )
    return found.removesuffix("...\n")  # the end of a document that is a single value


def from_yaml(text: str | None) -> Any:
    """Return what `text` says in YAML."""
    return None if text is None or not text.strip() else plain(parse(text, "from_yaml"))


def _check_indent(options: dict[str, Any]) -> None:
    if any(isinstance(value, int) and abs(value) > 100 for key, value in options.items() if key != "width"):
        raise SecurityError(TOO_LARGE)


TABLE: dict[str, Callable[..., Any]] = {
    "from_json": from_json,
    "from_yaml": from_yaml,
    "to_json": to_json,
    "to_nice_json": to_nice_json,
    "to_nice_yaml": to_nice_yaml,
    "to_yaml": to_yaml,
}
"""Every filter by its name."""

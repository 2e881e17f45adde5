"""YAML read with libyaml where PyYAML has it: ten times as fast, which counts for manifests of hundreds of lines."""

from typing import Any

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(text: str) -> Any:
    """Return the value of a text with one document."""
    return yaml.load(text, _LOADER)


def read_all_yaml(text: str) -> list[Any]:
    """Return the values of all documents of a text."""
    return list(yaml.load_all(text, _LOADER))

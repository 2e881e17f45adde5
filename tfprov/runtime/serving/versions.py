"""The versions of a model on disk: numbered directories, each with a SavedModel, as TensorFlow Serving reads them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

_LAST_WRITTEN = ("saved_model.pb", "saved_model.pbtxt")
"""TensorFlow writes one of these after the variables, so that a directory with it can be loaded."""


def versions(base: Path) -> dict[int, Path]:
    """Return the complete versions in `base`, by number; none if it does not exist yet. Raises OSError."""
    try:
        entries = sorted(base.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {int(path.name): path for path in entries if _is_number(path.name) and _is_complete(path)}


def newest(numbers: Iterable[int]) -> int | None:
    """Return the highest version; None without any."""
    return max(numbers, default=None)


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) < 20


def _is_complete(path: Path) -> bool:
    return any((path / name).is_file() for name in _LAST_WRITTEN)

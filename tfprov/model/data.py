"""A data set that hosts fetch for themselves, once each: files with where they come from and what they must be."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

KIND = "data:"
"""Begins the name of a data set as an artifact."""
_DIGITS = 32
"""Hex digits of a key, as many as an image has."""


@dataclass(frozen=True)
class DataFile:
    """One file: its `name` in the directory with the data, its URL, and the sha256 of its content in hex digits."""

    name: str
    url: str
    sha256: str


@dataclass(frozen=True)
class DataSet:
    """Files that lie in one directory."""

    files: tuple[DataFile, ...]

    @property
    def key(self) -> str:
        """What it is known by: the same for the same files, in whatever order and wherever they come from."""
        known = sorted((file.name, file.sha256) for file in self.files)
        return hashlib.sha256(json.dumps(known).encode()).hexdigest()[:_DIGITS]

    @property
    def artifact(self) -> str:
        """Its name among what is brought to hosts: `data:3f2a9c01d2e4…`."""
        return KIND + self.key


def read_by(spec: Mapping[str, Any]) -> str | None:
    """Return the data set, as an artifact, that a task with this spec reads; None for none."""
    data = spec.get("data")
    key = data.get("fetch") if isinstance(data, Mapping) else None
    return f"{KIND}{key}" if key else None


def key_of(artifact: str) -> str:
    """Return the key of the data set that is called `artifact`."""
    return artifact.removeprefix(KIND)

"""YAML values that remember where they stand, so that an error found late can still name its line."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfprov.errors import Position

NOWHERE = Position("(default)")


@dataclass(frozen=True, slots=True)
class Scalar:
    """A string, number, boolean, null or date; `text` is what the user wrote, `quoted` whether YAML had no say in its type.

    `literal` marks Ansible's `!unsafe`: text that is never taken for a template.
    """

    data: Any
    at: Position
    text: str = ""
    quoted: bool = False
    literal: bool = False


@dataclass(frozen=True, slots=True)
class Items:
    """A YAML sequence."""

    items: tuple["Node", ...]
    at: Position


@dataclass(frozen=True, slots=True)
class Mapping:
    """A YAML mapping, in the order of the file; `keys` holds each key as it was written."""

    entries: dict[str, "Node"] = field(default_factory=dict)
    at: Position = NOWHERE
    keys: dict[str, Scalar] = field(default_factory=dict)

    def get(self, key: str) -> "Node | None":
        """Return the value of `key`, or None."""
        return self.entries.get(key)

    def key_at(self, key: str) -> Position:
        """Where `key` itself stands."""
        return self.keys[key].at if key in self.keys else self.at

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)


Node = Scalar | Items | Mapping


def plain(node: Node) -> Any:
    """Return the bare Python value: dict, list, str, int, float, bool, None or a date."""
    if isinstance(node, Mapping):
        return {key: plain(value) for key, value in node.entries.items()}
    if isinstance(node, Items):
        return [plain(item) for item in node.items]
    return node.data


def wrap(data: Any, at: Position) -> Node:
    """Return `data` as nodes that all stand at `at`: for values computed by a template or given on a command line."""
    if isinstance(data, dict):
        keys = {str(key): Scalar(key, at, str(key), quoted=True) for key in data}
        return Mapping({str(key): wrap(value, at) for key, value in data.items()}, at, keys)
    if isinstance(data, list | tuple):
        return Items(tuple(wrap(item, at) for item in data), at)
    return Scalar(data, at, str(data), quoted=True)


def merge(lower: Mapping, higher: Mapping) -> Mapping:
    """Return `lower` overlaid with `higher`: mappings merge key by key, anything else is replaced whole."""
    entries = dict(lower.entries)
    for key, value in higher.entries.items():
        below = entries.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        entries[key] = merge(below, value) if both else value  # type: ignore[arg-type]
    at = higher.at if higher.at is not NOWHERE else lower.at
    return Mapping(entries, at, lower.keys | higher.keys)


def find(node: Node, path: Sequence[str | int]) -> tuple[Node, Position]:
    """Follow `path` as far as it goes; return the last node reached and where its key (or itself) stands."""
    at = node.at
    for step in path:
        if isinstance(node, Mapping) and str(step) in node.entries:
            at = node.key_at(str(step))
            node = node.entries[str(step)]
        elif isinstance(node, Items) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
            at = node.at
        else:
            break
    return node, at

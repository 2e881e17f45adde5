"""YAML values with their positions, so that a later check can name the line."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tfprov.errors import Position

NOWHERE = Position("(default)")
HIDDEN = "******"
"""Shown in place of a secret."""


@dataclass(frozen=True, slots=True)
class EncryptedValue:
    """The `data` of a value that ansible-vault encrypted; `opener` decrypts it, or raises InvalidInput.

    Or of one that `!env` takes from the environment: `variable` names it, and is the `ciphertext`, too.
    """

    ciphertext: str
    opener: Callable[[str, Position], str] = field(repr=False, compare=False)
    variable: str = ""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A string, number, boolean, null or date. `text` is its spelling in the file, `quoted` whether it is a text anyway.

    `literal` marks Ansible's `!unsafe`: never a template. `secret` marks a value that was encrypted or computed from a
    secret: messages may not repeat it, and its `text` is empty.
    """

    data: Any
    at: Position
    text: str = ""
    quoted: bool = False
    literal: bool = False
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Items:
    """A YAML sequence."""

    items: tuple["Node", ...]
    at: Position


@dataclass(frozen=True, slots=True)
class Mapping:
    """A YAML mapping in the order of the file; `keys` has each key as a scalar."""

    entries: dict[str, "Node"] = field(default_factory=dict)
    at: Position = NOWHERE
    keys: dict[str, Scalar] = field(default_factory=dict)

    def get(self, key: str) -> "Node | None":
        """Return the value of `key`, or None."""
        return self.entries.get(key)

    def key_at(self, key: str) -> Position:
        """Return the position of `key` itself."""
        return self.keys[key].at if key in self.keys else self.at

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)


Node = Scalar | Items | Mapping


def plain(node: Node) -> Any:
    """Return the Python value: dict, list, str, int, float, bool, None or a date."""
    if isinstance(node, Mapping):
        return {key: plain(value) for key, value in node.entries.items()}
    if isinstance(node, Items):
        return [plain(item) for item in node.items]
    return node.data


def plain_masked(node: Node) -> Any:
    """Return the Python value with secrets masked; an encrypted value is shown as Ansible shows it."""
    if isinstance(node, Mapping):
        return {key: plain_masked(value) for key, value in node.entries.items()}
    if isinstance(node, Items):
        return [plain_masked(item) for item in node.items]
    if isinstance(node.data, EncryptedValue) and not node.data.variable:
        return {"__ansible_vault": node.data.ciphertext}
    return HIDDEN if node.secret else node.data


def scalars(node: Node, *, without: str | None = None) -> Iterator[Scalar]:
    """Yield every scalar in `node`, except for the values of keys named `without`."""
    left = [node]  # not recursively: every scalar would pass through as many generators as it is deep
    while left:
        node = left.pop()
        if isinstance(node, Scalar):
            yield node
        elif isinstance(node, Items):
            left += reversed(node.items)
        else:
            left += [value for key, value in reversed(node.entries.items()) if key != without]


def mark_secret(node: Node) -> Node:
    """Return `node` with every scalar in it marked as secret."""
    if isinstance(node, Mapping):
        return Mapping({key: mark_secret(value) for key, value in node.entries.items()}, node.at, node.keys)
    if isinstance(node, Items):
        return Items(tuple(map(mark_secret, node.items)), node.at)
    return node if isinstance(node.data, EncryptedValue) else replace(node, text="", quoted=True, secret=True)


def decrypt_values(node: Node) -> Node:
    """Return `node` with every encrypted value decrypted; InvalidInput where no password fits."""
    if isinstance(node, Mapping):
        return Mapping({key: decrypt_values(value) for key, value in node.entries.items()}, node.at, node.keys)
    if isinstance(node, Items):
        return Items(tuple(map(decrypt_values, node.items)), node.at)
    if not isinstance(node.data, EncryptedValue):
        return node
    text = node.data.opener(node.data.ciphertext, node.at)
    return Scalar(text, node.at, quoted=True, literal=True, secret=True)


def wrap(data: Any, at: Position) -> Node:
    """Return `data` as nodes at position `at`: for values of templates and of the command line."""
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
    """Follow `path` as far as it exists; return the last node and the position of its key, or its own in a list."""
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

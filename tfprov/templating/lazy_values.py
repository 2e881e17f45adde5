"""Mappings and lists for templates, each value rendered when it is first used.

So `{{ paths.data }}` works if another entry of `paths` cannot be rendered, and one entry may refer to another.
"""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as AbstractMapping
from itertools import islice
from typing import Any

from tfprov.model.yaml_node import Items, Mapping, Node

Render = Callable[[Node, str], Any]
"""Returns the value of a node for templates; the text is its path, such as `paths.data`, for messages."""


class LazyMapping(AbstractMapping[Any, Any]):
    """A mapping of the inventory; keys have YAML's types, so `1:` is a number."""

    __slots__ = ("_names", "_node", "_path", "_render")

    def __init__(self, node: Mapping, render: Render, path: str) -> None:
        self._node, self._render, self._path = node, render, path
        self._names = {_key(node, name): name for name in node.entries}

    def __getitem__(self, key: Any) -> Any:
        name = self._names[key]
        return self._render(self._node.entries[name], f"{self._path}.{name}")

    def __contains__(self, key: object) -> bool:
        return key in self._names

    def __iter__(self) -> Iterator[Any]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return repr(to_plain(self))


def _key(node: Mapping, name: str) -> Any:
    written = node.keys.get(name)
    return name if written is None or written.quoted else written.data


class LazyList(Sequence[Any]):
    """A list of the inventory; `+` joins it with another, or with a list of a template."""

    __slots__ = ("_node", "_path", "_render")

    def __init__(self, node: Items, render: Render, path: str) -> None:
        self._node, self._render, self._path = node, render, path

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return list(self)[index]
        return self._render(self._node.items[index], f"{self._path}[{index}]")

    def __len__(self) -> int:
        return len(self._node.items)

    def __eq__(self, other: object) -> bool:
        return list(self) == (list(other) if isinstance(other, LazyList) else other)

    __hash__ = None  # type: ignore[assignment]  # as of a list

    def __add__(self, other: Any) -> list[Any]:
        return [*self, *other] if isinstance(other, list | LazyList) else NotImplemented

    def __radd__(self, other: Any) -> list[Any]:
        return [*other, *self] if isinstance(other, list) else NotImplemented

    def __repr__(self) -> str:
        return repr(to_plain(self))


def to_plain(value: Any, max_items: int | None = None) -> Any:
    """Return `value` rendered as plain dicts and lists; of an iterator, the first `max_items`."""
    if isinstance(value, AbstractMapping):
        return {key: to_plain(child) for key, child in value.items()}
    if isinstance(value, list | tuple | set | frozenset | LazyList):
        return [to_plain(child) for child in value]
    if isinstance(value, Iterator):
        return [to_plain(child) for child in islice(value, max_items)]
    return value

"""What a template sees of a mapping or a list: each value in it is rendered when it is asked for, and not before.

So `{{ paths.data }}` works where another entry of `paths` cannot be rendered, and one entry may refer to another.
"""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as AbstractMapping
from itertools import islice
from typing import Any

from tfprov.model.node import Items, Mapping, Node

Look = Callable[[Node, str], Any]
"""Returns what a template sees of a node; the text is the way to it, such as `paths.data`, for messages."""


class LazyMapping(AbstractMapping[Any, Any]):
    """A mapping of the inventory; keys are what YAML reads, so `1:` is a number."""

    __slots__ = ("_look", "_names", "_node", "_way")

    def __init__(self, node: Mapping, look: Look, way: str) -> None:
        self._node, self._look, self._way = node, look, way
        self._names = {_key(node, name): name for name in node.entries}

    def __getitem__(self, key: Any) -> Any:
        name = self._names[key]
        return self._look(self._node.entries[name], f"{self._way}.{name}")

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
    """A list of the inventory; two of them, or one and a list of a template, are added with `+`."""

    __slots__ = ("_look", "_node", "_way")

    def __init__(self, node: Items, look: Look, way: str) -> None:
        self._node, self._look, self._way = node, look, way

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return list(self)[index]
        return self._look(self._node.items[index], f"{self._way}[{index}]")

    def __len__(self) -> int:
        return len(self._node.items)

    def __eq__(self, other: object) -> bool:
        return list(self) == (list(other) if isinstance(other, LazyList) else other)

    __hash__ = None  # type: ignore[assignment]  # as a list has none

    def __add__(self, other: Any) -> list[Any]:
        return [*self, *other] if isinstance(other, list | LazyList) else NotImplemented

    def __radd__(self, other: Any) -> list[Any]:
        return [*other, *self] if isinstance(other, list) else NotImplemented

    def __repr__(self) -> str:
        return repr(to_plain(self))


def to_plain(value: Any, most: int | None = None) -> Any:
    """Return `value` with everything in it rendered, as plain dicts and lists; of a series, the first `most`."""
    if isinstance(value, AbstractMapping):
        return {key: to_plain(below) for key, below in value.items()}
    if isinstance(value, list | tuple | set | frozenset | LazyList):
        return [to_plain(below) for below in value]
    if isinstance(value, Iterator):
        return [to_plain(below) for below in islice(value, most)]
    return value

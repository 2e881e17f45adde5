"""A mapping of a foreign file, read key by key; what nobody asked for is told."""

from collections.abc import Iterator, Mapping
from types import TracebackType

from tfprov.errors import Position, shown
from tfprov.importing.model import Notes, Said
from tfprov.model.node import Items, Node, Scalar
from tfprov.model.node import Mapping as Map

_NOTHING = Map()


class Fields:
    """The entries of `node`; one that is no mapping is as good as empty, and told. `path` is what messages call it.

    As a context manager it tells at its end what was not taken.
    """

    def __init__(self, node: Node | None, path: str, notes: Notes, at: Position) -> None:
        self.at = node.at if node is not None else at
        self.path, self.notes = path, notes
        self._node = node if isinstance(node, Map) else _NOTHING
        self._ahead = dict(self._node.entries)
        if node is not None and not isinstance(node, Map) and not _is_null(node):
            notes.refuse(node.at, f"`{shown(path)}` must be a mapping", "give the file as its engine takes it")

    def __enter__(self) -> "Fields":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.rest()

    def take(self, key: str) -> Node | None:
        """Return what stands at `key`, or None; a null is nothing."""
        node = self._ahead.pop(key, None)
        return None if node is None or _is_null(node) else node

    def where(self, key: str) -> Position:
        """Where `key` stands."""
        return self._node.key_at(key)

    def name(self, key: str) -> str:
        """Return what messages call `key`."""
        return f"{self.path}.{key}" if self.path else key

    def text(self, key: str) -> Said | None:
        """Return a single value as text."""
        node = self.take(key)
        if node is None:
            return None
        if not isinstance(node, Scalar):
            self.notes.refuse(node.at, f"`{shown(self.name(key))}` must be a single value", "write one")
            return None
        return Said(as_text(node), node.at)

    def whole(self, key: str) -> tuple[int, Position] | None:
        """Return a whole number."""
        said = self.text(key)
        if said is None:
            return None
        if not said.text.isdecimal() or len(said.text) > 9:
            self.notes.refuse(said.at, f"`{shown(self.name(key))}` must be a whole number", "write one, such as 1")
            return None
        return int(said.text), said.at

    def below(self, key: str) -> "Fields":
        """Return the mapping at `key`; an empty one where there is none."""
        return Fields(self.take(key), self.name(key), self.notes, self.where(key))

    def items(self, key: str) -> tuple[Node, ...]:
        """Return the list at `key`; nothing where there is none."""
        node = self.take(key)
        if node is not None and not isinstance(node, Items):
            self.notes.refuse(
                node.at, f"`{shown(self.name(key))}` must be a list", "write one item per line, with dashes"
            )
        return node.items if isinstance(node, Items) else ()

    def entries(self) -> Iterator[tuple[str, Node]]:
        """Yield all that is left, which counts as taken."""
        while self._ahead:
            key = next(iter(self._ahead))
            yield key, self._ahead.pop(key)

    def without(self, *keys: str) -> None:
        """Take what means nothing to an inventory, and is nothing to tell about."""
        for key in keys:
            self._ahead.pop(key, None)

    def refuse(self, why: Mapping[str, str]) -> None:
        """Tell why something is not carried over."""
        for key, reason in why.items():
            if self.take(key) is not None:
                self.notes.left(self.name(key), self.where(key), reason)

    def rest(self) -> None:
        """Tell what was not taken."""
        for key, node in self.entries():
            if not _is_null(node):
                self.notes.left(self.name(key), self.where(key))


def as_text(node: Scalar) -> str:
    """Return a value as the engine would take it for text: `true` is the word, whatever YAML makes of it."""
    if node.secret:  # only Ansible has such values
        return ""
    return node.text if isinstance(node.text, str) and (node.text or not node.data) else str(node.data)


def _is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.data is None

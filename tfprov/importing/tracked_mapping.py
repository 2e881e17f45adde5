"""A mapping of a foreign file, read key by key; what nobody asked for is told."""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from types import TracebackType

from tfprov.errors import Position, printable
from tfprov.importing.identify import Notes, Setting, SourceText
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
            notes.refuse(node.at, f"`{printable(path)}` must be a mapping", "give the file as its engine takes it")

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

    def text(self, key: str) -> SourceText | None:
        """Return a single value as text."""
        node = self.take(key)
        if node is None:
            return None
        if not isinstance(node, Scalar):
            self.notes.refuse(node.at, f"`{printable(self.name(key))}` must be a single value", "write one")
            return None
        return SourceText(as_text(node), node.at)

    def whole(self, key: str) -> tuple[int, Position] | None:
        """Return a whole number."""
        text = self.text(key)
        if text is None:
            return None
        if not text.text.isdecimal() or len(text.text) > 9:
            self.notes.refuse(text.at, f"`{printable(self.name(key))}` must be a whole number", "write one, such as 1")
            return None
        return int(text.text), text.at

    def below(self, key: str) -> "Fields":
        """Return the mapping at `key`; an empty one where there is none."""
        return Fields(self.take(key), self.name(key), self.notes, self.where(key))

    def items(self, key: str) -> tuple[Node, ...]:
        """Return the list at `key`; nothing where there is none."""
        node = self.take(key)
        if node is not None and not isinstance(node, Items):
            self.notes.refuse(
                node.at, f"`{printable(self.name(key))}` must be a list", "write one item per line, with dashes"
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


_QUANTITY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([EPTGMk]i?|Ki|m)?")
_POWERS = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_DOCKER = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([bkmgtBKMGT])?(?:i?[bB])?")
_DURATION = re.compile(r"(?:([0-9]{1,6})h)?(?:([0-9]{1,8})m)?(?:([0-9]{1,8})(?:\.[0-9]+)?s)?")


def quantity(text: SourceText) -> Decimal | None:
    """Return a number in Kubernetes' form: `500m`, `4Gi`."""
    match = _QUANTITY.fullmatch(text.text)
    if match is None:
        return None
    unit = match[2] or ""
    if unit == "m":
        return Decimal(match[1]) / 1000
    base = 1024 if unit.endswith("i") else 1000
    return Decimal(match[1]) * (base ** _POWERS[unit[0]] if unit else 1)


def kubernetes_memory(text: SourceText, notes: Notes) -> Setting | None:
    """Return Kubernetes' memory as an inventory has it."""
    amount = quantity(text)
    return _memory(text, notes, None if amount is None else int(amount))


def docker_memory(text: SourceText, notes: Notes) -> Setting | None:
    """Return Docker's memory as an inventory has it."""
    match = _DOCKER.fullmatch(text.text)
    power = "bkmgt".index((match[2] or "b").lower()) if match else 0
    return _memory(text, notes, int(Decimal(match[1]) * 1024**power) if match else None)


def _memory(text: SourceText, notes: Notes, amount: int | None) -> Setting | None:
    if amount is None:
        notes.left(text.text, text.at, "it is no amount of memory")
        return None
    for power, unit in ((3, "g"), (2, "m"), (1, "k")):
        if amount and amount % 1024**power == 0:
            return Setting(f"{amount // 1024**power}{unit}", text.at)
    return Setting(f"{amount}b", text.at)


def cpus(text: SourceText, notes: Notes) -> Setting | None:
    """Return a number of CPUs."""
    amount = quantity(text)
    if amount is None:
        notes.left(text.text, text.at, "it is no number of CPUs")
        return None
    return Setting(int(amount) if amount == int(amount) else float(amount), text.at)


def seconds(text: SourceText, notes: Notes) -> Setting | None:
    """Return a time such as `1m30s`, or a bare number of seconds."""
    if text.text.isdecimal() and len(text.text) < 9:
        return Setting(int(text.text), text.at)
    match = _DURATION.fullmatch(text.text)
    if match is None or not any(match.groups()):
        notes.left(text.text, text.at, "it is no time in whole seconds")
        return None
    hours, minutes, rest = (int(part or 0) for part in match.groups())
    return Setting(hours * 3600 + minutes * 60 + rest, text.at)

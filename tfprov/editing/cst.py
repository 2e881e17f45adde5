"""A concrete syntax tree of a YAML text: the offsets at which every key and value begins and ends."""

import bisect
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

import yaml

from tfprov.yamltext.parser import PARSER
from tfprov.yamltext.syntax_errors import BREAK
from tfprov.yamltext.yaml11 import resolve_tag

_COMMENT = re.compile("#[^\r\n\x85\u2028\u2029]*")
_GAP = re.compile("[ \t\r\n\x85\u2028\u2029]+")
_PROPERTY = re.compile(r"[&!][^ \t\r\n\x85\u2028\u2029,\[\]{}]*")

NodeKind = Enum("NodeKind", ["SCALAR", "MAPPING", "LIST", "ALIAS"])
NodePath = tuple[int, ...]
"""The path to a node: the number of the entry or item at every level."""


@dataclass
class CstNode:
    """A value or key and its offsets: `start` is at its anchor or tag, `inner` at the value itself.

    `style` is `'`, `"`, `|` or `>` for a scalar, `{` or `[` for a flow collection, else empty. `text` is the value of a
    scalar, or the anchor name of an alias.
    """

    kind: NodeKind
    start: int
    inner: int
    end: int
    style: str = ""
    tag: str = ""
    anchor: str | None = None
    text: str = ""
    entries: list["CollectionEntry"] = field(default_factory=list)

    @property
    def is_null(self) -> bool:
        """Whether the value is null, in any spelling."""
        return self.kind is NodeKind.SCALAR and self.tag == "null"

    @property
    def is_absent(self) -> bool:
        """Whether the value is empty: `key:`."""
        return self.kind is NodeKind.SCALAR and self.inner == self.end and not self.style

    @property
    def is_block(self) -> bool:
        """Whether this is a block collection."""
        return self.kind in (NodeKind.MAPPING, NodeKind.LIST) and not self.style

    def key(self, name: str) -> int | None:
        """Return the number of the entry with the key `name`, or None; a merge (`<<`) is no such entry."""
        for number, entry in enumerate(self.entries):
            if entry.key is not None and entry.key.kind is NodeKind.SCALAR and entry.key.text == name:
                return None if entry.is_merge else number
        return None

    def walk(self) -> Iterator["CstNode"]:
        """Yield this node and all below it, in the order of the text."""
        yield self
        for entry in self.entries:
            if entry.key is not None:
                yield entry.key
            yield from entry.value.walk()


@dataclass
class CollectionEntry:
    """An entry of a mapping, or an item of a list (without a key); `start` is the offset of the key, `?` or `-`.

    `mark` is the offset after its `:` or `-`; None if it has none, as in `{a, b}` and `[a, b]`.
    """

    key: CstNode | None
    value: CstNode
    start: int
    mark: int | None = None

    @property
    def end(self) -> int:
        """The offset after the last character of the entry."""
        head = self.key.end if self.key is not None else self.start
        return max(self.value.end, self.mark or head)

    @property
    def is_merge(self) -> bool:
        """Whether this is `<<: …`."""
        return (
            self.key is not None and self.key.kind is NodeKind.SCALAR and self.key.text == "<<" and not self.key.style
        )


@dataclass
class Document:
    """The only document in `text`, which is valid YAML without a byte order mark."""

    text: str
    root: CstNode

    @cached_property
    def breaks(self) -> list[tuple[int, int]]:
        """The offsets at which every line break begins and ends."""
        return [match.span() for match in BREAK.finditer(self.text)]

    @cached_property
    def _starts(self) -> list[int]:
        return [end for _, end in self.breaks]

    def line_number(self, offset: int) -> int:
        """Return the number of the line of `offset`, from 1."""
        return bisect.bisect_right(self._starts, offset) + 1

    def column(self, offset: int) -> int:
        """Return the column of `offset`, from 0."""
        return offset - self.line_start(offset)

    def line_start(self, offset: int) -> int:
        """Return the offset at which the line of `offset` begins."""
        number = bisect.bisect_right(self._starts, offset)
        return self._starts[number - 1] if number else 0

    def line_end(self, offset: int) -> tuple[int, int]:
        """Return where the line break after `offset` begins and ends; an empty range if the last line has none."""
        number = bisect.bisect_right(self._starts, offset)
        return self.breaks[number] if number < len(self.breaks) else (len(self.text), len(self.text))

    def eol(self, offset: int) -> str:
        """Return the line break of the line of `offset`; the most frequent one for a last line without."""
        start, end = self.line_end(offset)
        if start != end:
            return self.text[start:end]
        usual = Counter(self.text[begin:over] for begin, over in self.breaks)
        return max(usual, key=usual.__getitem__, default="\n")

    def at(self, path: NodePath) -> CstNode:
        """Return the node at `path`."""
        node = self.root
        for number in path:
            node = node.entries[number].value
        return node

    def entry(self, path: NodePath) -> CollectionEntry:
        """Return the entry at `path`, which is not empty."""
        return self.at(path[:-1]).entries[path[-1]]

    @cached_property
    def step(self) -> int:
        """The indentation of a level in this file, in columns; 2 if it has no nested mapping."""
        return self._usual(NodeKind.MAPPING, 2)

    @cached_property
    def dash_step(self) -> int:
        """The indentation of a list's dashes below a key, in columns; `step` if the file has no such list."""
        return self._usual(NodeKind.LIST, self.step)

    def _usual(self, kind: NodeKind, otherwise: int) -> int:
        steps: Counter[int] = Counter()
        for outer in self.root.walk():
            if outer.kind is NodeKind.MAPPING and outer.is_block:
                column = self.column(outer.entries[0].start)
                below = [entry.value for entry in outer.entries if entry.value.kind == kind and entry.value.is_block]
                steps.update(self.column(value.entries[0].start) - column for value in below)
        return max(steps, key=steps.__getitem__, default=otherwise)

    @cached_property
    def is_json(self) -> bool:
        """Whether the text is JSON, and must stay JSON for other programs."""
        try:
            json.loads(self.text)
        except ValueError:
            return False
        return self.root.kind is NodeKind.MAPPING


def skip_blanks(text: str, offset: int) -> int:
    """Return the first offset from `offset` on that is no blank, line break or comment."""
    while match := _GAP.match(text, offset) or _COMMENT.match(text, offset):
        offset = match.end()
    return offset


def parse_cst(text: str) -> Document:
    """Return the syntax tree of `text`, which `tfprov.yamltext.load.parse` has accepted."""
    builder = _Builder(text)
    for event in yaml.parse(text, Loader=PARSER):
        builder.handle(event)
    assert builder.root is not None
    return Document(text, builder.root)


class _Builder:
    def __init__(self, text: str) -> None:
        self.text = text
        self.root: CstNode | None = None
        self.stack: list[CstNode] = []
        self.keys: list[CstNode | None] = []

    def handle(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self.add(self.scalar(event))
        elif isinstance(event, yaml.AliasEvent):
            self.add(self.alias(event))
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self.open(event)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self.close(event)

    def alias(self, event: Any) -> CstNode:
        start, end = event.start_mark.index, event.end_mark.index
        return CstNode(NodeKind.ALIAS, start, start, end, text=event.anchor)

    def inner(self, event: Any) -> int:
        """Return the offset of a value after its anchor and tag."""
        offset, end = int(event.start_mark.index), int(event.end_mark.index)
        if getattr(event, "value", None) == "" and not event.style:
            return end
        for name in (event.anchor, event.tag):
            if name and (match := _PROPERTY.match(self.text, offset)):
                offset = skip_blanks(self.text, match.end())
        return offset

    def scalar(self, event: Any) -> CstNode:
        style = event.style or ""
        tag = resolve_tag(event, quoted=bool(style))
        inner, end = self.inner(event), event.end_mark.index
        if style in ("|", ">"):
            end = self.block_end(event, inner)
        return CstNode(NodeKind.SCALAR, event.start_mark.index, inner, end, style, tag, event.anchor, event.value)

    def block_end(self, event: Any, inner: int) -> int:
        """Return the end of a block scalar; trailing blank lines belong to it if it keeps them (`|+`)."""
        written = self.text[inner : event.end_mark.index]
        keeps = "+" in BREAK.split(written, maxsplit=1)[0].partition("#")[0]
        if keeps or event.value.rstrip("\n").endswith((" ", "\t")):
            last = [*BREAK.finditer(written)]
            return inner + (last[-1].start() if last and last[-1].end() == len(written) else len(written))
        return inner + len(written.rstrip(" \t\r\n\x85\u2028\u2029"))

    def open(self, event: Any) -> None:
        inner = self.inner(event)
        is_list = isinstance(event, yaml.SequenceStartEvent)
        style = self.text[inner] if event.flow_style else ""
        kind = NodeKind.LIST if is_list else NodeKind.MAPPING
        self.stack.append(CstNode(kind, event.start_mark.index, inner, inner, style, event.tag or "", event.anchor))
        self.keys.append(None)

    def close(self, event: Any) -> None:
        self.keys.pop()
        node = self.stack.pop()
        node.end = event.end_mark.index if node.style else node.entries[-1].end
        self.add(node)

    def add(self, node: CstNode) -> None:
        if not self.stack:
            self.root = node
            return
        outer = self.stack[-1]
        if outer.kind is NodeKind.LIST:
            outer.entries.append(self.item(outer, node))
        elif self.keys[-1] is None:
            self.keys[-1] = node
        else:
            outer.entries.append(self.pair(outer, self.keys[-1], node))
            self.keys[-1] = None

    def next_start(self, outer: CstNode) -> int:
        """Return the offset of the next entry of `outer`."""
        offset = skip_blanks(self.text, outer.entries[-1].end if outer.entries else outer.inner + len(outer.style))
        return skip_blanks(self.text, offset + 1) if outer.style and self.text[offset : offset + 1] == "," else offset

    def item(self, outer: CstNode, value: CstNode) -> CollectionEntry:
        start = self.next_start(outer)
        if outer.style:
            return CollectionEntry(None, value, start)
        return CollectionEntry(None, value, start, start + 1)

    def pair(self, outer: CstNode, key: CstNode, value: CstNode) -> CollectionEntry:
        start = self.next_start(outer)
        colon = skip_blanks(self.text, key.end)
        mark = colon + 1 if self.text[colon : colon + 1] == ":" else None
        _move_empty(value, key.end if mark is None else mark)
        return CollectionEntry(key, value, start, mark)


def _move_empty(node: CstNode, offset: int) -> None:
    """Set the offsets of an empty value to `offset`; libyaml puts it at the next token."""
    if node.is_absent and node.start == node.end:
        node.start = node.inner = node.end = offset

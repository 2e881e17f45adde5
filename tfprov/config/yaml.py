"""YAML text to nodes with positions, safely.

PyYAML's composer recurses and keeps the last of two equal keys; this one walks the parser's events with a stack of its
own, so that deep nesting, an alias bomb or a duplicate key is an error with a line instead of a crash or a surprise.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tfprov.config import syntax
from tfprov.config.scalars import ScalarError, is_scalar_tag, short_tag, tag_of, value_of
from tfprov.config.secrets import mentions_secret
from tfprov.errors import InvalidInput, Position, Problem, shown
from tfprov.model.node import Items, Mapping, Node, Scalar

MAX_BYTES = 1_000_000
MAX_DEPTH = 32
MAX_NODES = 200_000
"""After every alias is counted as often as it is used: enough for a thousand hosts with 100 values each."""

_INIT = "start from `tfprov init`"
_Parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml where it is compiled in: 8 times faster


def read(path: Path, *, fix: str = "check the path given with -i", start_from: str = _INIT) -> Node:
    """Return the one document in the file at `path`; InvalidInput names the first place where it is not YAML.

    `fix` is what to do where there is no such file, and `start_from` where it is empty.
    """
    return parse(read_bytes(path, Position(str(path)), fix=fix), str(path), start_from=start_from)


def read_bytes(path: Path, at: Position, *, fix: str, name: str = "") -> bytes:
    """Return what is in the file at `path`, cut just beyond the largest size; InvalidInput stands at `at`.

    `name` is what messages begin with where `at` is not in the file itself.
    """
    try:
        with path.open("rb") as file:  # not read_bytes: `-i /dev/zero` has no end
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise _invalid(at, f"{name}does not exist" if name else "no such file", fix) from None
    except IsADirectoryError:
        raise _invalid(at, f"{name}is a directory, not a file", "give a file in it") from None
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        what = f"{name}cannot be read: {reason.lower()}" if name else reason.lower()
        raise _invalid(at, what, "give a readable file") from None


def parse(data: bytes | str, name: str, *, start: int = 1, start_from: str = _INIT) -> Node:
    """Return the one document in `data`; `name` stands for the file in messages, `start` is its first line."""
    if len(data) > MAX_BYTES:
        raise _invalid(Position(name), f"larger than {MAX_BYTES:,} bytes", "split it into several files")
    text = _decoded(data, name, start)
    try:
        document = _Composer(name, start).compose(text)
    except yaml.reader.ReaderError as error:
        before = _before(text, error.position)
        at, found = _counted(before, name, start), shown(text[len(before) : len(before) + 1])
        raise _invalid(at, f"the character `{found}`, which YAML does not allow", "remove it") from None
    except yaml.MarkedYAMLError as error:
        raise InvalidInput([syntax.explain(error, text, name, start)]) from None
    if document is None:
        raise _invalid(Position(name), "empty", start_from)
    return document


def _before(text: str, position: int) -> str:
    """Return what stands before `position`, which libyaml counts in bytes and PyYAML's own reader in characters."""
    if _Parser is yaml.SafeLoader:
        return text[:position]
    return text.encode()[:position].decode(errors="ignore")


def _decoded(data: bytes | str, name: str, start: int) -> str:
    try:
        # A text comes from the command line, where Python hides bytes that are not UTF-8 in lone surrogates.
        return (data.encode() if isinstance(data, str) else data).decode("utf-8-sig")
    except UnicodeEncodeError as error:
        before = error.object[: error.start]
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8-sig")
    raise _invalid(_counted(before, name, start), "not UTF-8 text", "write it as UTF-8")


def _counted(before: str, name: str, start: int) -> Position:
    """Return the position behind the text `before`."""
    lines = syntax.BREAK.split(before)
    return Position(name, len(lines) - 1 + start, len(lines[-1]) + 1)


def _invalid(at: Position, what: str, fix: str = "") -> InvalidInput:
    return InvalidInput([Problem(at, what, fix)])


@dataclass
class _Open:
    """A collection whose end has not come yet."""

    at: Position
    anchor: str | None
    items: list[Node] | None = None
    entries: dict[str, Node] = field(default_factory=dict)
    keys: dict[str, Scalar] = field(default_factory=dict)
    merged: list[Mapping] = field(default_factory=list)
    key: Scalar | None = None
    size: int = 1
    height: int = 1

    @property
    def awaits_key(self) -> bool:
        """Whether what comes next is a key."""
        return self.items is None and self.key is None


class _Composer:
    def __init__(self, name: str, start: int) -> None:
        self.name, self.start = name, start
        self.anchors: dict[str, tuple[Node, int, int]] = {}
        self.stack: list[_Open] = []
        self.document: Node | None = None

    def compose(self, text: str) -> Node | None:
        for event in yaml.parse(text, Loader=_Parser):
            self.handle(event)
        return self.document

    def at(self, event: Any) -> Position:
        return Position(self.name, event.start_mark.line + self.start, event.start_mark.column + 1)

    def handle(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self.add(self.scalar(event), 1, 0, event.anchor)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self.open(event)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self.close()
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in self.anchors:
                what = f"unknown alias {self.quoted(f'*{event.anchor}')}"
                raise _invalid(self.at(event), what, "define the anchor before its use")
            self.add(*self.anchors[event.anchor], None)
        elif isinstance(event, yaml.DocumentStartEvent) and self.document is not None:
            raise _invalid(self.at(event), "a second document", "keep one document per file")

    def quoted(self, text: str) -> str:
        """Return `text` as messages show it; nothing of it where it belongs to a password."""
        secret = any(opened.key is not None and mentions_secret(opened.key.text) for opened in self.stack)
        return "`…`" if secret else f"`{shown(text)}`"

    def scalar(self, event: Any) -> Scalar:
        quoted = event.style not in (None, "")  # libyaml says "" for plain, PyYAML's own parser None
        at = self.at(event)
        if event.tag == "!unsafe":
            return Scalar(event.value, at, event.value, quoted=True, literal=True)
        if event.tag == "!vault":
            what = "a value encrypted with ansible-vault, which tfprov cannot read"
            raise _invalid(at, what, "decrypt it, or give it with `-e`")
        tag = tag_of(event, quoted=quoted)
        if not is_scalar_tag(tag):
            self.refuse_tag(tag, at)
        try:
            return Scalar(value_of(tag, event.value), at, event.value, quoted)
        except ScalarError as error:
            raise _invalid(at, f"{self.quoted(event.value)} {error}", "quote it") from None

    def refuse_tag(self, tag: str, at: Position) -> None:
        name = tag if tag.startswith("!") else f"!!{tag}"
        raise _invalid(at, f"the tag {self.quoted(name)} is not allowed here", "write a plain value")

    def open(self, event: Any) -> None:
        at = self.at(event)
        is_list = isinstance(event, yaml.SequenceStartEvent)
        if event.tag not in (None, "!") and short_tag(event.tag) != ("seq" if is_list else "map"):
            self.refuse_tag(short_tag(event.tag), at)
        if len(self.stack) >= MAX_DEPTH:
            raise _invalid(at, f"nested more than {MAX_DEPTH} levels deep", "flatten it")
        if self.stack and self.stack[-1].awaits_key:
            self.refuse_key(at, is_list=is_list)
        self.stack.append(_Open(at, event.anchor, [] if is_list else None))

    def refuse_key(self, at: Position, *, is_list: bool) -> None:
        outer = self.stack[-1].at
        if not is_list and (outer.line, outer.column + 1) == (
            at.line,
            at.column,
        ):  # YAML takes `{{ x }}` for a mapping in a mapping
            raise _invalid(outer, "a template without quotes around it", 'write "{{ … }}", and quote the whole value')
        raise _invalid(at, "a key that is not a single value", "quote a value that starts with `{` or `[`")

    def close(self) -> None:
        done = self.stack.pop()
        node = Items(tuple(done.items), done.at) if done.items is not None else self.mapping(done)
        self.add(node, done.size, done.height, done.anchor)

    def mapping(self, done: _Open) -> Mapping:
        entries, keys = done.entries, done.keys
        for below in done.merged:  # `<<`: what is written here wins, and the first of several merges over later ones
            entries = {**below.entries, **entries}
            keys = {**below.keys, **keys}
        return Mapping(entries, done.at, keys)

    def add(self, node: Node, size: int, height: int, anchor: str | None) -> None:
        if anchor is not None:
            self.anchors[anchor] = node, size, height
        if not self.stack:
            self.document = node
            return
        parent = self.stack[-1]
        parent.size += size
        parent.height = max(parent.height, height + 1)
        if parent.size > MAX_NODES:
            raise _invalid(node.at, f"more than {MAX_NODES:,} values once aliases are expanded", "write fewer aliases")
        if len(self.stack) + height > MAX_DEPTH:
            raise _invalid(node.at, f"nested more than {MAX_DEPTH} levels deep once aliases are expanded", "flatten it")
        if parent.items is not None:
            parent.items.append(node)
        else:
            self.add_entry(parent, node)

    def add_entry(self, parent: _Open, node: Node) -> None:
        if parent.key is None:
            parent.key = self.key(parent, node)
        elif parent.key.text == "<<" and not parent.key.quoted:
            parent.merged.extend(self.merged(node))
            parent.key = None
        else:
            parent.entries[parent.key.text] = node
            parent.keys[parent.key.text] = parent.key
            parent.key = None

    def key(self, parent: _Open, node: Node) -> Scalar:
        if not isinstance(node, Scalar):
            raise _invalid(node.at, "a key that is not a single value", "write a name")
        if node.text in parent.entries:
            first = parent.keys[node.text].at.line
            raise _invalid(
                node.at, f"{self.quoted(node.text)} is given twice (first on line {first})", "keep one of them"
            )
        return node

    def merged(self, node: Node) -> list[Mapping]:
        found = list(node.items) if isinstance(node, Items) else [node]
        if not all(isinstance(item, Mapping) for item in found):
            raise _invalid(node.at, "`<<` merges mappings only", "point it at a mapping's anchor")
        return [item for item in found if isinstance(item, Mapping)]

"""YAML text to nodes with positions, safely.

PyYAML's composer recurses and keeps the last of two equal keys; this one walks the parser's events with a stack of its
own, so that deep nesting, an alias bomb or a duplicate key is an error with a line instead of a crash or a surprise.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tfprov.errors import InvalidInput, Position, Problem
from tfprov.model.node import Items, Mapping, Node, Scalar

MAX_BYTES = 1_000_000
MAX_DEPTH = 32
MAX_NODES = 200_000
"""After every alias is counted as often as it is used: enough for a thousand hosts with 100 values each."""

_Parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml where it is compiled in: 8 times faster
_scalars: Any = yaml.SafeLoader("")  # resolves a plain scalar's type as every other YAML 1.1 reader does


def read(path: Path) -> Node:
    """Return the one document in the file at `path`; InvalidInput names the first place where it is not YAML."""
    shown = str(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        fix = "check the path given with -i" if not path.exists() else "give a readable file"
        raise _invalid(Position(shown), _reason(error), fix) from None
    return parse(data, shown)


def _reason(error: OSError) -> str:
    text = (error.strerror or str(error)).lower()
    return {"no such file or directory": "no such file", "is a directory": "is a directory, not a file"}.get(text, text)


def parse(data: bytes | str, name: str, *, start: int = 1) -> Node:
    """Return the one document in `data`; `name` stands for the file in messages, `start` is its first line."""
    if len(data) > MAX_BYTES:
        raise _invalid(Position(name), f"larger than {MAX_BYTES:,} bytes", "split it into several files")
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
        return _Composer(name, start).compose(text)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1  # type: ignore[arg-type]
        raise _invalid(Position(name, line, 1), "not UTF-8 text", "save the file as UTF-8") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _invalid(Position(name, line, 1), "a control character", "remove it") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = Position(name, mark.line + start, mark.column + 1) if mark else Position(name)
        raise _invalid(at, *_syntax(error)) from None


def _invalid(at: Position, what: str, fix: str = "") -> InvalidInput:
    return InvalidInput([Problem(at, what, fix)])


def _syntax(error: yaml.MarkedYAMLError) -> tuple[str, str]:
    problem = error.problem or "not valid YAML"
    if "cannot start any token" in problem:
        return (
            "a character that cannot start a value (a tab, `@`, `%` or a backtick)",
            "indent with spaces, or quote it",
        )
    if "mapping values are not allowed" in problem:
        return "a second `: ` on one line", "quote the value"
    if "unexpected end of stream" in problem or "end of stream" in problem:
        return "a quote or bracket that is never closed", "close it"
    return f"not valid YAML: {problem}", "check the indentation and quotes around here"


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


class _Composer:
    def __init__(self, name: str, start: int) -> None:
        self.name, self.start = name, start
        self.anchors: dict[str, tuple[Node, int]] = {}
        self.stack: list[_Open] = []
        self.document: Node | None = None

    def compose(self, text: str) -> Node:
        for event in yaml.parse(text, Loader=_Parser):
            self.handle(event)
        if self.document is None:
            raise _invalid(Position(self.name), "empty", "start from `tfprov init`")
        return self.document

    def at(self, event: Any) -> Position:
        return Position(self.name, event.start_mark.line + self.start, event.start_mark.column + 1)

    def handle(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self.add(self.scalar(event), event.anchor, 1)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self.open(event)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self.close()
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in self.anchors:
                raise _invalid(self.at(event), f"unknown alias `*{event.anchor}`", "define the anchor before its use")
            node, size = self.anchors[event.anchor]
            self.add(node, None, size)
        elif isinstance(event, yaml.DocumentStartEvent) and self.document is not None:
            raise _invalid(self.at(event), "a second document", "keep one document per file")

    def scalar(self, event: yaml.ScalarEvent) -> Scalar:
        quoted = event.style not in (None, "")  # libyaml says "" for plain, PyYAML's own parser None
        at, tag = self.at(event), event.tag
        if tag == "!unsafe":
            return Scalar(event.value, at, event.value, quoted=True, literal=True)
        if tag == "!vault":
            raise _invalid(
                at, "a value encrypted with ansible-vault, which tfprov cannot read", "give it in plain text"
            )
        if tag is None or tag == "!":
            implicit = (False, True) if quoted or tag == "!" else (True, False)
            tag = _scalars.resolve(yaml.ScalarNode, event.value, implicit)
        self.check_tag(tag, at)
        node = yaml.ScalarNode(tag, event.value)
        try:
            data = _scalars.construct_object(node)
        except (ValueError, OverflowError, yaml.constructor.ConstructorError) as error:
            raise _invalid(at, f"`{_short(event.value)}` is not a value ({error})", "quote it") from None
        return Scalar(data, at, event.value, quoted)

    def check_tag(self, tag: str | None, at: Position) -> None:
        known = ("str", "int", "float", "bool", "null", "timestamp", "map", "seq", "merge", "value")
        if tag is not None and tag not in {f"tag:yaml.org,2002:{name}" for name in known}:
            shown = tag.replace("tag:yaml.org,2002:", "!!")
            raise _invalid(at, f"the tag `{_short(shown)}` is not allowed", "write a plain value")

    def open(self, event: Any) -> None:
        at = self.at(event)
        self.check_tag(event.tag if event.tag != "!" else None, at)
        if len(self.stack) >= MAX_DEPTH:
            raise _invalid(at, f"nested more than {MAX_DEPTH} levels deep", "flatten it")
        if self.stack and self.stack[-1].items is None and self.stack[-1].key is None:
            raise _invalid(at, "a key that is not a single value", "quote a value that starts with `{` or `[`")
        is_list = isinstance(event, yaml.SequenceStartEvent)
        self.stack.append(_Open(at, event.anchor, [] if is_list else None))

    def close(self) -> None:
        done = self.stack.pop()
        node = Items(tuple(done.items), done.at) if done.items is not None else self.mapping(done)
        self.add(node, done.anchor, done.size)

    def mapping(self, done: _Open) -> Mapping:
        entries, keys = done.entries, done.keys
        for (
            below
        ) in done.merged:  # `<<`: what is written here wins, and the first of several merges over the later ones
            entries = {**below.entries, **entries}
            keys = {**below.keys, **keys}
        return Mapping(entries, done.at, keys)

    def add(self, node: Node, anchor: str | None, size: int) -> None:
        if anchor is not None:
            self.anchors[anchor] = node, size
        if not self.stack:
            self.document = node
            return
        parent = self.stack[-1]
        parent.size += size
        if parent.size > MAX_NODES:
            raise _invalid(node.at, f"more than {MAX_NODES:,} values once aliases are expanded", "write fewer aliases")
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
            raise _invalid(node.at, f"`{_short(node.text)}` is given twice (first on line {first})", "keep one of them")
        return node

    def merged(self, node: Node) -> list[Mapping]:
        found = list(node.items) if isinstance(node, Items) else [node]
        if not all(isinstance(item, Mapping) for item in found):
            raise _invalid(node.at, "`<<` merges mappings only", "point it at a mapping's anchor")
        return [item for item in found if isinstance(item, Mapping)]


def _short(text: str) -> str:
    line = text.replace("\n", " ")
    return line if len(line) <= 60 else line[:57] + "..."

"""Writes new values and keys: as the user typed them, and quoted where YAML would read something else."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import yaml

from tfprov.editing.cst import CstNode, Document, NodeKind, parse_cst
from tfprov.editing.semantic_diff import Semantics, alias_uses, semantics_of
from tfprov.errors import InvalidInput, Position, Problem
from tfprov.model.yaml_node import Node, plain
from tfprov.yamltext.load import parse
from tfprov.yamltext.syntax_errors import BREAK
from tfprov.yamltext.yaml11 import lint_values

_UNPRINTED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_QUOTED = ("'", '"')
NULL = Semantics(NodeKind.SCALAR, "null", None, "")
"""The meaning of the empty value in `key:`."""


@dataclass(frozen=True)
class NewValue:
    """A value to write: its syntax tree as it was typed, and the parsed value."""

    document: Document
    node: Node
    as_block: bool = False

    @classmethod
    def from_text(cls, text: str, *, as_block: bool = False) -> "NewValue":
        """Return the value of the YAML `text`; `as_block` writes it in block style, even if it has one line."""
        return cls(parse_cst(text), parse(text, "value"), as_block)

    @property
    def root(self) -> CstNode:
        """The syntax tree of the value."""
        return self.document.root

    @property
    def written(self) -> str:
        """The text of the value, without blanks and comments around it."""
        return self.document.text[self.root.start : self.root.end]

    @property
    def is_block(self) -> bool:
        """Whether the value was typed in block style: then it is written so."""
        if self.root.style in ("|", ">"):  # with an indentation indicator, its blanks count
            return not re.match(r"[|>][-+]?\d", self.document.text[self.root.inner :])
        return self.root.is_block and (self.as_block or _several_lines(self.written))

    @property
    def semantics(self) -> Semantics:
        """The meaning of the value, with which the edited file is compared."""
        return semantics_of(self.root)


def parse_value(text: str, name: str) -> NewValue:
    """Parse a typed value; InvalidInput if YAML reads it differently than it looks. `name` is its name in messages.

    A text that begins with `{{` is a template, and needs no quotes here.
    """
    if text.startswith(("{{", "{%")):
        text = _double_quote(text)
    elif _several_lines(text) and not text.endswith("\n"):
        text += "\n"  # a shell's `$(…)` removes it
    node = parse(text, name, start_from="write `''` for an empty text, and `null` for nothing")
    if problems := [replace(problem, fix=_for_a_shell(problem.fix)) for problem in lint_values(node)]:
        raise InvalidInput(problems)
    document = parse_cst(text.removeprefix("\ufeff"))
    if any(place.anchor for place in document.root.walk()) or any(True for _ in alias_uses(document)):
        raise InvalidInput([Problem(Position(name), "an anchor (`&`) in a value", "write the value itself")])
    return NewValue(document, node)


def _for_a_shell(fix: str) -> str:
    return re.sub(r'quote it: ("[^"]*")', r"quote it, for the shell too: '\1'", fix)


def emit_key(name: str, *, flow: bool, as_json: bool, like: str = "") -> str:
    """Return the text of a key; `like` is the quote of its siblings."""
    if as_json:
        return json.dumps(name, ensure_ascii=False)
    if not like and _is_plain(name, flow=flow, key=True):
        return name
    return _quote(name, like)


def emit_text(text: str, *, flow: bool) -> str:
    """Return the YAML of a text on one line, quoted only if necessary."""
    return text if _is_plain(text, flow=flow) else _quote(text)


def emit_inline(value: NewValue | None, *, flow: bool, as_json: bool, old: CstNode | None = None) -> str:
    """Return a value on one line; "" for None. `flow` is inside brackets, `old` is the replaced value."""
    if value is None:
        return "null" if as_json else ""
    if as_json:
        return json.dumps(plain(value.node), ensure_ascii=False)
    if value.root.kind is not NodeKind.SCALAR:
        is_ready = value.root.style and not _several_lines(value.written) and "#" not in value.written
        return value.written if is_ready else _emit_flow(value.document, value.root)
    return _emit_scalar(value.document, value.root, old, flow=flow)


def emit_block(value: NewValue, column: int, dash: int) -> list[str]:
    """Return the lines of a value in block style, indented to `column`, or to `dash` if it is a list.

    The first line of a block scalar is its header (`|`), which follows the key.
    """
    lines = BREAK.split(value.written)
    if value.root.style in ("|", ">"):
        return [lines[0], *_indent(lines[1:], column)]
    first = value.document.column(value.root.inner)
    lines[0] = " " * first + lines[0]
    return list(_indent(lines, dash if value.root.kind is NodeKind.LIST else column))


def _indent(lines: list[str], column: int) -> Iterator[str]:
    least = min((len(line) - len(line.lstrip(" ")) for line in lines if line.strip()), default=0)
    for line in lines:
        yield " " * column + line[least:] if line.strip() else ""


def _several_lines(text: str) -> bool:
    return BREAK.search(text) is not None


def _emit_flow(document: Document, node: CstNode) -> str:
    """Return a value of several lines in flow style."""
    if node.kind is NodeKind.SCALAR:
        return _emit_scalar(document, node, None, flow=True)
    if node.kind is NodeKind.LIST:
        return "[" + ", ".join(_emit_flow(document, entry.value) for entry in node.entries) + "]"
    pairs = ((entry.key, _emit_flow(document, entry.value)) for entry in node.entries)
    return (
        "{" + ", ".join(f"{_emit_scalar(document, key, None, flow=True)}: {text}" for key, text in pairs if key) + "}"
    )


def _emit_scalar(document: Document, node: CstNode, old: CstNode | None, *, flow: bool) -> str:
    written = document.text[node.inner : node.end]
    tag = f"{node.tag} " if node.tag.startswith("!") else ""
    if node.tag != "str" and not tag:
        return written if not node.style else _quote(node.text, node.style)
    style = _style(node, old, flow=flow) if not tag else node.style or '"'
    if style == node.style and not _several_lines(written):
        return tag + written
    return tag + (node.text if not style else _quote(node.text, style))


def _style(new: CstNode, old: CstNode | None, *, flow: bool) -> str:
    """Return the quote of a text: that of the old value if it was a choice, else the typed one, else one if needed."""
    own = new.style if new.style in _QUOTED else ""
    fits = _is_plain(new.text, flow=flow)
    if old is not None and old.kind is NodeKind.SCALAR and old.tag == "str":
        if old.style in _QUOTED and (own or _is_plain(old.text, flow=flow)):
            return old.style
        if old.style in ("", *_QUOTED) and fits:
            return ""
    if own or fits:
        return own
    return _default_style(new.text)


def _default_style(text: str) -> str:
    return "'" if ('"' in text or "\\" in text) and _is_simple(text) else '"'


def _is_simple(text: str) -> bool:
    """Whether `text` can be single-quoted, which has no escapes."""
    return text.isprintable()


def _quote(text: str, style: str | None = None) -> str:
    if (style if style in _QUOTED else _default_style(text)) == "'" and _is_simple(text):
        return "'" + text.replace("'", "''") + "'"
    return _double_quote(text)


def _double_quote(text: str) -> str:
    escaped = json.dumps(text, ensure_ascii=False)
    return _UNPRINTED.sub(lambda match: f"\\u{ord(match[0]):04x}", escaped)


def _is_plain(text: str, *, flow: bool, key: bool = False) -> bool:
    """Whether a text without quotes is read as the same text."""
    if not text.isprintable():
        return False
    line = f"{text}: 0" if key else f"k: {text}"
    try:
        root = parse_cst(f"{{{line}, z: 0}}" if flow else f"{line} # -\n").root
    except (yaml.YAMLError, ValueError):
        return False
    if root.kind is not NodeKind.MAPPING or len(root.entries) != 1 + flow:
        return False
    entry = root.entries[0]
    node = entry.key if key else entry.value
    return node is not None and (node.kind, node.text, node.tag, node.style) == (NodeKind.SCALAR, text, "str", "")

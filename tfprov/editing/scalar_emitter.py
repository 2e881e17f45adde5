"""New values and keys in the text of a file: as the user wrote them, or quoted where YAML would read something else."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import yaml

from tfprov.editing.cst import CstNode, Document, parse_cst
from tfprov.editing.semantic_diff import Semantics, alias_uses, semantics_of
from tfprov.errors import InvalidInput, Position, Problem
from tfprov.model.node import Node, plain
from tfprov.yamltext.load import parse
from tfprov.yamltext.syntax_errors import BREAK
from tfprov.yamltext.yaml11 import lint_values

_UNPRINTED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_QUOTED = ("'", '"')
NULL = Semantics("scalar", "null", None, "")
"""The value of `key:`."""


@dataclass(frozen=True)
class NewValue:
    """A value that the user gave: its place in what was typed, and what it means."""

    document: Document
    node: Node
    as_block: bool = False

    @classmethod
    def made(cls, text: str, *, as_block: bool = False) -> "NewValue":
        """Return a value that was put together here; `as_block` writes it on lines of its own, even if it is only one."""
        return cls(parse_cst(text), parse(text, "value"), as_block)

    @property
    def place(self) -> CstNode:
        """Where it stands in what was typed."""
        return self.document.root

    @property
    def written(self) -> str:
        """The value as it was typed, without what is around it."""
        return self.document.text[self.place.start : self.place.end]

    @property
    def is_block(self) -> bool:
        """Whether it was typed on several lines, by indentation: it is written in the file like this too."""
        if self.place.style in ("|", ">"):  # with a number behind it, its blanks count from where it was typed
            return not re.match(r"[|>][-+]?\d", self.document.text[self.place.inner :])
        return self.place.is_block and (self.as_block or _several_lines(self.written))

    @property
    def semantics(self) -> Semantics:
        """What a parser has to find in the file."""
        return semantics_of(self.place)


def parse_value(text: str, name: str) -> NewValue:
    """Return the value that is typed as `text`; InvalidInput where YAML reads it otherwise than it looks.

    `name` is what messages call it. A text that begins with `{{` is a template, which needs no quotes here.
    """
    if text.startswith(("{{", "{%")):
        text = _double_quote(text)
    elif _several_lines(text) and not text.endswith("\n"):
        text += "\n"  # a shell's `$(…)` takes it away
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
    """Return a key as it is written; `like` is how the keys beside it are quoted."""
    if as_json:
        return json.dumps(name, ensure_ascii=False)
    if not like and _is_plain(name, "str", flow=flow, key=True):
        return name
    return _quote(name, like)


def emit_text(text: str, *, flow: bool) -> str:
    """Return a text as it is written on one line, quoted only where it needs to be."""
    return text if _is_plain(text, "str", flow=flow) else _quote(text, "")


def emit_inline(value: NewValue | None, *, flow: bool, as_json: bool, old: CstNode | None = None) -> str:
    """Return a value on one line; "" for nothing. `flow` is inside brackets, `old` what it replaces."""
    if value is None:
        return "null" if as_json else ""
    if as_json:
        return json.dumps(plain(value.node), ensure_ascii=False)
    if value.place.kind != "scalar":
        is_ready = value.place.style and not _several_lines(value.written) and "#" not in value.written
        return value.written if is_ready else _emit_flow(value.document, value.place)
    return _emit_scalar(value.document, value.place, old, flow=flow)


def emit_block(value: NewValue, column: int, dash: int) -> list[str]:
    """Return the lines of a value that was typed on several, indented to `column`, or to `dash` where it is a list.

    The first line of a text (`|`) is what stands behind its key.
    """
    lines = BREAK.split(value.written)
    if value.place.style in ("|", ">"):
        return [lines[0], *_indent(lines[1:], column)]
    first = value.document.column(value.place.inner)
    lines[0] = " " * first + lines[0]
    return list(_indent(lines, dash if value.place.kind == "list" else column))


def _indent(lines: list[str], column: int) -> Iterator[str]:
    least = min((len(line) - len(line.lstrip(" ")) for line in lines if line.strip()), default=0)
    for line in lines:
        yield " " * column + line[least:] if line.strip() else ""


def _several_lines(text: str) -> bool:
    return BREAK.search(text) is not None


def _emit_flow(document: Document, place: CstNode) -> str:
    """Return what was typed on several lines on one."""
    if place.kind == "scalar":
        return _emit_scalar(document, place, None, flow=True)
    if place.kind == "list":
        return "[" + ", ".join(_emit_flow(document, entry.value) for entry in place.entries) + "]"
    pairs = ((entry.key, _emit_flow(document, entry.value)) for entry in place.entries)
    return (
        "{" + ", ".join(f"{_emit_scalar(document, key, None, flow=True)}: {text}" for key, text in pairs if key) + "}"
    )


def _emit_scalar(document: Document, place: CstNode, old: CstNode | None, *, flow: bool) -> str:
    written = document.text[place.inner : place.end]
    tag = f"{place.tag} " if place.tag.startswith("!") else ""
    if place.tag != "str" and not tag:
        return written if not place.style else _quote(place.text, place.style)
    style = _style(place, old, flow=flow) if not tag else place.style or '"'
    if style == place.style and not _several_lines(written):
        return tag + written
    return tag + (place.text if not style else _quote(place.text, style))


def _style(new: CstNode, old: CstNode | None, *, flow: bool) -> str:
    """Return how a text is quoted: as the one before was if that was by choice, else as it was typed, if it needs to be."""
    own = new.style if new.style in _QUOTED else ""
    fits = _is_plain(new.text, "str", flow=flow)
    if old is not None and old.kind == "scalar" and old.tag == "str":
        if old.style in _QUOTED and (own or _is_plain(old.text, "str", flow=flow)):
            return old.style
        if old.style in ("", *_QUOTED) and fits:
            return ""
    if own or fits:
        return own
    return _default_style(new.text)


def _default_style(text: str) -> str:
    return "'" if ('"' in text or "\\" in text) and _is_simple(text) else '"'


def _is_simple(text: str) -> bool:
    """Whether single quotes can hold it: they have no escapes."""
    return text.isprintable()


def _quote(text: str, style: str) -> str:
    if (style if style in _QUOTED else _default_style(text)) == "'" and _is_simple(text):
        return "'" + text.replace("'", "''") + "'"
    return _double_quote(text)


def _double_quote(text: str) -> str:
    escaped = json.dumps(text, ensure_ascii=False)
    return _UNPRINTED.sub(lambda found: f"\\u{ord(found[0]):04x}", escaped)


def _is_plain(text: str, tag: str, *, flow: bool, key: bool = False) -> bool:
    """Whether a text says the same without quotes, and looks like what it says."""
    if not text.isprintable():
        return False
    around = f"{text}: 0" if key else f"k: {text}"
    try:
        root = parse_cst(f"{{{around}, z: 0}}" if flow else f"{around} # -\n").root
    except (yaml.YAMLError, ValueError):
        return False
    if root.kind != "mapping" or not root.entries or len(root.entries) != 1 + flow:
        return False
    entry = root.entries[0]
    found = entry.key if key else entry.value
    is_text = found is not None and (found.kind, found.text, found.tag, found.style) == ("scalar", text, tag, "")
    return is_text and found is not None and found.anchor is None

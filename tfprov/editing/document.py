"""Checked edits of a YAML file: each changes one value or key and keeps every other byte, or is refused."""

import bisect
import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tfprov.editing.cst import CstNode, Document, NodePath, parse_cst
from tfprov.editing.scalar_emitter import NULL, NewValue, emit_inline
from tfprov.editing.semantic_diff import (
    Semantics,
    affected_aliases,
    alias_outside,
    semantics_of,
    with_entry,
    with_key,
    with_value,
    without_entry,
)
from tfprov.editing.text_edits import (
    CannotEdit,
    TextEdit,
    apply_edits,
    insert_edits,
    remove_edits,
    rename_edits,
    replace_edits,
)
from tfprov.errors import InvalidInput, Position, Problem
from tfprov.vault.redaction import redact_line
from tfprov.yamltext.load import PAIR_LENGTH, parse_json_or_yaml, without_pairs

BOM = "\ufeff"


class ListIndex(str):
    """A name of a path that was written as `[0]`: the number of an element, and no key."""

    __slots__ = ()


@dataclass(frozen=True)
class EditableFile:
    """A YAML file: its name in messages, and its syntax tree."""

    name: str
    document: Document
    bom: str

    @property
    def text(self) -> str:
        """The whole text of the file."""
        return self.bom + self.document.text

    def position(self, offset: int) -> Position:
        """Return the line and column of `offset`."""
        return Position(self.name, self.document.line_number(offset), self.document.column(offset) + 1)

    def refuse(self, node: CstNode, what: str, fix: str) -> InvalidInput:
        """Return the error that refuses an edit at `node`."""
        return InvalidInput([Problem(self.position(node.start), what, fix)])


@dataclass(frozen=True)
class EditedFile:
    """A file after an edit of `line`; `shared` are the lines of the aliases whose values change with it."""

    source: EditableFile
    line: int
    shared: tuple[int, ...]


def parse_file(data: bytes, name: str) -> EditableFile:
    """Return the file with the content `data`; InvalidInput if it is not YAML."""
    parse_json_or_yaml(data, name)
    text = data.decode("utf-8")
    bom = BOM if text.startswith(BOM) else ""
    return EditableFile(name, _parse_document(text.removeprefix(BOM)), bom)


def _parse_document(text: str) -> Document:
    joined, pairs = without_pairs(text)
    document = parse_cst(joined)
    if not pairs:
        return document
    shorter = PAIR_LENGTH - 1  # of the text in which one character stands for each pair
    joints = [start - number * shorter for number, start in enumerate(pairs)]

    def offset(at: int) -> int:
        return at + shorter * bisect.bisect_left(joints, at)

    for node in document.root.walk():
        node.start, node.inner, node.end = offset(node.start), offset(node.inner), offset(node.end)
        for entry in node.entries:
            entry.start = offset(entry.start)
            entry.mark = None if entry.mark is None else offset(entry.mark)
    return replace(document, text=text)


def replace_value(source: EditableFile, path: NodePath, value: NewValue) -> EditedFile:
    """Replace the value at `path`."""
    value = _in_file_format(source, value)
    _require_anchors_unused(source, source.document.at(path), itself=False)
    expected = with_value(semantics_of(source.document.root), path, value.semantics)
    after = _apply_checked(source, path, lambda: replace_edits(source.document, path, value), expected)
    return _result(source, after, path, after.line_number(after.entry(path).start))


def add_entry(source: EditableFile, path: NodePath, names: Sequence[str], value: NewValue | None) -> EditedFile:
    """Add an entry to the collection at `path`; the arguments are those of `text_edits.insert_edits`."""
    value = None if value is None else _in_file_format(source, value)
    inside = NULL if value is None else value.semantics
    for name in reversed(names[1:]):
        inside = with_entry(NULL, (), name, inside)
    expected = with_entry(semantics_of(source.document.root), path, names[0] if names else None, inside)
    after = _apply_checked(source, path, lambda: insert_edits(source.document, path, names, value), expected)
    return _result(source, after, path, after.line_number(after.at(path).entries[-1].start))


def remove_entry(source: EditableFile, path: NodePath, *, leave_nothing: bool = False) -> EditedFile:
    """Remove the entry at `path`; `leave_nothing` is that of `text_edits.remove_edits`."""
    document = source.document
    entry, outer = document.entry(path), document.at(path[:-1])
    for removed in (entry.key, entry.value):
        if removed is not None:
            _require_anchors_unused(source, removed)
    expected = without_entry(semantics_of(document.root), path)
    if len(outer.entries) == 1 and outer.is_block and leave_nothing:
        expected = with_value(expected, path[:-1], NULL)
    after = _apply_checked(source, path, lambda: remove_edits(document, path, leave_nothing=leave_nothing), expected)
    return _result(source, after, path[:-1], document.line_number(entry.start))


def rename_key(source: EditableFile, path: NodePath, name: str) -> EditedFile:
    """Rename the key of the entry at `path`."""
    expected = with_key(semantics_of(source.document.root), path, name)
    after = _apply_checked(source, path, lambda: rename_edits(source.document, path, name), expected)
    return _result(source, after, path[:-1], after.line_number(after.entry(path).start))


def _in_file_format(source: EditableFile, value: NewValue) -> NewValue:
    """Return a value as JSON if the file is JSON."""
    return NewValue.from_text(emit_inline(value, flow=True, as_json=True)) if source.document.is_json else value


def _require_anchors_unused(source: EditableFile, removed: CstNode, *, itself: bool = True) -> None:
    if use := alias_outside(source.document, removed, itself=itself):
        line = source.document.line_number(use.alias.start)
        what = f"`&{use.alias.text}` is defined here, and line {line} needs it"
        raise source.refuse(use.target, what, f"replace `*{use.alias.text}` on line {line} first")


def _apply_checked(
    source: EditableFile, path: NodePath, find: Callable[[], list[TextEdit]], expected: Semantics
) -> Document:
    """Apply the edits of `find`; InvalidInput unless the result has exactly the meaning `expected`."""
    why = ""
    try:
        after = _parse_or_none(apply_edits(source.document.text, find()), source.name)
        if after is not None and _normalize(semantics_of(after.root)) == _normalize(expected):
            return after
    except CannotEdit as error:
        why = f": there is {error}"
    offset = source.document.entry(path).start if path else source.document.root.start
    what = f"this cannot be changed without changing more of the text{why}"
    raise InvalidInput([Problem(source.position(offset), what, "edit the file by hand")])


def _result(source: EditableFile, after: Document, path: NodePath, line: int) -> EditedFile:
    shared = tuple(source.document.line_number(alias.start) for alias in affected_aliases(source.document, path))
    return EditedFile(replace(source, document=after), line, shared)


def _parse_or_none(text: str, name: str) -> Document | None:
    try:
        parse_json_or_yaml(text, name)
    except InvalidInput:
        return None
    return _parse_document(text)


def _normalize(semantics: Semantics) -> Semantics:
    """Return `semantics` without notation: tags of plain collections, and spellings of null."""
    entries = tuple((key and _normalize(key), _normalize(value)) for key, value in semantics.entries)
    tag = "" if semantics.tag in ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq", "!") else semantics.tag
    return Semantics(semantics.kind, tag, semantics.anchor, "" if tag == "null" else semantics.text, entries)


def unified_diff(name: str, old: str, new: str) -> list[str]:
    """Return the lines of a unified diff; text after the name of a password is left out."""
    lines = difflib.unified_diff(_lines(old), _lines(new), f"{name} (before)", f"{name} (after)", n=3)
    printed = []
    for number, line in enumerate(lines):
        text = line.rstrip("\r\n")
        printed.append(_printable(text if number < 2 else redact_line(text)))
        if not line.endswith("\n"):
            printed.append("\\ No newline at end of file")
    return printed


def _lines(text: str) -> list[str]:
    *whole, last = text.split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])


def _printable(text: str) -> str:
    return "".join(c if c == "\t" or c.isprintable() else "\ufffd" for c in text)

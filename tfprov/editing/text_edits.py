"""The smallest text edits that replace, add or remove a value; all other bytes stay."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tfprov.editing.cst import CollectionEntry, CstNode, Document, NodeKind, NodePath, skip_blanks
from tfprov.editing.scalar_emitter import NewValue, emit_block, emit_inline, emit_key


class CannotEdit(ValueError):
    """More of the text than the value would have to change; the message says why."""


@dataclass(frozen=True, slots=True, order=True)
class TextEdit:
    """Replaces the text between two offsets by `new`."""

    start: int
    end: int
    new: str = ""


def apply_edits(text: str, edits: Iterable[TextEdit]) -> str:
    """Return `text` with all `edits`, which do not overlap."""
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.new + text[edit.end :]
    return text


def is_in_flow(document: Document, path: NodePath) -> bool:
    """Whether the node at `path` is inside `{…}` or `[…]`, where indentation has no meaning."""
    node = document.root
    for number in path:
        if node.style:
            return True
        node = node.entries[number].value
    return False


def replace_edits(document: Document, path: NodePath, value: NewValue) -> list[TextEdit]:
    """Return the edits that replace the value at `path`; its anchor stays, its tag is removed."""
    entry, flow = document.entry(path), is_in_flow(document, path)
    old = entry.value
    if value.is_block and entry.key is not None and not flow and not document.is_json:
        return _replace_by_block(
            document, entry, _block_lines(document, entry.start, value), value.root.style in ("|", ">")
        )
    text = emit_inline(value, flow=flow, as_json=document.is_json, old=old)
    if not old.is_block and old.anchor and "!" not in document.text[old.start : old.inner] and not old.is_absent:
        return [TextEdit(old.inner, old.end, text)]
    anchor = f"&{old.anchor} " if old.anchor else ""
    if not old.is_block or document.line_number(old.inner) == document.line_number(head_end(document, entry)):
        return [_replace_inline(document, entry, anchor + text)]
    if old.anchor and document.line_number(old.start) == document.line_number(head_end(document, entry)):
        head = TextEdit(old.start, head_end(document, entry), anchor + text)
    else:
        head = TextEdit(_require_mark(entry), _require_mark(entry), f" {anchor}{text}")
    start, end = _value_lines(document, entry)
    if document.line_end(end - 1)[0] == end:  # the last line has no line break: then the one before gets none
        start = document.line_end(_require_mark(entry))[0]
    return [head, TextEdit(start, end)]


def rename_edits(document: Document, path: NodePath, name: str) -> list[TextEdit]:
    """Return the edits that rename the key of the entry at `path`; its quotes stay."""
    key = document.entry(path).key
    assert key is not None
    like = key.style if key.style in ("'", '"') else ""
    text = emit_key(name, flow=is_in_flow(document, path), as_json=document.is_json, like=like)
    return [TextEdit(key.inner, key.end, text)]


def _replace_inline(document: Document, entry: CollectionEntry, text: str) -> TextEdit:
    old = entry.value
    if old.start < old.end:
        return TextEdit(old.start, old.end, text)
    if entry.mark is None:
        return TextEdit(old.start, old.start, f": {text}")
    is_padded = document.text[entry.mark : entry.mark + 2] in (" ,", " }", " ]")
    return TextEdit(entry.mark, entry.mark + is_padded, f" {text}")


def _replace_by_block(document: Document, entry: CollectionEntry, lines: list[str], is_text: bool) -> list[TextEdit]:
    """Replace a value by lines below its key."""
    old, mark = entry.value, _require_mark(entry)
    head = f" &{old.anchor}" * bool(old.anchor) + (f" {lines[0]}" if is_text else "")
    below = lines[1:] if is_text else lines
    if old.is_block and document.line_number(old.inner) != document.line_number(mark):
        head_edit = TextEdit(mark, head_end(document, entry) if old.anchor else mark, head)
        return [head_edit, _insert_below(document, mark, *_value_lines(document, entry), below)]
    start, end = document.line_end(max(old.end, mark))
    return [TextEdit(mark, max(old.end, mark), head), _insert_below(document, start, end, end, below)]


def _insert_below(document: Document, head: int, start: int, end: int, lines: Sequence[str]) -> TextEdit:
    eol = document.eol(head)
    if document.line_end(head) == (len(document.text), len(document.text)):
        return TextEdit(len(document.text), len(document.text), "".join(eol + line for line in lines))
    closing = eol if end == start or document.text[start:end].endswith(("\n", "\r")) else ""
    return TextEdit(start, end, eol.join(lines) + closing)


def _require_mark(entry: CollectionEntry) -> int:
    if entry.mark is None:
        raise CannotEdit("a key without a value")
    return entry.mark


def head_end(document: Document, entry: CollectionEntry) -> int:
    """Return the end of what precedes a value: the key's `:`, or the anchor and tag."""
    value = entry.value
    if value.start == value.inner:
        return _require_mark(entry)
    return value.start + len(document.text[value.start : value.inner].split("#")[0].rstrip())


def _value_lines(document: Document, entry: CollectionEntry) -> tuple[int, int]:
    """Return the offsets of the lines of a collection that begins below its key."""
    start = document.line_end(_require_mark(entry))[1]
    return start, document.line_end(entry.value.end)[1]


def last_line(document: Document, entry: CollectionEntry) -> int:
    """Return an offset in the last line of an entry, with the deeper indented comments below it."""
    column, offset = document.column(entry.start), entry.end
    _, ahead = document.line_end(offset)
    while ahead < len(document.text):
        start, over = document.line_end(ahead)
        line = document.text[ahead:start]
        text = line.lstrip(" \t")
        if text and not (text.startswith("#") and len(line) - len(text) > column):
            break
        offset = ahead if text else offset
        ahead = over
    return offset


def _block_lines(document: Document, start: int, value: NewValue) -> list[str]:
    column = document.column(start)
    return emit_block(value, column + document.step, column + document.dash_step)


def insert_edits(document: Document, path: NodePath, names: Sequence[str], value: NewValue | None) -> list[TextEdit]:
    """Return the edits that add an entry after the others of the collection at `path`, which may be null.

    The first of `names` is the key of the entry, each other name the only key of the mapping before it; without names,
    `value` is an item of a list.
    """
    node, flow = document.at(path), is_in_flow(document, path)
    if node.style:
        return _insert_in_flow(document, node, _entry_inline(document, names, value, _key_quotes(node)))
    if node.is_block:
        column = document.column(node.entries[0].start)
        lines = _entry_lines(document, names, value, column, _key_quotes(node))
        offset = last_line(document, node.entries[-1])
        return [_new_lines(document, offset, lines)]
    entry = document.entry(path)
    if flow or document.is_json:
        return [_replace_inline(document, entry, f"{{{_entry_inline(document, names, value, '')}}}")]
    column = document.column(entry.start) + document.step
    mark = head_end(document, entry) if node.is_absent else _require_mark(entry)
    head = [] if node.is_absent else [TextEdit(mark, node.end, f" &{node.anchor}" * bool(node.anchor))]
    lines = _entry_lines(document, names, value, column, "")
    return [*head, _new_lines(document, max(node.end, mark), lines)]


def _new_lines(document: Document, offset: int, lines: Sequence[str]) -> TextEdit:
    """Insert lines below the line of `offset`; a last line without line break stays without."""
    eol = document.eol(offset)
    start, end = document.line_end(offset)
    if start == end:
        return TextEdit(end, end, "".join(eol + line for line in lines))
    return TextEdit(end, end, "".join(line + eol for line in lines))


def _key_quotes(node: CstNode) -> str:
    key = node.entries[-1].key if node.entries else None
    return key.style if key is not None and key.style in ("'", '"') else ""


def _entry_lines(document: Document, names: Sequence[str], value: NewValue | None, column: int, like: str) -> list[str]:
    pad, step = " " * column, document.step
    if not names:
        text = emit_inline(value, flow=False, as_json=False)
        return [f"{pad}- {text}".rstrip(" ")]
    key = emit_key(names[0], flow=False, as_json=False, like=like)
    if len(names) > 1:
        return [f"{pad}{key}:", *_entry_lines(document, names[1:], value, column + step, "")]
    if value is not None and value.is_block:
        lines = emit_block(value, column + step, column + document.dash_step)
        return (
            [f"{pad}{key}: {lines[0]}", *lines[1:]] if value.root.kind is NodeKind.SCALAR else [f"{pad}{key}:", *lines]
        )
    return [f"{pad}{key}: {emit_inline(value, flow=False, as_json=False)}".rstrip(" ")]


def _entry_inline(document: Document, names: Sequence[str], value: NewValue | None, like: str) -> str:
    as_json = document.is_json
    text = emit_inline(value, flow=True, as_json=as_json)
    for number, name in reversed([*enumerate(names)]):
        key = emit_key(name, flow=True, as_json=as_json, like="" if number else like)
        text = f"{key}: {text}" if number == 0 else f"{{{key}: {text}}}"
    return text


def _insert_in_flow(document: Document, node: CstNode, entry: str) -> list[TextEdit]:
    text = document.text
    if not node.entries:
        is_padded = text[node.inner + 1] == " "
        return [TextEdit(node.inner + 1, node.inner + 1, " " + entry.rstrip(" ") if is_padded else entry)]
    last = node.entries[-1]
    end = flow_entry_end(document, last)
    behind = skip_blanks(text, last.end)
    trailing = text[behind] == ","
    if has_own_lines(document, last) and not text[document.line_start(node.end - 1) : node.end - 1].strip():
        line = " " * document.column(last.start) + (entry.rstrip(" ") if not trailing else entry) + "," * trailing
        new = _new_lines(document, behind if trailing else last.end, [line])
        return [new] if trailing else [TextEdit(end, end, ","), new]
    return [TextEdit(behind + 1, behind + 1, f" {entry},")] if trailing else [TextEdit(end, end, f", {entry}")]


def flow_entry_end(document: Document, entry: CollectionEntry) -> int:
    """Return the end of an entry in brackets; in `{a: , b: }` the blank after `:` belongs to it."""
    is_padded = entry.value.is_absent and entry.mark is not None and document.text[entry.end : entry.end + 1] == " "
    return entry.end + is_padded


def has_own_lines(document: Document, entry: CollectionEntry) -> bool:
    """Whether an entry in brackets shares its lines with no other."""
    text = document.text
    behind = skip_blanks(text, entry.end)
    end = behind + 1 if text[behind] == "," else entry.end
    rest = text[end : document.line_end(end)[0]].strip()
    return not text[document.line_start(entry.start) : entry.start].strip() and (not rest or rest.startswith("#"))


def remove_edits(document: Document, path: NodePath, *, leave_nothing: bool) -> list[TextEdit]:
    """Return the edits that remove the entry at `path`, with the comments on its lines and deeper ones below it.

    A block collection without entries becomes empty (`hosts:`) with `leave_nothing`, else `{}` or `[]`.
    """
    outer = document.at(path[:-1])
    if outer.style:
        return _remove_from_flow(document, outer, path[-1])
    entry = outer.entries[path[-1]]
    if document.text[document.line_start(entry.start) : entry.start].strip():
        return [_remove_from_shared_line(document, outer, path[-1])]
    if len(outer.entries) > 1:
        return [_remove_lines(document, entry)]
    empty = "[]" if outer.kind is NodeKind.LIST else "{}"
    if len(path) == 1:
        start, end = document.line_start(entry.start), document.line_end(last_line(document, entry))[0]
        return [TextEdit(start, end, empty)]
    head = head_end(document, document.entry(path[:-1]))
    return [_remove_lines(document, entry), *([] if leave_nothing else [TextEdit(head, head, f" {empty}")])]


def _remove_lines(document: Document, entry: CollectionEntry) -> TextEdit:
    start, (end, over) = document.line_start(entry.start), document.line_end(last_line(document, entry))
    if end < over or start == 0:
        return TextEdit(start, over)
    # The last line has no line break: then the one before gets none.
    return TextEdit(document.line_end(start - 1)[0], end)


def _remove_from_shared_line(document: Document, outer: CstNode, number: int) -> TextEdit:
    """Remove `a` of `- a: 1`."""
    entry = outer.entries[number]
    if len(outer.entries) == 1:
        return TextEdit(entry.start, entry.end, "[]" if outer.kind is NodeKind.LIST else "{}")
    following = outer.entries[number + 1]
    if document.text[entry.end : following.start].strip():
        raise CannotEdit("a comment after it")
    return TextEdit(entry.start, following.start)


def _remove_from_flow(document: Document, outer: CstNode, number: int) -> list[TextEdit]:
    entry, text = outer.entries[number], document.text
    is_last = number == len(outer.entries) - 1
    comma = skip_blanks(text, entry.end)
    trailing = text[comma] == ","
    before = skip_blanks(text, outer.entries[number - 1].end) if number else None
    if has_own_lines(document, entry):
        start, end = document.line_start(entry.start), document.line_end(comma if trailing else entry.end)[1]
        own = TextEdit(start, end)
        return [own, TextEdit(before, before + 1)] if is_last and not trailing and before is not None else [own]
    if not is_last:
        start, end = entry.start, outer.entries[number + 1].start
    elif before is not None:
        start, end = (before + 1, comma + 1) if trailing else (before, flow_entry_end(document, entry))
    else:
        start, end = entry.start, comma + 1 if trailing else flow_entry_end(document, entry)
        is_padded = text[start - 1] == " " and text[end : end + 1] == " "
        start -= is_padded
    if "#" in text[start : entry.start] or "#" in text[entry.end : end]:
        raise CannotEdit("a comment beside it")
    return [TextEdit(start, end)]

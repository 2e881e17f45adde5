"""The smallest cut that takes one entry out of a YAML text: its lines, or what is between two commas."""

from tfprov.config.edit.splice import CannotSplice, Splice, head_end, is_on_its_own, last_line, seen_end
from tfprov.config.edit.tree import Document, Entry, Path, Place, skip


def cut(document: Document, path: Path, *, leave_nothing: bool) -> list[Splice]:
    """Return what takes away the entry at `path`, with the comments on its lines and deeper ones below it.

    A collection by indentation that is empty then becomes nothing (`hosts:`) with `leave_nothing`, else `{}` or `[]`.
    """
    outer = document.at(path[:-1])
    if outer.style:
        return _from_brackets(document, outer, path[-1])
    entry = outer.entries[path[-1]]
    if document.text[document.line_start(entry.start) : entry.start].strip():
        return [_from_shared_line(document, outer, path[-1])]
    if len(outer.entries) > 1:
        return [_lines(document, entry)]
    empty = "[]" if outer.kind == "list" else "{}"
    if len(path) == 1:
        start, end = document.line_start(entry.start), document.line_end(last_line(document, entry))[0]
        return [Splice(start, end, empty)]
    head = head_end(document, document.entry(path[:-1]))
    return [_lines(document, entry), *([] if leave_nothing else [Splice(head, head, f" {empty}")])]


def _lines(document: Document, entry: Entry) -> Splice:
    start, (end, over) = document.line_start(entry.start), document.line_end(last_line(document, entry))
    if end < over or start == 0:
        return Splice(start, over)
    return Splice(document.line_end(start - 1)[0], end)  # the last line has no end, and the one before it gets none


def _from_shared_line(document: Document, outer: Place, number: int) -> Splice:
    """Take away `a` of `- a: 1`."""
    entry = outer.entries[number]
    if len(outer.entries) == 1:
        return Splice(entry.start, entry.end, "[]" if outer.kind == "list" else "{}")
    following = outer.entries[number + 1]
    if document.text[entry.end : following.start].strip():
        raise CannotSplice("a comment behind it")
    return Splice(entry.start, following.start)


def _from_brackets(document: Document, outer: Place, number: int) -> list[Splice]:
    entry, text = outer.entries[number], document.text
    is_last = number == len(outer.entries) - 1
    comma = skip(text, entry.end)
    trailing = text[comma] == ","
    before = skip(text, outer.entries[number - 1].end) if number else None
    if is_on_its_own(document, entry):
        start, end = document.line_start(entry.start), document.line_end(comma if trailing else entry.end)[1]
        own = Splice(start, end)
        return [own, Splice(before, before + 1)] if is_last and not trailing and before is not None else [own]
    if not is_last:
        start, end = entry.start, outer.entries[number + 1].start
    elif before is not None:
        start, end = (before + 1, comma + 1) if trailing else (before, seen_end(document, entry))
    else:
        start, end = entry.start, comma + 1 if trailing else seen_end(document, entry)
        is_padded = text[start - 1] == " " and text[end : end + 1] == " "
        start -= is_padded
    if "#" in text[start : entry.start] or "#" in text[entry.end : end]:
        raise CannotSplice("a comment beside it")
    return [Splice(start, end)]

"""Edits of a YAML text that change one thing and leave every other byte as it is, or refuse."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tfprov.editing.cst import Document, Path, Place, read_document
from tfprov.editing.scalar_emitter import NOTHING, Value, inline
from tfprov.editing.semantic_diff import Shape, added, kept_elsewhere, removed, renamed, replaced, shape, sharers
from tfprov.editing.text_edits import CannotSplice, Splice, add, change, cut, rename, spliced
from tfprov.errors import InvalidInput, Position, Problem
from tfprov.yamltext.load import parse

BOM = "\ufeff"


@dataclass(frozen=True)
class Source:
    """A file that can be edited: its name in messages, and the places in its text."""

    name: str
    document: Document
    bom: str = ""

    @property
    def text(self) -> str:
        """All of the file."""
        return self.bom + self.document.text

    def position(self, offset: int) -> Position:
        """Return where `offset` is, as messages say it."""
        return Position(self.name, self.document.line_number(offset), self.document.column(offset) + 1)

    def refuse(self, place: Place, what: str, fix: str) -> InvalidInput:
        """Return the error that says why what stands at `place` stays as it is."""
        return InvalidInput([Problem(self.position(place.start), what, fix)])


@dataclass(frozen=True)
class Edited:
    """A source after an edit; `line` is where, and `shared` are the lines of the aliases that change with it."""

    source: Source
    line: int
    shared: tuple[int, ...] = ()


def read_source(data: bytes, name: str) -> Source:
    """Return the file with the content `data`; InvalidInput where it cannot be read as YAML."""
    parse(data, name)
    text = data.decode("utf-8")
    bom = BOM if text.startswith(BOM) else ""
    return Source(name, read_document(text.removeprefix(BOM)), bom)


def put(source: Source, path: Path, value: Value) -> Edited:
    """Put `value` in the place of the one at `path`."""
    value = _as_in(source, value)
    _keep_anchors(source, source.document.at(path), itself=False)
    expected = replaced(shape(source.document.root), path, value.shape)
    after = _after(source, path, lambda: change(source.document, path, value), expected)
    return _edited(source, after, path, after.line_number(after.entry(path).start))


def add_entry(source: Source, path: Path, names: Sequence[str], value: Value | None) -> Edited:
    """Add an entry to the collection at `path`; `names` and `value` as in `tfprov.editing.text_edits.add`."""
    value = None if value is None else _as_in(source, value)
    inside = NOTHING if value is None else value.shape
    for name in reversed(names[1:]):
        inside = added(NOTHING, (), name, inside)
    expected = added(shape(source.document.root), path, names[0] if names else None, inside)
    after = _after(source, path, lambda: add(source.document, path, names, value), expected)
    return _edited(source, after, path, after.line_number(after.at(path).entries[-1].start))


def remove(source: Source, path: Path, *, leave_nothing: bool = False) -> Edited:
    """Take the entry at `path` away; see `tfprov.editing.text_edits.cut`."""
    document = source.document
    entry, outer = document.entry(path), document.at(path[:-1])
    for gone in (entry.key, entry.value):
        if gone is not None:
            _keep_anchors(source, gone)
    expected = removed(shape(document.root), path)
    if len(outer.entries) == 1 and outer.is_block and leave_nothing:
        expected = replaced(expected, path[:-1], NOTHING)
    after = _after(source, path, lambda: cut(document, path, leave_nothing=leave_nothing), expected)
    return _edited(source, after, path[:-1], document.line_number(entry.start))


def give_name(source: Source, path: Path, name: str) -> Edited:
    """Give the entry at `path` another key."""
    expected = renamed(shape(source.document.root), path, name)
    after = _after(source, path, lambda: rename(source.document, path, name), expected)
    return _edited(source, after, path[:-1], after.line_number(after.entry(path).start))


def _as_in(source: Source, value: Value) -> Value:
    """Return a value as JSON where the file is JSON."""
    return Value.made(inline(value, flow=True, as_json=True)) if source.document.is_json else value


def _keep_anchors(source: Source, gone: Place, *, itself: bool = True) -> None:
    if use := kept_elsewhere(source.document, gone, itself=itself):
        line = source.document.line_number(use.alias.start)
        what = f"`&{use.alias.text}` is defined here, and line {line} needs it"
        raise source.refuse(use.target, what, f"replace `*{use.alias.text}` on line {line} first")


def _after(source: Source, path: Path, find: Callable[[], list[Splice]], expected: Shape) -> Document:
    """Return what the splices make of the text, having looked whether it says what it should, and only that."""
    why = ""
    try:
        after = _understood(spliced(source.document.text, find()), source.name)
        if after is not None and _told(shape(after.root)) == _told(expected):
            return after
    except CannotSplice as error:
        why = f": there is {error}"
    place = source.document.entry(path).start if path else source.document.root.start
    what = f"this is written so that it cannot be changed without touching more{why}"
    raise InvalidInput([Problem(source.position(place), what, "edit the file by hand")])


def _edited(source: Source, after: Document, path: Path, line: int) -> Edited:
    shared = tuple(source.document.line_number(alias.start) for alias in sharers(source.document, path))
    return Edited(replace(source, document=after), line, shared)


def _understood(text: str, name: str) -> Document | None:
    try:
        parse(text, name)
    except InvalidInput:
        return None
    return read_document(text)


def _told(of: Shape) -> Shape:
    """Return a shape without what only says how a collection, or nothing, is written."""
    entries = tuple((key and _told(key), _told(value)) for key, value in of.entries)
    tag = "" if of.tag in ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq", "!") else of.tag
    return Shape(of.kind, tag, of.anchor, "" if tag == "null" else of.text, entries)

"""What a YAML document says, without how it is written: an edit changes this where it should, and nowhere else."""

from collections.abc import Iterator
from dataclasses import dataclass

from tfprov.editing.cst import Document, Entry, Path, Place


@dataclass(frozen=True, slots=True)
class Shape:
    """A value as a parser tells it: its tag and anchor, its text or the name of its alias, and what is in it."""

    kind: str
    tag: str
    anchor: str | None
    text: str
    entries: tuple[tuple["Shape | None", "Shape"], ...] = ()


def shape(place: Place) -> Shape:
    """Return what stands at `place`; aliases are not followed, so what they stand for is compared where it is written."""
    entries = tuple((None if entry.key is None else shape(entry.key), shape(entry.value)) for entry in place.entries)
    return Shape(place.kind, place.tag, place.anchor, place.text, entries)


def replaced(outer: Shape, path: Path, value: Shape) -> Shape:
    """Return `outer` with `value` at `path`; an anchor there stays."""
    if not path:
        return Shape(value.kind, value.tag, outer.anchor, value.text, value.entries)
    entries = list(outer.entries)
    key, below = entries[path[0]]
    entries[path[0]] = key, replaced(below, path[1:], value)
    return _with(outer, entries)


def renamed(outer: Shape, path: Path, name: str) -> Shape:
    """Return `outer` with another key at `path`."""
    entries = list(outer.entries)
    key, below = entries[path[0]]
    if len(path) > 1:
        entries[path[0]] = key, renamed(below, path[1:], name)
    else:
        entries[path[0]] = Shape("scalar", "str", key.anchor if key else None, name), below
    return _with(outer, entries)


def removed(outer: Shape, path: Path) -> Shape:
    """Return `outer` without what is at `path`."""
    entries = list(outer.entries)
    if len(path) == 1:
        del entries[path[0]]
    else:
        key, below = entries[path[0]]
        entries[path[0]] = key, removed(below, path[1:])
    return _with(outer, entries)


def added(outer: Shape, path: Path, key: str | None, value: Shape) -> Shape:
    """Return `outer` with one more entry behind the others of the collection at `path`; null becomes a collection."""
    if path:
        entries = list(outer.entries)
        name, below = entries[path[0]]
        entries[path[0]] = name, added(below, path[1:], key, value)
        return _with(outer, entries)
    if outer.kind == "scalar":
        outer = Shape("mapping" if key is not None else "list", "", outer.anchor, "")
    named = None if key is None else Shape("scalar", "str", None, key)
    return _with(outer, [*outer.entries, (named, value)])


def _with(outer: Shape, entries: list[tuple[Shape | None, Shape]]) -> Shape:
    return Shape(outer.kind, outer.tag, outer.anchor, outer.text, tuple(entries))


@dataclass(frozen=True, slots=True)
class Use:
    """An alias, and the place whose anchor it names."""

    alias: Place
    target: Place


def uses(document: Document) -> Iterator[Use]:
    """Yield every alias of the document: an anchor holds from where it is defined until its name is taken again."""
    anchors: dict[str, Place] = {}
    for place in document.root.walk():
        if place.kind == "alias":
            yield Use(place, anchors[place.text])
        elif place.anchor:
            anchors[place.anchor] = place


def kept_elsewhere(document: Document, gone: Place, *, itself: bool = True) -> Use | None:
    """Return an alias outside of `gone` whose anchor would go with it; `itself` says whether its own anchor goes too."""
    inside = {id(place) for place in gone.walk()}
    lost = inside if itself else inside - {id(gone)}
    return next((use for use in uses(document) if id(use.target) in lost and id(use.alias) not in inside), None)


def sharers(document: Document, path: Path) -> list[Place]:
    """Return the aliases whose value changes with what is at `path`: those of it, and of all around it."""
    around: list[Place] = [document.root]
    for number in path:
        around.append(around[-1].entries[number].value)
    changed = {id(place) for place in around if place.anchor}
    return [use.alias for use in uses(document) if id(use.target) in changed]


def merged_into(document: Document, place: Place) -> list[Place]:
    """Return the mappings that `place` merges (`<<`), those that win first."""
    targets = {id(use.alias): use.target for use in uses(document)}
    found: list[Place] = []
    for entry in place.entries:
        if entry.is_merge:
            found.extend(_mappings(entry, targets))
    return found


def _mappings(entry: Entry, targets: dict[int, Place]) -> Iterator[Place]:
    values = [one.value for one in entry.value.entries] if entry.value.kind == "list" else [entry.value]
    for value in values:
        yield targets.get(id(value), value)

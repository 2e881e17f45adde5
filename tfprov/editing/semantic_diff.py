"""What a YAML document says, without how it is written: an edit changes this where it should, and nowhere else."""

from collections.abc import Iterator
from dataclasses import dataclass

from tfprov.editing.cst import CstNode, Document, Entry, NodePath


@dataclass(frozen=True, slots=True)
class Semantics:
    """A value as a parser tells it: its tag and anchor, its text or the name of its alias, and what is in it."""

    kind: str
    tag: str
    anchor: str | None
    text: str
    entries: tuple[tuple["Semantics | None", "Semantics"], ...] = ()


def semantics_of(place: CstNode) -> Semantics:
    """Return what stands at `place`; aliases are not followed, so what they stand for is compared where it is written."""
    entries = tuple(
        (None if entry.key is None else semantics_of(entry.key), semantics_of(entry.value)) for entry in place.entries
    )
    return Semantics(place.kind, place.tag, place.anchor, place.text, entries)


def with_value(outer: Semantics, path: NodePath, value: Semantics) -> Semantics:
    """Return `outer` with `value` at `path`; an anchor there stays."""
    if not path:
        return Semantics(value.kind, value.tag, outer.anchor, value.text, value.entries)
    entries = list(outer.entries)
    key, below = entries[path[0]]
    entries[path[0]] = key, with_value(below, path[1:], value)
    return _with_entries(outer, entries)


def with_key(outer: Semantics, path: NodePath, name: str) -> Semantics:
    """Return `outer` with another key at `path`."""
    entries = list(outer.entries)
    key, below = entries[path[0]]
    if len(path) > 1:
        entries[path[0]] = key, with_key(below, path[1:], name)
    else:
        entries[path[0]] = Semantics("scalar", "str", key.anchor if key else None, name), below
    return _with_entries(outer, entries)


def without_entry(outer: Semantics, path: NodePath) -> Semantics:
    """Return `outer` without what is at `path`."""
    entries = list(outer.entries)
    if len(path) == 1:
        del entries[path[0]]
    else:
        key, below = entries[path[0]]
        entries[path[0]] = key, without_entry(below, path[1:])
    return _with_entries(outer, entries)


def with_entry(outer: Semantics, path: NodePath, key: str | None, value: Semantics) -> Semantics:
    """Return `outer` with one more entry behind the others of the collection at `path`; null becomes a collection."""
    if path:
        entries = list(outer.entries)
        name, below = entries[path[0]]
        entries[path[0]] = name, with_entry(below, path[1:], key, value)
        return _with_entries(outer, entries)
    if outer.kind == "scalar":
        outer = Semantics("mapping" if key is not None else "list", "", outer.anchor, "")
    named = None if key is None else Semantics("scalar", "str", None, key)
    return _with_entries(outer, [*outer.entries, (named, value)])


def _with_entries(outer: Semantics, entries: list[tuple[Semantics | None, Semantics]]) -> Semantics:
    return Semantics(outer.kind, outer.tag, outer.anchor, outer.text, tuple(entries))


@dataclass(frozen=True, slots=True)
class AliasUse:
    """An alias, and the place whose anchor it names."""

    alias: CstNode
    target: CstNode


def alias_uses(document: Document) -> Iterator[AliasUse]:
    """Yield every alias of the document: an anchor holds from where it is defined until its name is taken again."""
    anchors: dict[str, CstNode] = {}
    for place in document.root.walk():
        if place.kind == "alias":
            yield AliasUse(place, anchors[place.text])
        elif place.anchor:
            anchors[place.anchor] = place


def alias_outside(document: Document, gone: CstNode, *, itself: bool = True) -> AliasUse | None:
    """Return an alias outside of `gone` whose anchor would go with it; `itself` says whether its own anchor goes too."""
    inside = {id(place) for place in gone.walk()}
    lost = inside if itself else inside - {id(gone)}
    return next((use for use in alias_uses(document) if id(use.target) in lost and id(use.alias) not in inside), None)


def affected_aliases(document: Document, path: NodePath) -> list[CstNode]:
    """Return the aliases whose value changes with what is at `path`: those of it, and of all around it."""
    around: list[CstNode] = [document.root]
    for number in path:
        around.append(around[-1].entries[number].value)
    changed = {id(place) for place in around if place.anchor}
    return [use.alias for use in alias_uses(document) if id(use.target) in changed]


def merged_mappings(document: Document, place: CstNode) -> list[CstNode]:
    """Return the mappings that `place` merges (`<<`), those that win first."""
    targets = {id(use.alias): use.target for use in alias_uses(document)}
    found: list[CstNode] = []
    for entry in place.entries:
        if entry.is_merge:
            found.extend(_merge_targets(entry, targets))
    return found


def _merge_targets(entry: Entry, targets: dict[int, CstNode]) -> Iterator[CstNode]:
    values = [one.value for one in entry.value.entries] if entry.value.kind == "list" else [entry.value]
    for value in values:
        yield targets.get(id(value), value)

"""What an edit changes: the meaning of a YAML document without its notation, and the problems of the inventory."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass, replace

from tfprov.editing.cst import CollectionEntry, CstNode, Document, NodeKind, NodePath
from tfprov.errors import Problem
from tfprov.yamltext.syntax_errors import BREAK


@dataclass(frozen=True, slots=True)
class Semantics:
    """A value without its notation: tag, anchor, text or the anchor name of an alias, and entries."""

    kind: NodeKind
    tag: str
    anchor: str | None
    text: str
    entries: tuple[tuple["Semantics | None", "Semantics"], ...] = ()


def semantics_of(node: CstNode) -> Semantics:
    """Return the meaning of `node`; aliases are not followed, because their targets are compared themselves."""
    entries = tuple(
        (None if entry.key is None else semantics_of(entry.key), semantics_of(entry.value)) for entry in node.entries
    )
    return Semantics(node.kind, node.tag, node.anchor, node.text, entries)


def with_value(outer: Semantics, path: NodePath, value: Semantics) -> Semantics:
    """Return `outer` with `value` at `path`; the anchor there stays."""
    if not path:
        return Semantics(value.kind, value.tag, outer.anchor, value.text, value.entries)
    entries = list(outer.entries)
    key, below = entries[path[0]]
    entries[path[0]] = key, with_value(below, path[1:], value)
    return _with_entries(outer, entries)


def with_key(outer: Semantics, path: NodePath, name: str) -> Semantics:
    """Return `outer` with the key `name` at `path`."""
    entries = list(outer.entries)
    key, below = entries[path[0]]
    if len(path) > 1:
        entries[path[0]] = key, with_key(below, path[1:], name)
    else:
        entries[path[0]] = Semantics(NodeKind.SCALAR, "str", key.anchor if key else None, name), below
    return _with_entries(outer, entries)


def without_entry(outer: Semantics, path: NodePath) -> Semantics:
    """Return `outer` without the entry at `path`."""
    entries, number, inner = list(outer.entries), path[0], path[1:]
    if inner:
        key, below = entries[number]
        entries[number] = key, without_entry(below, inner)
    else:
        del entries[number]
    return _with_entries(outer, entries)


def with_entry(outer: Semantics, path: NodePath, key: str | None, value: Semantics) -> Semantics:
    """Return `outer` with a new last entry in the collection at `path`; null becomes a collection."""
    if path:
        entries = list(outer.entries)
        name, below = entries[path[0]]
        entries[path[0]] = name, with_entry(below, path[1:], key, value)
        return _with_entries(outer, entries)
    if outer.kind is NodeKind.SCALAR:
        outer = Semantics(NodeKind.MAPPING if key is not None else NodeKind.LIST, "", outer.anchor, "")
    new_key = None if key is None else Semantics(NodeKind.SCALAR, "str", None, key)
    return _with_entries(outer, [*outer.entries, (new_key, value)])


def _with_entries(outer: Semantics, entries: list[tuple[Semantics | None, Semantics]]) -> Semantics:
    return Semantics(outer.kind, outer.tag, outer.anchor, outer.text, tuple(entries))


@dataclass(frozen=True, slots=True)
class AliasUse:
    """An alias, and the node whose anchor it names."""

    alias: CstNode
    target: CstNode


def alias_uses(document: Document) -> Iterator[AliasUse]:
    """Yield every alias of the document; an anchor is valid until its name is defined again."""
    anchors: dict[str, CstNode] = {}
    for node in document.root.walk():
        if node.kind is NodeKind.ALIAS:
            yield AliasUse(node, anchors[node.text])
        elif node.anchor:
            anchors[node.anchor] = node


def alias_outside(document: Document, removed: CstNode, *, itself: bool) -> AliasUse | None:
    """Return an alias outside of `removed` whose anchor is inside; without `itself`, the anchor of `removed` stays."""
    inside = {id(node) for node in removed.walk()}
    anchored = inside if itself else inside - {id(removed)}
    return next(
        (use for use in alias_uses(document) if id(use.target) in anchored and id(use.alias) not in inside), None
    )


def affected_aliases(document: Document, path: NodePath) -> list[CstNode]:
    """Return the aliases whose values change with the node at `path`: aliases of it, and of the nodes around it."""
    ancestors: list[CstNode] = [document.root]
    for number in path:
        ancestors.append(ancestors[-1].entries[number].value)
    changed = {id(node) for node in ancestors if node.anchor}
    return [use.alias for use in alias_uses(document) if id(use.target) in changed]


def merged_mappings(document: Document, node: CstNode) -> list[CstNode]:
    """Return the mappings that `node` merges (`<<`), in the order of precedence."""
    targets = {id(use.alias): use.target for use in alias_uses(document)}
    mappings: list[CstNode] = []
    for entry in node.entries:
        if entry.is_merge:
            mappings[:0] = _merge_targets(entry, targets)  # of several `<<`, the last one wins
    return mappings


def _merge_targets(entry: CollectionEntry, targets: dict[int, CstNode]) -> Iterator[CstNode]:
    values = [item.value for item in entry.value.entries] if entry.value.kind is NodeKind.LIST else [entry.value]
    for value in values:
        yield targets.get(id(value), value)


# -- problems -----------------------------------------------------------------------------------------------------------


_LINE = re.compile(r"line \d+")
NOT_MADE = "(after the edit, which was not made)"

ChangedTexts = AbstractMapping[str, tuple[str, str]]
"""The text of every changed file before and after the edit, by the file's name."""


def new_problems(before: Sequence[Problem], after: Sequence[Problem], texts: ChangedTexts) -> list[Problem]:
    """Return the problems of `after` that the edit caused.

    Problems that existed before are not new, even if their lines moved. An edit that fixes a problem may reveal others that
    were not checked before: then only those on the lines that it wrote are its own.
    """
    known = Counter(map(_key, before))
    new = []
    for problem in after:
        if known[_key(problem)]:
            known[_key(problem)] -= 1
        else:
            new.append(problem)
    if +known:
        new = [problem for problem in new if _is_on_written_line(problem, texts)]
    return [replace(problem, fix=f"{problem.fix} {NOT_MADE}".lstrip()) for problem in new]


def _key(problem: Problem) -> tuple[str, str, str]:
    return problem.at.file, _LINE.sub("line", problem.what), _LINE.sub("line", problem.fix)


def _is_on_written_line(problem: Problem, texts: ChangedTexts) -> bool:
    if problem.at.file not in texts:
        return False
    first, last = written_lines(*texts[problem.at.file])
    return first <= problem.at.line <= last


def written_lines(before: str, after: str) -> tuple[int, int]:
    """Return the numbers of the first and the last line of `after` that differ from `before`."""
    old, new = BREAK.split(before), BREAK.split(after)
    same = next(
        (n for n, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), min(len(old), len(new))
    )
    most = min(len(old), len(new)) - same
    behind = zip(reversed(old), reversed(new), strict=False)
    alike = next((n for n, (one, other) in enumerate(behind) if n >= most or one != other), most)
    return same + 1, len(new) - alike

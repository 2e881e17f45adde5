"""Text to nodes: as many documents as there are, and no more than a file of this kind can have."""

import re

from tfprov.config.text.yaml import MAX_BYTES, decoded, parse
from tfprov.errors import InvalidInput, Position, Problem
from tfprov.model.node import Items, Mapping, Node, Scalar

_MARK = re.compile(r"^(?:---(?=\s|$)|\.\.\.\s*$)", re.MULTILINE)
"""Where a document ends and another one may begin: YAML allows it at the beginning of a line only, even in a text."""
_TEMPLATE = re.compile(r"^\s*\{[%{][-+ ]", re.MULTILINE)

MOST_VALUES = 200_000
"""In all documents together, each alias counted as often as it is used."""


def documents(data: bytes, name: str) -> list[Node]:
    """Return the documents in a YAML or JSON file; InvalidInput where it is none, or too large."""
    if len(data) > MAX_BYTES:
        raise InvalidInput([Problem(Position(name), f"larger than {MAX_BYTES:,} bytes", "import a part of it")])
    text = decoded(data, name)
    found: list[Node] = []
    left = MOST_VALUES
    try:
        for start, part in _parts(text):
            if re.sub(r"(?m)^\s*#.*$", "", part).strip(" \t\r\n-"):
                found.append(parse(part, name, start=start))
                left = _count(found[-1], left)
    except InvalidInput:
        if template := _TEMPLATE.search(text):
            at = Position(name, text.count("\n", 0, template.end()) + 1, 1)
            raise InvalidInput([Problem(at, "a template, not what it renders", "render it first")]) from None
        raise
    if left < 0:
        what = f"more than {MOST_VALUES:,} values once aliases are expanded"
        raise InvalidInput([Problem(Position(name), what, "write fewer aliases")])
    return [one for document in found for one in _listed(document)]


def _parts(text: str) -> list[tuple[int, str]]:
    """Return each document with the number of its first line."""
    found, begin = [], 0
    for mark in _MARK.finditer(text):
        found.append((text.count("\n", 0, begin) + 1, text[begin : mark.start()]))
        # What stands behind `---` belongs to the document, at its place in the line.
        begin = mark.start() if mark[0].startswith("---") else mark.end()
    found.append((text.count("\n", 0, begin) + 1, text[begin:]))
    return found


def _count(node: Node, left: int) -> int:
    """Return what is left of a number of values after those in `node`; it stops below 0."""
    ahead = [node]
    while ahead and left >= 0:
        one = ahead.pop()
        left -= 1
        ahead.extend(one.entries.values() if isinstance(one, Mapping) else one.items if isinstance(one, Items) else ())
    return left


def _listed(document: Node) -> list[Node]:
    """Return the objects in a `kind: List`, as `kubectl get -o yaml` prints them; anything else as it is."""
    kind = document.get("kind") if isinstance(document, Mapping) else None
    items = document.get("items") if isinstance(document, Mapping) else None
    if isinstance(kind, Scalar) and str(kind.data).endswith("List") and isinstance(items, Items):
        return list(items.items)
    return [document]

"""Values that YAML 1.1 reads as something else than what stands there: `NO`, `22:22`, `012`, `2026-01-01`."""

from collections.abc import Iterator
from datetime import date
from math import isfinite

from tfprov.errors import Problem, shown
from tfprov.model.node import Mapping, Node, Scalar


def surprises(node: Node) -> Iterator[Problem]:
    """Yield a problem for every value in `node` that is not what it looks like."""
    if isinstance(node, Scalar):
        if not _as_it_looks(node):
            is_date = isinstance(node.data, date)
            what = f"`{shown(node.text)}` is read by YAML as {'a date' if is_date else f'`{shown(node.data)}`'}"
            plainly = "" if is_date or not isfinite(node.data) else f"write {shown(node.data)}, or "
            yield Problem(node.at, what, f'{plainly}quote it: "{shown(node.text)}"')
        return
    for below in node.entries.values() if isinstance(node, Mapping) else node.items:
        yield from surprises(below)


def _as_it_looks(node: Scalar) -> bool:
    data, text = node.data, node.text
    if node.quoted or data is None or isinstance(data, str):
        return True
    if isinstance(data, bool):
        return text in ("true", "false", "True", "False")
    if isinstance(data, int):
        return str(data) == text.removeprefix("+")
    return isinstance(data, float) and ":" not in text and "_" not in text and isfinite(data)

"""Python files as syntax trees, each parsed once per process, for tests that read the source."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path


@cache
def tree(path: Path) -> ast.Module:
    """Return the parsed file."""
    return ast.parse(path.read_text(), str(path))


@cache
def statements(path: Path) -> tuple[ast.stmt, ...]:
    """Return the statements of a file at every depth. Expressions, ten times as many nodes, hold none."""
    return tuple(_within(tree(path)))


def _within(node: ast.AST) -> Iterator[ast.stmt]:
    for block in ("body", "handlers", "orelse", "finalbody", "cases"):
        below = getattr(node, block, ())
        for child in below if isinstance(below, list) else ():  # the body of a lambda is an expression
            if isinstance(child, ast.stmt):
                yield child
            yield from _within(child)


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a file. This is expensive: look first whether the text has the name that is looked for."""
    return tuple(ast.walk(tree(path)))

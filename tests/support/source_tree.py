"""Python files as syntax trees, each parsed once per process, for tests that read the source."""

import ast
import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.waiting import until


@cache
def tree(path: Path) -> ast.Module:
    """Return the parsed file, once no thread formats a traceback, for which Python parses a line.

    CPython 3.11 counts the depth of a tree for all threads together, and fails when two build one at once (gh-106905).
    paramiko's thread of a connection that an earlier test has closed ends with a traceback in its log.
    """
    until(lambda: not _connections_end(), "the connections of earlier tests have ended")
    return ast.parse(path.read_text(), str(path))


def _connections_end() -> bool:
    paramiko = sys.modules.get("paramiko")
    return paramiko is not None and any(isinstance(one, paramiko.Transport) for one in threading.enumerate())


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

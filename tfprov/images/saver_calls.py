"""Finds in the source of a program whether TensorFlow's default saver writes its checkpoints."""

import ast

_SESSION = "MonitoredTrainingSession"
_DIRECTORY, _SCAFFOLD = 2, 3
"""Positions of `checkpoint_dir` and `scaffold` among its arguments."""


def default_saver_line(source: bytes) -> int | None:
    """Return the line of a `MonitoredTrainingSession` that saves, and with the default saver; None without one.

    That saver is sharded: each ps writes its variables to its own disk. A program that imports tfprov, which has another
    saver, and text that is not Python have none.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if any(_imports_tfprov(node) for node in ast.walk(tree)):
        return None
    lines = (node.lineno for node in ast.walk(tree) if isinstance(node, ast.Call) and _has_default_saver(node))
    return min(lines, default=None)


def _imports_tfprov(node: ast.AST) -> bool:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
    return any(name.partition(".")[0] == "tfprov" for name in names)


def _has_default_saver(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            pass
        case _:
            return False
    is_open = any(isinstance(it, ast.Starred) for it in call.args) or any(it.arg is None for it in call.keywords)
    if name != _SESSION or is_open:  # `**options` may have anything
        return False
    values = {it.arg: it.value for it in call.keywords}
    directory = call.args[_DIRECTORY] if len(call.args) > _DIRECTORY else values.get("checkpoint_dir")
    saves = directory is not None and not (isinstance(directory, ast.Constant) and directory.value is None)
    return saves and "scaffold" not in values and len(call.args) <= _SCAFFOLD

"""What is shown of the values of an inventory: secrets are masked."""

from collections.abc import Callable
from typing import Any

from tfprov.config.vault.secrets import SECRETS, masks, mentions_secret
from tfprov.errors import InvalidInput
from tfprov.model.inventory import NAMESPACE
from tfprov.model.node import HIDDEN, Items, Mapping, Node, Scalar, Sealed, plain, unsealed, visible

Path = tuple[str, ...]
Shows = Callable[[Path, Node], Any]
"""Returns the value of a node for others to see."""


def masked_value(path: Path, node: Node) -> Any:
    """Return `node` for others to see: also what is called like a password is hidden, wherever it came from."""
    is_program = path[:2] in ((NAMESPACE, "flags"), (NAMESPACE, "command"))  # they stand on a command line as they are
    if path[-1] in SECRETS or (not is_program and _is_named(path[-1], node)):
        return HIDDEN if not _is_plain_template(node) else visible(node)
    return HIDDEN if isinstance(node, Scalar) and isinstance(node.data, Sealed) else _hidden_inside(node)


def unless_public(public: frozenset[str], shows: Shows, path: Path, node: Node) -> Any:
    """Return `node` as `shows` does, unless it is a variable of which the inventory says that it is no secret."""
    is_public = path[:-1] == (NAMESPACE, "env") and path[-1] in public and isinstance(node, Scalar)
    return _hidden_inside(node) if is_public and not isinstance(node.data, Sealed) else shows(path, node)  # type: ignore[union-attr]


def clear(_path: Path, node: Node) -> Any:
    """Return `node` with its secrets, but for those that no password decrypts."""
    try:
        return plain(unsealed(node))
    except InvalidInput:
        return _hidden_inside(node)


def _hidden_inside(node: Node) -> Any:
    if isinstance(node, Mapping):
        return {key: HIDDEN if _is_named(key, value) else _hidden_inside(value) for key, value in node.entries.items()}
    if isinstance(node, Items):
        return [_hidden_inside(item) for item in node.items]
    return HIDDEN if node.secret else node.data


def _is_named(name: str, node: Node) -> bool:
    """Whether a single value is called as secrets are."""
    return isinstance(node, Scalar) and node.data is not None and (mentions_secret(name) or masks(name))


def _is_plain_template(node: Node) -> bool:
    """Whether `node` says only where a password comes from, and no part of it."""
    text = node.data if isinstance(node, Scalar) and not node.secret and not node.literal else None
    return isinstance(text, str) and text.startswith("{{") and text.endswith("}}") and not set("'\"") & set(text)

"""Values that no message may repeat: what is said about them is where they stand and what they are called."""

import re

from tfprov.errors import hide
from tfprov.model.inventory import NAMESPACE
from tfprov.model.node import Items, Mapping, Node, Scalar, Sealed, secretly
from tfprov.model.secret_names import is_ansible_password, names_secret

SECRETS = ("ansible_password", "ansible_ssh_pass", "ansible_ssh_password")
"""Variables that hold a password."""

_NAMED = re.compile(r"(?:pass|secret|token)\w*", re.IGNORECASE)


def mentions_secret(text: str) -> bool:
    """Whether `text` is or holds the name of a password, or of something like it."""
    return _NAMED.search(text) is not None


def masks(name: str) -> bool:
    """Whether the value of a variable with this name is masked wherever an inventory is shown."""
    return is_ansible_password(name) or (names_secret(name) and not name.startswith("ansible_"))


def public_names(settings: Mapping) -> frozenset[str]:
    """Return the environment variables of which `settings` say that they are no secrets."""
    listed = settings.get("public_env")
    return (
        frozenset(str(item.data) for item in listed.items if isinstance(item, Scalar))
        if isinstance(listed, Items)
        else frozenset()
    )


def discreet(text: str) -> str:
    """Return what may be repeated of a line: nothing that stands behind the name of a password."""
    found = _NAMED.search(text)
    return f"{text[: found.end()]}…" if found and found.end() < len(text) else text


class Reads:
    """Counts how often a template has asked for a secret: what it computed in between is a secret as well."""

    count = 0

    @classmethod
    def note(cls) -> None:
        """Say that a secret is being used."""
        cls.count += 1


_STRUCTURE = ("hosts", "children")


def hidden(node: Node, path: tuple[str, ...] = ()) -> Node:
    """Return what an encrypted file says, be it variables or a whole inventory, with what can be kept secret marked so.

    Not so the settings, but for `env`: the name of a cluster and the flags of a program stand where people see them, on
    command lines and labels. Nor the variables that say how a host is reached, but for passwords.
    """
    if isinstance(node, Mapping):
        below = {key: hidden(value, (*path, key)) for key, value in node.entries.items()}
        return Mapping(below, node.at, node.keys)
    if isinstance(node, Items):
        return Items(tuple(hidden(item, path) for item in node.items), node.at)
    if _is_seen(path) or isinstance(node.data, Sealed):
        return node
    if isinstance(node.data, str) and "{{" not in node.data:
        hide(node.data)
    return secretly(node)


def _is_seen(path: tuple[str, ...]) -> bool:
    if NAMESPACE in path:
        return path[path.index(NAMESPACE) + 1 : path.index(NAMESPACE) + 2] != ("env",)
    last = path[-1] if path else ""
    return last in _STRUCTURE or (last.startswith("ansible_") and not mentions_secret(last))

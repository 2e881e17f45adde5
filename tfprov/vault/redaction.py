"""Finds and masks secrets: by their names, and because they were encrypted."""

import hashlib
import hmac
import re
from collections.abc import Callable
from typing import Any

from tfprov.errors import InvalidInput, hide_secret
from tfprov.model.inventory import NAMESPACE
from tfprov.model.yaml_node import (
    HIDDEN,
    EncryptedValue,
    Items,
    Mapping,
    Node,
    Scalar,
    decrypt_values,
    mark_secret,
    plain,
    plain_masked,
)

_WORDS = frozenset(["TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "KEY", "APIKEY"])
"""Words in a name that make its value a secret: `HF_TOKEN`, `AWS_SECRET_ACCESS_KEY`, but not `MONKEY` or `MAX_TOKENS`."""
_PATH_WORDS = frozenset(["FILE", "PATH", "DIR"])
"""Last words of a name whose value is a path, and so not a secret: `SSL_KEY_FILE`."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ANSIBLE_PASSWORD = re.compile(r"ansible_\w*pass\w*", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Whether `name`, such as that of an environment variable, has a word that marks a secret."""
    words = [word.upper() for word in _WORD.findall(name)]
    return any(word in _WORDS for word in words) and words[-1] not in _PATH_WORDS


def is_ansible_password(path: str) -> bool:
    """Whether `path` ends at or leads through one of Ansible's passwords, such as `ansible_become_pass`."""
    return _ANSIBLE_PASSWORD.search(path) is not None


_SCHEME = "hmac-sha256"
_ID_DIGITS = 16


class KeyedHash:
    """Hashes secrets with the key that `key` returns, which is called when a secret has to be hashed."""

    def __init__(self, key: Callable[[], bytes]) -> None:
        self._key = key

    def of(self, cluster: str, name: str, value: str) -> str:
        """Return `hmac-sha256:KEY:HASH` for an environment variable of a cluster; `KEY` identifies the key."""
        key = self._key()
        identity = hmac.digest(key, b"identity", "sha256").hex()[:_ID_DIGITS]
        message = b"\0".join(text.encode("utf-8", "surrogateescape") for text in (cluster, name, value))
        return f"{_SCHEME}:{identity}:{hmac.new(key, message, hashlib.sha256).hexdigest()}"


def hashed_with_other_key(left: object, right: object) -> bool:
    """Whether both are hashes of `KeyedHash` with different keys, which cannot be compared."""
    if not isinstance(left, str) or not isinstance(right, str):
        return False
    parts = [text.split(":") for text in (left, right)]
    return all(len(part) == 3 and part[0] == _SCHEME for part in parts) and parts[0][1] != parts[1][1]


SECRETS = ("ansible_password", "ansible_ssh_pass", "ansible_ssh_password")
"""Ansible's variables for SSH passwords."""

_NAMED = re.compile(r"(?:pass|secret|token|api[_-]?key|access[_-]?key)\w*", re.IGNORECASE)


def mentions_secret(text: str) -> bool:
    """Whether `text` contains a name such as `password`, `secret`, `token` or `api_key`."""
    return _NAMED.search(text) is not None


def is_masked(name: str) -> bool:
    """Whether the value of the variable `name` is masked in every output."""
    return is_ansible_password(name) or (is_secret_name(name) and not name.startswith("ansible_"))


def public_env_names(settings: Mapping) -> frozenset[str]:
    """Return the environment variables that `settings` list in `public_env`: their values are not masked."""
    listed = settings.get("public_env")
    return (
        frozenset(str(item.data) for item in listed.items if isinstance(item, Scalar))
        if isinstance(listed, Items)
        else frozenset()
    )


def redact_line(text: str) -> str:
    """Return a line up to the name of a password, without what follows it."""
    name = _NAMED.search(text)
    return f"{text[: name.end()]}…" if name and name.end() < len(text) else text


_STRUCTURE = ("hosts", "children")


def mark_secrets(node: Node, path: tuple[str, ...] = ()) -> Node:
    """Return the variables or the inventory of an encrypted file with its values marked as secret.

    Settings are not marked, except `env` and `notify`: the name of a cluster and the flags of a program are visible on
    command lines and labels. Nor are connection variables, except passwords.
    """
    if isinstance(node, Mapping):
        below = {key: mark_secrets(value, (*path, key)) for key, value in node.entries.items()}
        return Mapping(below, node.at, node.keys)
    if isinstance(node, Items):
        return Items(tuple(mark_secrets(item, path) for item in node.items), node.at)
    if _is_public(path) or isinstance(node.data, EncryptedValue):
        return node
    if isinstance(node.data, str) and "{{" not in node.data:
        hide_secret(node.data)
    return mark_secret(node)


def _is_public(path: tuple[str, ...]) -> bool:
    if NAMESPACE in path:
        return path[path.index(NAMESPACE) + 1 : path.index(NAMESPACE) + 2] not in (("env",), ("notify",))
    last = path[-1] if path else ""
    return last in _STRUCTURE or (last.startswith("ansible_") and not mentions_secret(last))


KeyPath = tuple[str, ...]
ShowValue = Callable[[KeyPath, Node], Any]
"""Returns the value of a node for output."""


def mask_value(path: KeyPath, node: Node) -> Any:
    """Return `node` for output, with secrets masked, also values that have, or are below, the name of a password."""
    is_program = path[:2] in ((NAMESPACE, "flags"), (NAMESPACE, "command"))  # visible on a command line anyway
    if not is_program and _has_secret_name(path[-1], node):
        return HIDDEN if not _is_plain_template(node) else plain_masked(node)
    if isinstance(node, Scalar) and isinstance(node.data, EncryptedValue):
        return HIDDEN
    return _mask_nested(node, below_secret=not is_program and is_masked(path[-1]))


def show_public_env(public: frozenset[str], shows: ShowValue, path: KeyPath, node: Node) -> Any:
    """Return `node` as `shows` does, but a variable of `public_env` in plain."""
    is_public = path[:-1] == (NAMESPACE, "env") and path[-1] in public and isinstance(node, Scalar)
    return _mask_nested(node) if is_public and not isinstance(node.data, EncryptedValue) else shows(path, node)  # type: ignore[union-attr]


def reveal_value(_path: KeyPath, node: Node) -> Any:
    """Return `node` with its secrets, except those that no password decrypts."""
    try:
        return plain(decrypt_values(node))
    except InvalidInput:
        return _mask_nested(node)


def _mask_nested(node: Node, *, below_secret: bool = False) -> Any:
    """Return `node` with secrets masked; with `below_secret`, it is below the name of one."""
    if isinstance(node, Mapping):
        return {
            key: HIDDEN
            if _has_secret_name(key, value)
            else _mask_nested(value, below_secret=below_secret or is_masked(key))
            for key, value in node.entries.items()
        }
    if isinstance(node, Items):
        return [_mask_nested(item, below_secret=below_secret) for item in node.items]
    return HIDDEN if node.secret or (below_secret and node.data is not None) else node.data


def _has_secret_name(name: str, node: Node) -> bool:
    """Whether a scalar has the name of a secret."""
    return isinstance(node, Scalar) and node.data is not None and (mentions_secret(name) or is_masked(name))


def _is_plain_template(node: Node) -> bool:
    """Whether `node` is a template that only refers to a password, and contains no part of it."""
    text = node.data if isinstance(node, Scalar) and not node.secret and not node.literal else None
    return isinstance(text, str) and text.startswith("{{") and text.endswith("}}") and not set("'\"") & set(text)

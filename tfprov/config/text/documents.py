"""YAML documents that may be JSON: Ansible tries JSON first, which has other numbers and other escapes than YAML 1.1."""

import json
import re
from dataclasses import replace

from tfprov.config.text.yaml import MAX_BYTES, parse
from tfprov.config.vault.opening import Vault
from tfprov.model.node import Items, Mapping, Node, Scalar

_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_INIT = "start from `tfprov init`"


def document(data: bytes | str, name: str, *, start_from: str = _INIT, vault: Vault | None = None) -> Node:
    """Return the one document in `data`, which is JSON or YAML; arguments as in `tfprov.config.text.yaml.parse`."""
    text = data.decode(errors="replace") if isinstance(data, bytes) else data
    if len(data) > MAX_BYTES or not text.lstrip("\ufeff \t\r\n").startswith("{") or not _is_json(text):
        return parse(data, name, start_from=start_from, vault=vault)
    # JSON writes a character beyond U+FFFF as two halves, which are no characters to YAML.
    whole = _PAIR.sub(lambda found: str(json.loads(f'"{found[0]}"')), text)
    return _with_numbers(parse(whole, name, start_from=start_from, vault=vault))


def _is_json(text: str) -> bool:
    try:
        json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return False
    return True


def _with_numbers(node: Node) -> Node:
    """Return `node` with JSON's numbers: `1e3` is one, and text in YAML 1.1."""
    if isinstance(node, Mapping):
        return Mapping({key: _with_numbers(value) for key, value in node.entries.items()}, node.at, node.keys)
    if isinstance(node, Items):
        return Items(tuple(map(_with_numbers, node.items)), node.at)
    is_number = isinstance(node, Scalar) and not node.quoted and isinstance(node.data, str)
    return replace(node, data=json.loads(node.text), quoted=True) if is_number else node

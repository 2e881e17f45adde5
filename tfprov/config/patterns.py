"""Host patterns, for `--limit` and a play's `hosts:`: Ansible's own language, with Ansible's own answers."""

import fnmatch
import re

from tfprov.errors import Usage
from tfprov.model.inventory import Inventory

_SUBSCRIPT = re.compile(r"(.+)\[(?:(-?\d+)|(\d+):(\d*))\]\Z")
_COLON_PIECES = re.compile(r"(?:[^\s:\[\]]|\[[^\]]*\])+")


def match(inventory: Inventory, pattern: str) -> tuple[str, ...]:
    """Return the hosts that `pattern` selects, in Ansible's order; Usage when a word of it matches nothing.

    Unions are `a:b` or `a,b`, intersections `:&b`, exclusions `:!b`; then wildcards, `~regex`, `group[0]` and
    `group[1:2]` (both ends included).
    """
    pieces = _split(pattern)
    plain = [piece for piece in pieces if piece[0] not in "&!"] or ["all"]
    chosen: dict[str, None] = {}
    for piece in plain:
        chosen.update(dict.fromkeys(_one(inventory, piece)))
    for sign, keep in (("&", True), ("!", False)):
        for piece in (piece for piece in pieces if piece[0] == sign):
            named = set(_one(inventory, piece[1:]))
            chosen = {host: None for host in chosen if (host in named) is keep}
    return tuple(chosen)


def _split(pattern: str) -> list[str]:
    if pattern in ("", None):
        raise Usage("an empty host pattern", "use `all`, a group or a host")
    pieces = (
        pattern.split(",") if "," in pattern else _COLON_PIECES.findall(pattern) if pattern[0] != "~" else [pattern]
    )
    return [piece.strip() for piece in pieces if piece.strip()]


def _one(inventory: Inventory, word: str) -> list[str]:
    if word in inventory.hosts:
        return [word]
    subscript = None if word.startswith("~") else _SUBSCRIPT.match(word)
    hosts = _named(inventory, subscript[1] if subscript else word)
    if subscript and hosts:
        hosts = _sliced(hosts, subscript, word)
    if not hosts and word not in ("all", *inventory.groups):
        raise Usage(f"no host or group matches `{word}`", "see `hosts:` and `children:` in the inventory")
    return hosts


def _sliced(hosts: list[str], subscript: re.Match[str], word: str) -> list[str]:
    _, single, first, last = subscript.groups()
    if single is None:
        return hosts[int(first) : int(last) + 1 if last else None]
    try:
        return [hosts[int(single)]]
    except IndexError:
        raise Usage(f"`{word}` asks for more hosts than there are ({len(hosts)})") from None


def _named(inventory: Inventory, word: str) -> list[str]:
    if word == "all":
        return list(inventory.hosts)
    try:
        test = re.compile(word[1:] if word.startswith("~") else fnmatch.translate(word)).match
    except re.error as error:
        raise Usage(f"`{word}` is not a regular expression: {error}") from None
    found: dict[str, None] = {}
    groups = [name for name in inventory.groups if name not in ("all", "ungrouped") and test(name)]
    for name in groups:
        found.update(dict.fromkeys(inventory.members(name)))
    if not groups or word[0] == "~" or any(mark in word for mark in ".?*["):
        found.update((host, None) for host in inventory.hosts if test(host))
    return list(found)

"""Host patterns, for `--limit` and a play's `hosts:`: Ansible's own language, with Ansible's own answers."""

import difflib
import fnmatch
import re
import warnings
from collections.abc import Callable, Iterable

from tfprov.errors import Usage, one_line, shown
from tfprov.model.inventory import Inventory

_SUBSCRIPT = re.compile(r"(.+)\[(?:(-?\d{1,9})|(\d{1,9}):(\d{0,9}))\]\Z")
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
    if "," in pattern or pattern[0] == "~":
        pieces = pattern.split(",") if "," in pattern else [pattern]
    else:
        pieces = _COLON_PIECES.findall(pattern)
        if any(mark in _COLON_PIECES.sub("", pattern) for mark in "[]"):
            raise Usage(f"unbalanced brackets in `{shown(pattern)}`", "for example `worker[0:2]`")
    found = [piece.strip() for piece in pieces if piece.strip()]
    if not found or any(piece in ("!", "&", "~", "!~", "&~") for piece in found):
        raise Usage(f"`{shown(pattern)}` names no host", "use `all`, a group or a host")
    return found


def _one(inventory: Inventory, word: str) -> list[str]:
    if word in inventory.hosts:
        return [word]
    subscript = None if word.startswith("~") else _SUBSCRIPT.match(word)
    hosts = _named(inventory, subscript[1] if subscript else word)
    if subscript and hosts:
        return _sliced(hosts, subscript, word)
    if not hosts and word not in ("all", "ungrouped", *inventory.groups):
        raise Usage(f"no host or group matches `{shown(word)}`", _nearest(inventory, word))
    return hosts


def _sliced(hosts: list[str], subscript: re.Match[str], word: str) -> list[str]:
    _, single, first, last = subscript.groups()
    if single is None:
        chosen = hosts[int(first) : int(last) + 1 if last else None]
    else:
        chosen = [hosts[int(single)]] if -len(hosts) <= int(single) < len(hosts) else []
    if not chosen:
        raise Usage(f"`{shown(word)}` names no host", f"they go from `[0]` to `[{len(hosts) - 1}]`")
    return chosen


def _named(inventory: Inventory, word: str) -> list[str]:
    test = _test(word)
    found: dict[str, None] = {}
    groups = [name for name in dict.fromkeys(("all", "ungrouped", *inventory.groups)) if test(name)]
    for name in groups:
        found.update(dict.fromkeys(_members(inventory, name)))
    if not groups or word[0] == "~" or any(mark in word for mark in ".?*["):
        found.update((host, None) for host in inventory.hosts if test(host))
    return list(found)


def _members(inventory: Inventory, group: str) -> Iterable[str]:
    if group == "all":
        return inventory.hosts
    lone = [name for name, host in inventory.hosts.items() if host.groups == ("all",)] if group == "ungrouped" else []
    return lone or inventory.members(group)


def _test(word: str) -> Callable[[str], object]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sets that Python may read differently one day
            return re.compile(word[1:] if word.startswith("~") else fnmatch.translate(word)).match
    except (re.error, OverflowError, RecursionError) as error:
        what = f"`{shown(word)}` is not a regular expression: {one_line(str(error))}"
        raise Usage(what, "correct it, or leave out the `~`") from None


def _nearest(inventory: Inventory, word: str) -> str:
    close = difflib.get_close_matches(word, [*inventory.groups, *inventory.hosts], n=1)
    return f"did you mean `{close[0]}`?" if close else "see `hosts:` and `children:` in the inventory"

"""Matches Ansible's host patterns, for `--limit` and a play's `hosts:`.

tfprov is stricter than Ansible, because a run on too few hosts is noticed late: a term that matches neither a host nor a
group is an error and not a warning, so is an empty pattern, and `localhost` must be in the inventory. A term that matches
an empty group selects nothing.
"""

import fnmatch
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from tfprov.errors import Usage, one_line, printable, suggest
from tfprov.model.inventory import Inventory

_SUBSCRIPT = re.compile(r"(.+)\[(?:(-?\d{1,9})|(\d{1,9})[:-](\d{0,9}))\]\Z")
_COLON_PIECES = re.compile(r"(?:[^\s:\[\]]|\[[^\]]*\])+")
_RANGE = re.compile(r"\[(?:[0-9a-f]+:[0-9a-f]+|[a-z]:[a-z])(?::[0-9]+)?\]", re.IGNORECASE)
_LABEL = r"\w[\w-]*(?<![_-])"
_NAME_OR_PORT = re.compile(rf"{_LABEL}(?:\.{_LABEL})*(?::[0-9]+)?")
_IN_BRACKETS = re.compile(r"\[([^\[\]]+)\]:[0-9]+")
_MAX_BYTES = 1_000_000
_LOCALHOST = ("localhost", "127.0.0.1", "::1")


def match_hosts(inventory: Inventory, pattern: str) -> tuple[str, ...]:
    """Return the hosts that `pattern` selects, in Ansible's order; Usage if a term of it matches nothing.

    Unions are `a:b` or `a,b`, intersections `:&b`, exclusions `:!b`; then wildcards, `~regex`, `group[0]` and
    `group[1:2]` (both ends included), and `@file`, which has a pattern on each line.
    """
    pieces = _expand_files(_split(pattern))
    plain = [piece for piece in pieces if piece[0] not in "&!"] or ["all"]
    chosen: dict[str, None] = {}
    for piece in plain:
        chosen.update(dict.fromkeys([piece] if piece in inventory.hosts else _match_term(inventory, piece)))
    for sign, keep in (("&", True), ("!", False)):
        for piece in (piece for piece in pieces if piece[0] == sign):
            named = set(_match_term(inventory, piece[1:]))
            chosen = {host: None for host in chosen if (host in named) is keep}
    return tuple(chosen)


def _split(pattern: str) -> list[str]:
    if not pattern:
        raise Usage("an empty host pattern", "use `all`, a group or a host")
    if "," in pattern:
        pieces = pattern.split(",")
    elif pattern[0] == "@" or _is_name(pattern):
        pieces = [pattern]
    else:
        pieces = _COLON_PIECES.findall(pattern)
        if any(mark in _COLON_PIECES.sub("", pattern) for mark in "[]"):
            raise Usage(f"unbalanced brackets in `{printable(pattern)}`", "for example `worker[0:2]`")
    return _require_terms([piece.strip() for piece in pieces if piece.strip()], pattern)


def _require_terms(pieces: list[str], pattern: str) -> list[str]:
    if not pieces or any(piece in ("!", "&", "~", "!~", "&~", "@") for piece in pieces):
        raise Usage(f"`{printable(pattern)}` names no host", "use `all`, a group or a host")
    return pieces


def _is_name(text: str) -> bool:
    """Whether `text` is a single name or address, maybe with a port or ranges: its colons separate no terms."""
    inside = _IN_BRACKETS.fullmatch(text)
    bare = _RANGE.sub("0", inside[1] if inside else text)
    return _NAME_OR_PORT.fullmatch(bare) is not None or _is_address(bare)


def _is_address(text: str) -> bool:
    from ipaddress import IPv6Address  # noqa: PLC0415  slow to import, and rarely needed

    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


def _expand_files(pieces: Sequence[str]) -> list[str]:
    terms: list[str] = []
    for piece in pieces:
        if piece[0] == "@":
            lines = [line.strip() for line in _read_pattern_file(piece[1:]).split("\n")]
            terms += _require_terms([line for line in lines if line], piece)
        else:
            terms.append(piece)
    return terms


def _read_pattern_file(name: str) -> str:
    try:
        with Path(name).open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise Usage(
                f"`@{printable(name)}` is larger than {_MAX_BYTES:,} bytes", "name a file with one pattern a line"
            )
        return content.decode()
    except (OSError, ValueError) as error:
        reason = (error.strerror or "").lower() if isinstance(error, OSError) else "not UTF-8 text"
        raise Usage(f"`@{printable(name)}`: {reason}", "name a file with one pattern a line") from None


def _match_term(inventory: Inventory, word: str) -> list[str]:
    subscript = None if word.startswith("~") else _SUBSCRIPT.match(word)
    name = subscript[1] if subscript else word
    groups = _matching_groups(inventory, name)
    hosts = _matching_hosts(inventory, name, groups)
    if subscript and hosts:
        return _apply_subscript(hosts, subscript, word)
    if not hosts and not groups:
        raise Usage(f"no host or group matches `{printable(word)}`", _suggest(inventory, word))
    return hosts  # empty for an empty group


def _apply_subscript(hosts: list[str], subscript: re.Match[str], word: str) -> list[str]:
    _, single, first, last = subscript.groups()
    if single is None and (not last or int(last)):
        chosen = hosts[int(first) : int(last) + 1 if last else None]
    else:  # Ansible reads `[2:0]` as `[2]`
        index = int(first if single is None else single)
        chosen = [hosts[index]] if -len(hosts) <= index < len(hosts) else []
    if not chosen:
        raise Usage(f"`{printable(word)}` names no host", f"they go from `[0]` to `[{len(hosts) - 1}]`")
    return chosen


def _matching_groups(inventory: Inventory, word: str) -> list[str]:
    test = _compile_matcher(word)
    return [name for name in inventory.groups if test(name)]


def _matching_hosts(inventory: Inventory, word: str, groups: list[str]) -> list[str]:
    """Return the hosts in `groups` and those that `word` matches; some twice, as Ansible counts."""
    test = _compile_matcher(word)
    hosts = [host for name in groups for host in inventory.members(name)]
    if not groups or any(mark in word for mark in "~.?*["):
        hosts += [host for host in inventory.hosts if test(host)]
    return hosts


def _compile_matcher(word: str) -> Callable[[str], object]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # FutureWarning about nested sets
            return re.compile(word[1:] if word.startswith("~") else fnmatch.translate(word)).match
    except (re.error, OverflowError, RecursionError) as error:
        what = f"`{printable(word)}` is not a regular expression: {one_line(str(error))}"
        cut = word.endswith("(?")
        fix = (
            "put a `,` behind it: elsewhere, a `:` begins another pattern"
            if cut
            else "correct it, or leave out the `~`"
        )
        raise Usage(what, fix) from None


def _suggest(inventory: Inventory, word: str) -> str:
    if word in _LOCALHOST:
        return "tfprov knows only the hosts of the inventory: add it there"
    groups = [name for name in inventory.groups if name != "ungrouped" or inventory.groups[name].hosts]
    return suggest(word, [*groups, *inventory.hosts], "see `hosts:` and `children:` in the inventory")

"""Dotted paths, such as `tfprov.flags.train_steps` or `command[0]`, followed through the text of a file."""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tfprov.config.edit.shape import merged_into, uses
from tfprov.config.edit.text import Source
from tfprov.config.edit.tree import Path, Place
from tfprov.errors import InvalidInput, Usage, shown

_PART = re.compile(r"""\.?(?:"([^"]*)"|'([^']*)'|\[(\d+)\]|([^.\[\]"']+))""")
_LONGEST = 32


def split_path(text: str) -> list[str]:
    """Return the names in a path; one with dots in it stands in quotes, an element of a list is `[0]` or `.0`."""
    names: list[str] = []
    offset = 0
    while offset < len(text):
        found = _PART.match(text, offset)
        if found is None or (offset and text[offset] not in ".[") or (not offset and text[0] == "."):
            raise Usage(
                f"`{shown(text)}` is not a path", "for example `tfprov.flags.train_steps` or `tfprov.command[0]`"
            )
        names.append(next(part for part in found.groups() if part is not None))
        offset = found.end()
    if not names or len(names) > _LONGEST:
        raise Usage(f"`{shown(text)}` is not a path", "for example `tfprov.flags.train_steps`")
    return names


def joined(names: Sequence[str]) -> str:
    """Return names as a path."""
    return ".".join(f'"{name}"' if re.search(r"[.\[\]'\s]", name) or not name else name for name in names)


@dataclass(frozen=True)
class Way:
    """How far a path leads in a file: `path` to the last place that is there, and the `rest` of the names.

    `blocked` says why the rest cannot be written there.
    """

    source: Source
    path: Path
    rest: tuple[str, ...]
    blocked: InvalidInput | None = None

    @property
    def place(self) -> Place:
        """The last place that is there."""
        return self.source.document.at(self.path)

    @property
    def is_whole(self) -> bool:
        """Whether all of the path is there."""
        return not self.rest


def follow(source: Source, base: Path, names: Sequence[str]) -> Way:
    """Follow `names` from the place at `base` as far as they lead; a key with dots in it may be several of them."""
    path, number = base, 0
    while number < len(names):
        rest = tuple(names[number:])
        place = source.document.at(path)
        blocked = _blocked(source, place, rest)
        taken, found = (1, None) if blocked else _below(place, rest)
        if found is None:
            return Way(source, path, rest, blocked)
        path, number = (*path, found), number + taken
    return Way(source, path, ())


def _below(place: Place, names: Sequence[str]) -> tuple[int, int | None]:
    """Return how many of `names` are the name of an entry, and its number."""
    if place.kind == "list":
        number = int(names[0])
        return 1, number if number < len(place.entries) else None
    for count in (1, *range(len(names), 1, -1)):
        if (found := place.key(".".join(names[:count]))) is not None:
            return count, found
    return 1, None


def _blocked(source: Source, place: Place, rest: Sequence[str]) -> InvalidInput | None:
    """Return why nothing called `rest[0]` can be looked up or written in what stands at `place`, or None."""
    name, line = shown(rest[0]), source.document.line_number
    if place.kind == "alias":
        target = next(use.target for use in uses(source.document) if use.alias is place)
        what = f"`*{place.text}` stands for what line {line(target.start)} says, for every place that uses it"
        return source.refuse(place, what, f"change it on line {line(target.start)}, or write the value out here")
    if place.kind == "list":
        if not name.isdecimal() or len(name) > 9:
            return source.refuse(place, f"a list, which has no `{name}`", "give a number: the first element is `[0]`")
        if int(name) > len(place.entries):
            what = f"a list of {len(place.entries)}, so there is no `[{int(name)}]`"
            return source.refuse(place, what, f"`[{len(place.entries)}]` adds an element")
        return None
    if place.kind == "scalar":
        what = f"a single value, so nothing can be below it: `{name}`"
        return None if place.is_null else source.refuse(place, what, "set this value itself")
    if len(rest) > 1 and _below(place, rest)[1] is None:
        return _merged(source, place, rest[0])
    return None


def _merged(source: Source, place: Place, name: str) -> InvalidInput | None:
    for outer in merged_into(source.document, place):
        if (number := outer.key(name)) is not None:
            at = outer.entries[number].start
            line = source.document.line_number(at)
            what = f"`{shown(name)}` is merged into this mapping from line {line} (`<<`)"
            return source.refuse(place, what, f"change it there, or write `{shown(name)}:` out here")
    return None


def missing(way: Way, names: Sequence[str]) -> InvalidInput:
    """Return the error for a path that leads nowhere."""
    if way.blocked:
        return way.blocked
    if merged := _merged(way.source, way.place, way.rest[0]):
        return merged
    near = [entry.key.text for entry in way.place.entries if entry.key is not None and not entry.is_merge]
    close = difflib.get_close_matches(way.rest[0], near, n=1)
    fix = f"did you mean `{shown(close[0])}`?" if close else "`tfprov inventory explain HOST` says what is set where"
    what = f"nothing is called `{shown(joined(names[: len(names) - len(way.rest) + 1]))}` here"
    return way.source.refuse(way.place, what, fix)

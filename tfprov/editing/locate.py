"""Which of an inventory's files an edit belongs to, and where in it."""

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tfprov.editing.cst import CstNode
from tfprov.editing.cst import NodePath as KeyPath
from tfprov.editing.document import EditableFile
from tfprov.editing.files import InventoryFiles, vars_file_owner
from tfprov.editing.host_edits import Mention, find_groups, find_hosts, find_range, mentions_of
from tfprov.editing.semantic_diff import alias_uses, merged_mappings
from tfprov.errors import InvalidInput, Usage, shown
from tfprov.inventory.builder import ALWAYS
from tfprov.inventory.host_names import split_port

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


def join_path(names: Sequence[str]) -> str:
    """Return names as a path."""
    return ".".join(f'"{name}"' if re.search(r"[.\[\]'\s]", name) or not name else name for name in names)


@dataclass(frozen=True)
class ResolvedPath:
    """How far a path leads in a file: `path` to the last place that is there, and the `rest` of the names.

    `blocked` says why the rest cannot be written there.
    """

    source: EditableFile
    path: KeyPath
    rest: tuple[str, ...]
    blocked: InvalidInput | None = None

    @property
    def place(self) -> CstNode:
        """The last place that is there."""
        return self.source.document.at(self.path)

    @property
    def is_whole(self) -> bool:
        """Whether all of the path is there."""
        return not self.rest


def resolve_path(source: EditableFile, base: KeyPath, names: Sequence[str]) -> ResolvedPath:
    """Follow `names` from the place at `base` as far as they lead; a key with dots in it may be several of them."""
    path, number = base, 0
    while number < len(names):
        rest = tuple(names[number:])
        place = source.document.at(path)
        blocked = _blocked(source, place, rest)
        taken, found = (1, None) if blocked else _matching_entry(place, rest)
        if found is None:
            return ResolvedPath(source, path, rest, blocked)
        path, number = (*path, found), number + taken
    return ResolvedPath(source, path, ())


def _matching_entry(place: CstNode, names: Sequence[str]) -> tuple[int, int | None]:
    """Return how many of `names` are the name of an entry, and its number."""
    if place.kind == "list":
        number = int(names[0])
        return 1, number if number < len(place.entries) else None
    for count in (1, *range(len(names), 1, -1)):
        if (found := place.key(".".join(names[:count]))) is not None:
            return count, found
    return 1, None


def _blocked(source: EditableFile, place: CstNode, rest: Sequence[str]) -> InvalidInput | None:
    """Return why nothing called `rest[0]` can be looked up or written in what stands at `place`, or None."""
    name, line = shown(rest[0]), source.document.line_number
    if place.kind == "alias":
        target = next(use.target for use in alias_uses(source.document) if use.alias is place)
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
    if len(rest) > 1 and _matching_entry(place, rest)[1] is None:
        return _merged(source, place, rest[0])
    return None


def _merged(source: EditableFile, place: CstNode, name: str) -> InvalidInput | None:
    for outer in merged_mappings(source.document, place):
        if (number := outer.key(name)) is not None:
            at = outer.entries[number].start
            line = source.document.line_number(at)
            what = f"`{shown(name)}` is merged into this mapping from line {line} (`<<`)"
            return source.refuse(place, what, f"change it there, or write `{shown(name)}:` out here")
    return None


def missing_path_error(way: ResolvedPath, names: Sequence[str]) -> InvalidInput:
    """Return the error for a path that leads nowhere."""
    if way.blocked:
        return way.blocked
    if merged := _merged(way.source, way.place, way.rest[0]):
        return merged
    near = [entry.key.text for entry in way.place.entries if entry.key is not None and not entry.is_merge]
    close = difflib.get_close_matches(way.rest[0], near, n=1)
    fix = f"did you mean `{shown(close[0])}`?" if close else "`tfprov inventory explain HOST` says what is set where"
    what = f"nothing is called `{shown(join_path(names[: len(names) - len(way.rest) + 1]))}` here"
    return way.source.refuse(way.place, what, fix)


_SECTIONS = ("hosts", "children", "vars")


@dataclass(frozen=True)
class Location:
    """A place for a value: the way to it, and the names that lead to it. `words` say whose it is."""

    way: ResolvedPath
    names: Sequence[str]
    words: str
    rank: int
    """Where nothing is set yet: 2 for a section that is there, 1 for a file beside, 0 for a section that would be new."""

    @property
    def depth(self) -> int:
        """How many of the names are there."""
        return max(0, len(self.names) - len(self.way.rest))


def locate_group_variable(files: InventoryFiles, group: str, names: Sequence[str]) -> Location:
    """Return the place of a variable of `group`: where it takes effect, if it is set; else beside what is next to it."""
    found = [*_in_vars_files(files, "group_vars", group, names)]
    for source in files.inventories:
        stated = (mention for mention in find_groups(source) if mention.group == group)
        found.extend(_in_section(mention, ("vars",), names, f"group {group}") for mention in stated)
    if not found and group == "all" and files.inventories:
        way = resolve_path(files.inventories[0], (), ("all", "vars", *names))
        found.append(Location(way, names, "group all", 1))
    known = [mention.group for source in files.inventories for mention in find_groups(source)]
    return _best_location(files, found, ("group", group), known)


def locate_host_variable(files: InventoryFiles, host: str, names: Sequence[str]) -> Location:
    """Return the place of a variable of `host`; one that a range names gets an entry of its own beside the range."""
    found = [*_in_vars_files(files, "host_vars", host, names)]
    for source in files.inventories:
        stated = (mention for mention in find_hosts(source) if host in (mention.name, split_port(mention.name)[0]))
        found.extend(_in_section(mention, (), names, f"host {host}") for mention in stated)
    ranges = [one for one in (find_range(source, host) for source in files.inventories) if one and not found]
    found.extend(
        Location(resolve_path(one.source, one.path[:-1], (host, *names)), names, f"host {host}", 1)
        for one in ranges[-1:]
    )
    known = [mention.name for source in files.inventories for mention in find_hosts(source)]
    return _best_location(files, found, ("host", host), known)


def is_mentioned(files: InventoryFiles, kind: str, name: str) -> bool:
    """Whether a YAML source names the group or host (`kind`) `name`, the host also by a range."""
    if kind == "group":
        return name in ALWAYS or any(
            mention.group == name for source in files.inventories for mention in find_groups(source)
        )
    return any(mentions_of(source, name) or find_range(source, name) for source in files.inventories)


def locate_path(files: InventoryFiles, names: Sequence[str]) -> Location | None:
    """Return the place of a path that begins with a group at the top of an inventory; None where it does not."""
    if len(names) < 2 or names[1] not in _SECTIONS:
        return None
    tops = [
        source for source in files.inventories if names[0] == "all" or source.document.root.key(names[0]) is not None
    ]
    found = [Location(resolve_path(source, (), names), names, "", 2) for source in tops]
    best = max(found, key=lambda where: where.depth, default=None)
    if best is not None and best.way.rest:
        _refuse_new(best)
    return best


def _refuse_new(where: Location) -> None:
    """Hosts and groups are not made by setting something in them: most such names are mistaken."""
    above = path_names(where.way.source, where.way.path)
    kind = {"hosts": "host", "children": "group"}.get(above[-1] if above else "", "")
    if kind and is_structure(where.way.source, above):
        what = f"there is no {kind} `{shown(where.way.rest[0])}` here"
        fix = "add it with `tfprov inventory add-host`" if kind == "host" else "write it into the file first"
        raise where.way.source.refuse(where.way.place, what, fix)


def is_structure(source: EditableFile, names: Sequence[str]) -> bool:
    """Whether `names` lead from the top of an inventory to a group, a section of one or a host, where nothing is fine."""
    if vars_file_owner(source.name):
        return False
    rest = list(names)
    while rest:
        if len(rest) <= 2:
            return len(rest) == 1 or rest[1] in _SECTIONS
        if rest[1] != "children":
            return rest[1] == "hosts" and len(rest) == 3
        rest = rest[2:]
    return False


def path_names(source: EditableFile, path: Sequence[int]) -> list[str]:
    """Return the names that lead to a place from the top of its file."""
    place, names = source.document.root, []
    for number in path:
        entry = place.entries[number]
        names.append(entry.key.text if entry.key is not None else str(number))
        place = entry.value
    return names


def _in_vars_files(files: InventoryFiles, directory: str, name: str, names: Sequence[str]) -> Iterator[Location]:
    for source in files.vars_files:
        if vars_file_owner(source.name) == (directory, name):
            yield Location(resolve_path(source, (), names), names, f"{directory}/{name}", 1)


def _in_section(mention: Mention, section: tuple[str, ...], names: Sequence[str], words: str) -> Location:
    way = resolve_path(mention.source, mention.path, (*section, *names))
    is_there = len(way.rest) <= len(names) and mention.place.kind == "mapping"
    return Location(way, names, words, 2 if is_there else 0)


def _best_location(
    files: InventoryFiles, found: Sequence[Location], whose: tuple[str, str], known: Sequence[str]
) -> Location:
    """Return where most of the names are there, and of several such places the one that wins over the others."""
    if not found:
        kind, name = whose
        close = difflib.get_close_matches(name, known, n=1)
        if files.others and not close:
            what = f"{kind} `{shown(name)}` is in no YAML file, and tfprov edits no others"
            raise Usage(what, f"write {kind}_vars/{shown(name)}.yml beside {shown(files.others[0])}")
        fix = f"did you mean `{shown(close[0])}`?" if close else "see `tfprov inventory graph`"
        raise Usage(f"no {kind} `{shown(name)}` in the inventory", fix)
    inventories = [source.name for source in files.inventories]

    def order(number: int) -> tuple[int, int, bool, int]:
        where = found[number]
        return where.depth, where.rank, where.way.source.name not in inventories, number

    return found[max(range(len(found)), key=order)]

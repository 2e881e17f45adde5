"""Locates the file and the position at which a variable is set, or would be."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tfprov.editing.cst import CstNode, NodeKind
from tfprov.editing.cst import NodePath as KeyPath
from tfprov.editing.document import EditableFile, ListIndex
from tfprov.editing.files import InventoryFiles, vars_file_owner
from tfprov.editing.host_edits import Mention, find_groups, find_hosts, find_range, mentions_of
from tfprov.editing.semantic_diff import alias_uses, merged_mappings
from tfprov.errors import InvalidInput, Usage, closest, printable, suggest
from tfprov.inventory.builder import ALWAYS
from tfprov.inventory.host_names import NameKind

_PART = re.compile(r"""\.?(?:"([^"]*)"|'([^']*)'|\[(\d+)\]|([^.\[\]"']+))""")
_LONGEST = 32


def split_path(text: str) -> list[str]:
    """Split a path into names; a name with dots is quoted, an element of a list is `[0]` or `.0`."""
    names: list[str] = []
    offset = 0
    while offset < len(text):
        part = _PART.match(text, offset)
        if part is None or (offset and text[offset] not in ".[") or (not offset and text[0] == "."):
            raise Usage(
                f"`{printable(text)}` is not a path", "for example `tfprov.flags.train_steps` or `tfprov.command[0]`"
            )
        name = next(group for group in part.groups() if group is not None)
        names.append(name if part[3] is None else ListIndex(name))
        offset = part.end()
    if not names or len(names) > _LONGEST:
        raise Usage(f"`{printable(text)}` is not a path", "for example `tfprov.flags.train_steps`")
    return names


def join_path(names: Sequence[str]) -> str:
    """Join names to a path."""
    return ".".join(f'"{name}"' if re.search(r"[.\[\]'\s]", name) or not name else name for name in names)


@dataclass(frozen=True)
class ResolvedPath:
    """The longest part of a path that exists in a file: `path` leads to its last node, `rest` are the missing names.

    `blocked` is the error that prevents adding them.
    """

    source: EditableFile
    path: KeyPath
    rest: tuple[str, ...]
    blocked: InvalidInput | None = None

    @property
    def node(self) -> CstNode:
        """The last node that exists."""
        return self.source.document.at(self.path)

    @property
    def is_whole(self) -> bool:
        """Whether the whole path exists."""
        return not self.rest


def resolve_path(source: EditableFile, base: KeyPath, names: Sequence[str]) -> ResolvedPath:
    """Follow `names` from the node at `base` as far as they exist; several names may be one key with dots."""
    path, number = base, 0
    while number < len(names):
        rest = tuple(names[number:])
        node = source.document.at(path)
        blocked = _blocked(source, node, rest)
        count, entry = (1, None) if blocked else _matching_entry(node, rest)
        if entry is None:
            return ResolvedPath(source, path, rest, blocked)
        path, number = (*path, entry), number + count
    return ResolvedPath(source, path, ())


def _matching_entry(node: CstNode, names: Sequence[str]) -> tuple[int, int | None]:
    """Return how many of `names` form the key of an entry, and the entry's number or None."""
    if node.kind is NodeKind.LIST:
        index = int(names[0])
        return 1, index if index < len(node.entries) else None
    for count in (1, *range(len(names), 1, -1)):
        if (number := node.key(".".join(names[:count]))) is not None:
            return count, number
    return 1, None


def _blocked(source: EditableFile, node: CstNode, rest: Sequence[str]) -> InvalidInput | None:
    """Return the error if `rest[0]` can neither be an entry of `node` nor be added to it."""
    name, line = printable(rest[0]), source.document.line_number
    if node.kind is NodeKind.ALIAS:
        target = next(use.target for use in alias_uses(source.document) if use.alias is node)
        what = f"`*{node.text}` is an alias of the value on line {line(target.start)}"
        return source.refuse(node, what, f"change it on line {line(target.start)}, or write the value out here")
    if node.kind is NodeKind.LIST:
        if not name.isdecimal() or len(name) > 9:
            return source.refuse(node, f"a list, which has no `{name}`", "give a number: the first element is `[0]`")
        if int(name) > len(node.entries):
            what = f"a list of {len(node.entries)}, so there is no `[{int(name)}]`"
            return source.refuse(node, what, f"`[{len(node.entries)}]` adds an element")
        return None
    if node.kind is NodeKind.SCALAR:
        what = f"a single value, so nothing can be below it: `{name}`"
        return None if node.is_null else source.refuse(node, what, "set this value itself")
    if len(rest) > 1 and _matching_entry(node, rest)[1] is None:
        return _merged(source, node, rest[0])
    return None


def _merged(source: EditableFile, node: CstNode, name: str) -> InvalidInput | None:
    for outer in merged_mappings(source.document, node):
        if (number := outer.key(name)) is not None:
            at = outer.entries[number].start
            line = source.document.line_number(at)
            what = f"`{printable(name)}` is merged into this mapping from line {line} (`<<`)"
            return source.refuse(node, what, f"change it there, or write `{printable(name)}:` out here")
    return None


def missing_path_error(resolved: ResolvedPath, names: Sequence[str]) -> InvalidInput:
    """Return the error for a path that does not exist."""
    if resolved.blocked:
        return resolved.blocked
    if merged := _merged(resolved.source, resolved.node, resolved.rest[0]):
        return merged
    depth = len(names) - len(resolved.rest)  # below 0 where `vars:`, or a host of a range, is missing, too
    near = [entry.key.text for entry in resolved.node.entries if entry.key is not None and not entry.is_merge]
    shows = "`tfprov inventory explain HOST` shows where values are set"
    fix = suggest(resolved.rest[0], near, shows) if depth >= 0 else shows
    what = f"nothing is called `{printable(join_path(names[: max(depth, 0) + 1]))}` here"
    return resolved.source.refuse(resolved.node, what, fix)


_SECTIONS = ("hosts", "children", "vars")


@dataclass(frozen=True)
class Location:
    """Where a value is, or would be added: a path, its names, and the `owner` of the variable in words."""

    resolved: ResolvedPath
    names: Sequence[str]
    owner: str
    rank: int
    """3 for a value in a vars file, which wins over one in a section.

    For a new value: 2 for a section that exists, 1 for a vars file, 0 for a section that would be added.
    """

    @property
    def depth(self) -> int:
        """How many of the names exist."""
        return max(0, len(self.names) - len(self.resolved.rest))


def locate_group_variable(files: InventoryFiles, group: str, names: Sequence[str]) -> Location:
    """Return the location of a variable of `group`: where the effective value is set, else beside its nearest siblings."""
    locations = [*_in_vars_files(files, "group_vars", group, names)]
    for source in files.inventories:
        mentions = (mention for mention in find_groups(source) if mention.group == group)
        locations.extend(_in_section(mention, ("vars",), names, f"group {group}") for mention in mentions)
    if not locations and group == "all" and files.inventories:
        resolved = resolve_path(files.inventories[0], (), ("all", "vars", *names))
        locations.append(Location(resolved, names, "group all", 1))
    known = [mention.group for source in files.inventories for mention in find_groups(source)]
    return _best_location(files, locations, (NameKind.GROUP, group), known)


def locate_host_variable(files: InventoryFiles, host: str, names: Sequence[str]) -> Location:
    """Return the location of a variable of `host`; a host of a range gets an entry of its own beside the range."""
    locations = [*_in_vars_files(files, "host_vars", host, names)]
    for source in files.inventories:
        locations.extend(_in_section(mention, (), names, f"host {host}") for mention in mentions_of(source, host))
    ranges = [mention for source in files.inventories if (mention := find_range(source, host)) and not locations]
    locations.extend(
        Location(resolve_path(mention.source, mention.path[:-1], (host, *names)), names, f"host {host}", 1)
        for mention in ranges
    )
    known = [mention.name for source in files.inventories for mention in find_hosts(source)]
    return _best_location(files, locations, (NameKind.HOST, host), known)


def is_mentioned(files: InventoryFiles, kind: NameKind, name: str) -> bool:
    """Whether a YAML source names the group or host (`kind`) `name`, the host also by a range."""
    if kind is NameKind.GROUP:
        return name in ALWAYS or any(
            mention.group == name for source in files.inventories for mention in find_groups(source)
        )
    return any(mentions_of(source, name) or find_range(source, name) for source in files.inventories)


def locate_path(files: InventoryFiles, names: Sequence[str]) -> Location | None:
    """Return the location of a path that begins with a top-level group of an inventory, else None."""
    if len(names) < 2 or names[1] not in _SECTIONS:
        return None
    tops = [
        source for source in files.inventories if names[0] == "all" or source.document.root.key(names[0]) is not None
    ]
    locations = [Location(resolve_path(source, (), names), names, "", 2) for source in tops]
    best = max(locations, key=lambda location: location.depth, default=None)
    if best is not None and best.resolved.rest:
        _refuse_new(best)
    return best


def _refuse_new(location: Location) -> None:
    """Refuse a path that would add a host or group: such a name is usually a typo."""
    above = path_names(location.resolved.source, location.resolved.path)
    kind = {"hosts": NameKind.HOST, "children": NameKind.GROUP}.get(above[-1] if above else "")
    if kind and is_structure(location.resolved.source, above):
        what = f"there is no {kind} `{printable(location.resolved.rest[0])}` here"
        fix = "add it with `tfprov inventory add-host`" if kind is NameKind.HOST else "write it into the file first"
        raise location.resolved.source.refuse(location.resolved.node, what, fix)


def is_structure(source: EditableFile, names: Sequence[str]) -> bool:
    """Whether `names` lead to a group, its section or a host of an inventory, which may be empty."""
    if vars_file_owner(source.name):
        return False
    rest = list(names)
    while len(rest) > 2:
        if rest[1] != "children":
            return rest[1] == "hosts" and len(rest) == 3
        rest = rest[2:]
    return len(rest) == 1 or rest[1:] in [[section] for section in _SECTIONS]


def path_names(source: EditableFile, path: Sequence[int]) -> list[str]:
    """Return the names on the path of a node from the top of its file."""
    node, names = source.document.root, []
    for number in path:
        entry = node.entries[number]
        names.append(entry.key.text if entry.key is not None else str(number))
        node = entry.value
    return names


def _in_vars_files(files: InventoryFiles, directory: str, name: str, names: Sequence[str]) -> Iterator[Location]:
    for source in files.vars_files:
        if vars_file_owner(source.name) == (directory, name):
            resolved = resolve_path(source, (), names)
            yield Location(resolved, names, f"{directory}/{name}", 3 if resolved.is_whole else 1)


def _in_section(mention: Mention, section: tuple[str, ...], names: Sequence[str], owner: str) -> Location:
    resolved = resolve_path(mention.source, mention.path, (*section, *names))
    is_there = len(resolved.rest) <= len(names) and mention.node.kind is NodeKind.MAPPING
    return Location(resolved, names, owner, 2 if is_there else 0)


def _best_location(
    files: InventoryFiles, locations: Sequence[Location], owner: tuple[NameKind, str], known: Sequence[str]
) -> Location:
    """Return the location at which most names exist; of several, the one that wins in the inventory."""
    if not locations:
        kind, name = owner
        if files.others and closest(name, known) is None:
            what = f"{kind} `{printable(name)}` is in no YAML file, and tfprov edits no others"
            raise Usage(what, f"write {kind}_vars/{printable(name)}.yml beside {printable(files.others[0])}")
        fix = suggest(name, known, "see `tfprov inventory graph`")
        raise Usage(f"no {kind} `{printable(name)}` in the inventory", fix)

    def order(number: int) -> tuple[int, int, int]:
        return locations[number].depth, locations[number].rank, number

    return locations[max(range(len(locations)), key=order)]

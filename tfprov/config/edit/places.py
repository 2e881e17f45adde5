"""Which of an inventory's files an edit belongs to, and where in it."""

import difflib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfprov.config.edit.hosts import Mention, groups, hosts, in_range
from tfprov.config.edit.paths import Way, follow
from tfprov.config.edit.text import Source
from tfprov.config.sources.beside import DIRECTORIES, EXTENSIONS
from tfprov.config.sources.names import without_port
from tfprov.errors import Usage, shown

_SECTIONS = ("hosts", "children", "vars")


@dataclass(frozen=True)
class Files:
    """The files that can be edited, in the order in which they apply: inventories, and what is beside them.

    `others` are those that cannot: INI, scripts, and what is encrypted as a whole.
    """

    inventories: tuple[Source, ...]
    beside: tuple[Source, ...]
    others: tuple[str, ...]

    def with_source(self, source: Source) -> "Files":
        """Return the same files, of which one has changed."""

        def changed(sources: Sequence[Source]) -> tuple[Source, ...]:
            return tuple(source if one.name == source.name else one for one in sources)

        return replace(self, inventories=changed(self.inventories), beside=changed(self.beside))

    def find(self, name: str) -> Source:
        """Return the file called `name`."""
        return next(one for one in (*self.inventories, *self.beside) if one.name == name)


@dataclass(frozen=True)
class Where:
    """A place for a value: the way to it, and the names that lead to it. `words` say whose it is."""

    way: Way
    names: Sequence[str]
    words: str
    rank: int
    """Where nothing is set yet: 2 for a section that is there, 1 for a file beside, 0 for a section that would be new."""

    @property
    def depth(self) -> int:
        """How many of the names are there."""
        return max(0, len(self.names) - len(self.way.rest))


def owner_of(path: str) -> tuple[str, str] | None:
    """Return ("group_vars", "worker") for a file of the variables of `worker`; None for other files."""
    parts = Path(path).parts
    for number in range(len(parts) - 2, -1, -1):
        if parts[number] in DIRECTORIES:
            name, extension = os.path.splitext(parts[number + 1])  # noqa: PTH122  as Ansible splits it
            return parts[number], name if extension in EXTENSIONS else parts[number + 1]
    return None


def for_group(files: Files, group: str, names: Sequence[str]) -> Where:
    """Return the place of a variable of `group`: where it takes effect, if it is set; else beside what is next to it."""
    found = [*_beside(files, "group_vars", group, names)]
    for source in files.inventories:
        stated = (mention for mention in groups(source) if mention.group == group)
        found.extend(_in_section(mention, ("vars",), names, f"group {group}") for mention in stated)
    if not found and group == "all" and files.inventories:
        way = follow(files.inventories[0], (), ("all", "vars", *names))
        found.append(Where(way, names, "group all", 1))
    known = [mention.group for source in files.inventories for mention in groups(source)]
    return _best(files, found, ("group", group), known)


def for_host(files: Files, host: str, names: Sequence[str]) -> Where:
    """Return the place of a variable of `host`; one that a range names gets an entry of its own beside the range."""
    found = [*_beside(files, "host_vars", host, names)]
    for source in files.inventories:
        stated = (mention for mention in hosts(source) if host in (mention.name, without_port(mention.name)[0]))
        found.extend(_in_section(mention, (), names, f"host {host}") for mention in stated)
    ranges = [one for one in (in_range(source, host) for source in files.inventories) if one and not found]
    found.extend(
        Where(follow(one.source, one.path[:-1], (host, *names)), names, f"host {host}", 1) for one in ranges[-1:]
    )
    known = [mention.name for source in files.inventories for mention in hosts(source)]
    return _best(files, found, ("host", host), known)


def for_path(files: Files, names: Sequence[str]) -> Where | None:
    """Return the place of a path that begins with a group at the top of an inventory; None where it does not."""
    if len(names) < 2 or names[1] not in _SECTIONS:
        return None
    tops = [
        source for source in files.inventories if names[0] == "all" or source.document.root.key(names[0]) is not None
    ]
    found = [Where(follow(source, (), names), names, "", 2) for source in tops]
    best = max(found, key=lambda where: where.depth, default=None)
    if best is not None and best.way.rest:
        _refuse_new(best)
    return best


def _refuse_new(where: Where) -> None:
    """Hosts and groups are not made by setting something in them: most such names are mistaken."""
    above = names_to(where.way.source, where.way.path)
    kind = {"hosts": "host", "children": "group"}.get(above[-1] if above else "", "")
    if kind and is_structure(where.way.source, above):
        what = f"there is no {kind} `{shown(where.way.rest[0])}` here"
        fix = "add it with `tfprov inventory add-host`" if kind == "host" else "write it into the file first"
        raise where.way.source.refuse(where.way.place, what, fix)


def is_structure(source: Source, names: Sequence[str]) -> bool:
    """Whether `names` lead from the top of an inventory to a group, a section of one or a host, where nothing is fine."""
    if owner_of(source.name):
        return False
    rest = list(names)
    while rest:
        if len(rest) <= 2:
            return len(rest) == 1 or rest[1] in _SECTIONS
        if rest[1] != "children":
            return rest[1] == "hosts" and len(rest) == 3
        rest = rest[2:]
    return False


def names_to(source: Source, path: Sequence[int]) -> list[str]:
    """Return the names that lead to a place from the top of its file."""
    place, names = source.document.root, []
    for number in path:
        entry = place.entries[number]
        names.append(entry.key.text if entry.key is not None else str(number))
        place = entry.value
    return names


def _beside(files: Files, directory: str, name: str, names: Sequence[str]) -> Iterator[Where]:
    for source in files.beside:
        if owner_of(source.name) == (directory, name):
            yield Where(follow(source, (), names), names, f"{directory}/{name}", 1)


def _in_section(mention: Mention, section: tuple[str, ...], names: Sequence[str], words: str) -> Where:
    way = follow(mention.source, mention.path, (*section, *names))
    is_there = len(way.rest) <= len(names) and mention.place.kind == "mapping"
    return Where(way, names, words, 2 if is_there else 0)


def _best(files: Files, found: Sequence[Where], whose: tuple[str, str], known: Sequence[str]) -> Where:
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

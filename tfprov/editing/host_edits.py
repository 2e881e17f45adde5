"""Where the text of a YAML inventory names its groups and hosts, and the edits that add, remove and rename hosts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tfprov.editing.cst import Path, Place
from tfprov.editing.document import Edited, Source, add_entry, give_name, remove
from tfprov.editing.scalar_emitter import Value, inline, key_text
from tfprov.errors import InvalidInput, Position, shown
from tfprov.inventory.host_names import RangeError, expand, without_port


@dataclass(frozen=True)
class Mention:
    """A place where a file names a group or host: `path` leads to its entry, `group` is the group (of the host)."""

    source: Source
    group: str
    path: Path
    name: str = ""

    @property
    def place(self) -> Place:
        """What stands behind the name."""
        return self.source.document.at(self.path)

    @property
    def at(self) -> Position:
        """Where the name stands."""
        return self.source.position(self.source.document.entry(self.path).start)

    def section(self, name: str) -> Path | None:
        """Return the way to `hosts`, `children` or `vars` of a group, if it has one here."""
        number = self.place.key(name)
        return None if number is None else (*self.path, number)


def groups(source: Source) -> Iterator[Mention]:
    """Yield every place where a group is named, in the order of the file; what aliases stand for is told where it is."""
    ahead: list[Path] = [(number,) for number in reversed(range(len(source.document.root.entries)))]
    while ahead:
        path = ahead.pop()
        key = source.document.entry(path).key
        if key is None or key.text == "<<":
            continue
        mention = Mention(source, key.text, path)
        yield mention
        if below := mention.section("children"):
            ahead += [(*below, number) for number in reversed(range(len(source.document.at(below).entries)))]


def hosts(source: Source) -> Iterator[Mention]:
    """Yield every place where a host or a range of hosts is named, in the order of the file."""
    for group in groups(source):
        if below := group.section("hosts"):
            for number, entry in enumerate(source.document.at(below).entries):
                if entry.key is not None and not entry.is_merge:
                    yield Mention(source, group.group, (*below, number), entry.key.text)


def named(source: Source, host: str) -> list[Mention]:
    """Return the places that name `host` itself, with or without a port."""
    return [mention for mention in hosts(source) if host in (mention.name, without_port(mention.name)[0])]


def in_range(source: Source, host: str) -> Mention | None:
    """Return the range that `host` is one of, if any."""
    for mention in hosts(source):
        try:
            if "[" in mention.name and host in expand(without_port(mention.name)[0]) and mention.name != host:
                return mention
        except RangeError:
            continue
    return None


def refuse_range(mention: Mention, host: str, verb: str) -> InvalidInput:
    """Return the error for a host that is one of a range, with the ranges that would be left."""
    rest = _without(mention.name, host)
    entry = mention.source.document.entry(mention.path)
    what = f"{shown(host)} is one of `{shown(mention.name)}`"
    if len(rest) == 1:
        fix = f"write `{shown(rest[0])}`: `tfprov inventory move-host '{shown(mention.name)}' '{shown(rest[0])}'`"
    elif rest:
        fix = f"write `{shown(rest[0])}` and `{shown(rest[1])}` there, then {verb} it"
    else:
        fix = f"write its hosts one by one, then {verb} it"
    return mention.source.refuse(entry.key or entry.value, what, fix)


def _without(pattern: str, host: str) -> list[str]:
    """Return the ranges that are left of a simple range without one of its hosts."""
    before, bracket, behind = pattern.partition("[")
    inside, _, after = behind.partition("]")
    ends = inside.split(":")
    if not bracket or "[" in after or len(ends) != 2 or not all(end.isdecimal() for end in ends):
        return []
    all_of = expand(pattern)
    position = all_of.index(host)

    def written(part: Sequence[str]) -> list[str]:
        numbers = [name[len(before) : len(name) - len(after)] for name in part]
        if len(part) < 2:
            return list(part)
        return [f"{before}[{numbers[0]}:{numbers[-1]}]{after}"]

    return written(all_of[:position]) + written(all_of[position + 1 :])


# -- edits ------------------------------------------------------------------------------------------------------------


def add_host(source: Source, group: str, name: str, values: Sequence[tuple[Sequence[str], Value]]) -> Edited:
    """Name `name` in `group` with variables, behind the hosts that are there; a role's group may be new."""
    mention = _group_for_hosts(source, group)
    if mention is None:
        path, names = _new_group(source, group)
        return add_entry(source, path, [*names, "hosts", name], body(values, source.document.step, flow=False))
    below = mention.section("hosts")
    if below is None:
        _open_for(source, mention.place, f"group `{group}`")
        return add_entry(source, mention.path, ["hosts", name], body(values, source.document.step, flow=False))
    place = source.document.at(below)
    _open_for(source, place, f"`hosts` of group `{group}`")
    return add_entry(source, below, [name], _like_siblings(source, place, values))


def _group_for_hosts(source: Source, group: str) -> Mention | None:
    """Return where a group has its hosts; without, where it says something; without, where it is named."""
    found = [mention for mention in groups(source) if mention.group == group]
    with_hosts = [mention for mention in found if mention.section("hosts") is not None]
    stated = [mention for mention in found if mention.place.kind == "mapping"]
    return next(iter([*with_hosts, *stated, *found]), None)


def _new_group(source: Source, group: str) -> tuple[Path, list[str]]:
    for mention in groups(source):
        if mention.group == "all" and mention.place.kind == "mapping":
            below = mention.section("children")
            if below is not None:
                _open_for(source, source.document.at(below), "`children`")
                return below, [group]
            return mention.path, ["children", group]
    return (), [group]


def _open_for(source: Source, place: Place, what: str) -> None:
    """Refuse to add to what is no mapping, or stands for one that is written elsewhere."""
    if place.kind == "alias":
        raise source.refuse(place, f"{what} is an alias, `*{place.text}`", "add it where the alias is defined")
    if place.kind != "mapping" and not place.is_null:
        raise source.refuse(place, f"{what} must be a mapping to be added to", "write one `name:` per line")


def _like_siblings(source: Source, place: Place, values: Sequence[tuple[Sequence[str], Value]]) -> Value | None:
    """Return a host's variables, written as those of the last host beside it that has some."""
    if not values:
        last = place.entries[-1].value if place.entries else None
        is_bare = last is None or last.is_absent or last.kind == "alias" or bool(last.entries) or bool(last.anchor)
        is_empty = last is not None and not is_bare and (last.is_null or last.kind == "mapping")
        return Value.made(source.document.text[last.start : last.end]) if is_empty and last else None
    written = [entry.value for entry in place.entries if entry.value.kind == "mapping" and entry.value.entries]
    return body(values, source.document.step, flow=bool(written and written[-1].style))


def body(values: Sequence[tuple[Sequence[str], Value]], step: int, *, flow: bool) -> Value | None:
    """Return variables as one mapping, in brackets or on lines of their own."""
    if not values:
        return None
    tree: Tree = {}
    for names, value in values:
        below = tree
        for name in names[:-1]:
            inner = below.setdefault(name, {})
            below = inner if isinstance(inner, dict) else below.setdefault(name, {})  # type: ignore[assignment]
        below[names[-1]] = value
    text = _in_brackets(tree) if flow else "\n".join(_on_lines(tree, "", step)) + "\n"
    return Value.made(text, as_block=not flow)


Tree = dict[str, "Value | Tree"]


def _in_brackets(tree: Tree) -> str:
    pairs = []
    for name, value in tree.items():
        text = _in_brackets(value) if isinstance(value, dict) else inline(value, flow=True, as_json=False)
        pairs.append(f"{key_text(name, flow=True, as_json=False)}: {text}")
    return "{" + ", ".join(pairs) + "}"


def _on_lines(tree: Tree, pad: str, step: int) -> Iterator[str]:
    for name, value in tree.items():
        key = key_text(name, flow=False, as_json=False)
        if isinstance(value, dict):
            yield f"{pad}{key}:"
            yield from _on_lines(value, pad + " " * step, step)
        else:
            yield f"{pad}{key}: {inline(value, flow=False, as_json=False)}"


def remove_host(source: Source, mention: Mention) -> Edited:
    """Take a host out of the one group that `mention` names it in."""
    return remove(source, mention.path, leave_nothing=True)


def move_host(source: Source, mention: Mention, name: str) -> Edited:
    """Give a host another name in the one group that `mention` names it in; a port behind it stays."""
    _, port = without_port(mention.name)
    return give_name(source, mention.path, f"{name}:{port}" if port and not without_port(name)[1] else name)

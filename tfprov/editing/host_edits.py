"""Where the text of a YAML inventory names its groups and hosts, and the edits that add, remove and rename hosts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tfprov.editing.cst import CstNode, NodePath
from tfprov.editing.document import EditableFile, EditedFile, add_entry, remove_entry, rename_key
from tfprov.editing.scalar_emitter import NewValue, emit_inline, emit_key
from tfprov.errors import InvalidInput, Position, shown
from tfprov.inventory.host_names import RangeError, expand, split_port


@dataclass(frozen=True)
class Mention:
    """A place where a file names a group or host: `path` leads to its entry, `group` is the group (of the host)."""

    source: EditableFile
    group: str
    path: NodePath
    name: str = ""

    @property
    def place(self) -> CstNode:
        """What stands behind the name."""
        return self.source.document.at(self.path)

    @property
    def at(self) -> Position:
        """Where the name stands."""
        return self.source.position(self.source.document.entry(self.path).start)

    def section(self, name: str) -> NodePath | None:
        """Return the way to `hosts`, `children` or `vars` of a group, if it has one here."""
        number = self.place.key(name)
        return None if number is None else (*self.path, number)


def find_groups(source: EditableFile) -> Iterator[Mention]:
    """Yield every place where a group is named, in the order of the file; what aliases stand for is told where it is."""
    ahead: list[NodePath] = [(number,) for number in reversed(range(len(source.document.root.entries)))]
    while ahead:
        path = ahead.pop()
        key = source.document.entry(path).key
        if key is None or key.text == "<<":
            continue
        mention = Mention(source, key.text, path)
        yield mention
        if below := mention.section("children"):
            ahead += [(*below, number) for number in reversed(range(len(source.document.at(below).entries)))]


def find_hosts(source: EditableFile) -> Iterator[Mention]:
    """Yield every place where a host or a range of hosts is named, in the order of the file."""
    for group in find_groups(source):
        if below := group.section("hosts"):
            for number, entry in enumerate(source.document.at(below).entries):
                if entry.key is not None and not entry.is_merge:
                    yield Mention(source, group.group, (*below, number), entry.key.text)


def mentions_of(source: EditableFile, host: str) -> list[Mention]:
    """Return the places that name `host` itself, with or without a port."""
    return [mention for mention in find_hosts(source) if host in (mention.name, split_port(mention.name)[0])]


def find_range(source: EditableFile, host: str) -> Mention | None:
    """Return the range that `host` is one of, if any."""
    for mention in find_hosts(source):
        try:
            if "[" in mention.name and host in expand(split_port(mention.name)[0]) and mention.name != host:
                return mention
        except RangeError:
            continue
    return None


def range_error(mention: Mention, host: str, verb: str) -> InvalidInput:
    """Return the error for a host that is one of a range, with the ranges that would be left."""
    rest = _ranges_without(mention.name, host)
    entry = mention.source.document.entry(mention.path)
    what = f"{shown(host)} is one of `{shown(mention.name)}`"
    if len(rest) == 1:
        fix = f"write `{shown(rest[0])}`: `tfprov inventory move-host '{shown(mention.name)}' '{shown(rest[0])}'`"
    elif rest:
        fix = f"write `{shown(rest[0])}` and `{shown(rest[1])}` there, then {verb} it"
    else:
        fix = f"write its hosts one by one, then {verb} it"
    return mention.source.refuse(entry.key or entry.value, what, fix)


def _ranges_without(pattern: str, host: str) -> list[str]:
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


def add_host(
    source: EditableFile, group: str, name: str, values: Sequence[tuple[Sequence[str], NewValue]]
) -> EditedFile:
    """Name `name` in `group` with variables, behind the hosts that are there; a role's group may be new."""
    mention = _group_for_hosts(source, group)
    if mention is None:
        path, names = _new_group(source, group)
        return add_entry(source, path, [*names, "hosts", name], mapping_value(values, source.document.step, flow=False))
    below = mention.section("hosts")
    if below is None:
        _require_mapping(source, mention.place, f"group `{group}`")
        return add_entry(source, mention.path, ["hosts", name], mapping_value(values, source.document.step, flow=False))
    place = source.document.at(below)
    _require_mapping(source, place, f"`hosts` of group `{group}`")
    return add_entry(source, below, [name], _variables_like_siblings(source, place, values))


def _group_for_hosts(source: EditableFile, group: str) -> Mention | None:
    """Return where a group has its hosts; without, where it says something; without, where it is named."""
    found = [mention for mention in find_groups(source) if mention.group == group]
    with_hosts = [mention for mention in found if mention.section("hosts") is not None]
    stated = [mention for mention in found if mention.place.kind == "mapping"]
    return next(iter([*with_hosts, *stated, *found]), None)


def _new_group(source: EditableFile, group: str) -> tuple[NodePath, list[str]]:
    for mention in find_groups(source):
        if mention.group == "all" and mention.place.kind == "mapping":
            below = mention.section("children")
            if below is not None:
                _require_mapping(source, source.document.at(below), "`children`")
                return below, [group]
            return mention.path, ["children", group]
    return (), [group]


def _require_mapping(source: EditableFile, place: CstNode, what: str) -> None:
    """Refuse to add to what is no mapping, or stands for one that is written elsewhere."""
    if place.kind == "alias":
        raise source.refuse(place, f"{what} is an alias, `*{place.text}`", "add it where the alias is defined")
    if place.kind != "mapping" and not place.is_null:
        raise source.refuse(place, f"{what} must be a mapping to be added to", "write one `name:` per line")


def _variables_like_siblings(
    source: EditableFile, place: CstNode, values: Sequence[tuple[Sequence[str], NewValue]]
) -> NewValue | None:
    """Return a host's variables, written as those of the last host beside it that has some."""
    if not values:
        last = place.entries[-1].value if place.entries else None
        is_bare = last is None or last.is_absent or last.kind == "alias" or bool(last.entries) or bool(last.anchor)
        is_empty = last is not None and not is_bare and (last.is_null or last.kind == "mapping")
        return NewValue.made(source.document.text[last.start : last.end]) if is_empty and last else None
    written = [entry.value for entry in place.entries if entry.value.kind == "mapping" and entry.value.entries]
    return mapping_value(values, source.document.step, flow=bool(written and written[-1].style))


def mapping_value(values: Sequence[tuple[Sequence[str], NewValue]], step: int, *, flow: bool) -> NewValue | None:
    """Return variables as one mapping, in brackets or on lines of their own."""
    if not values:
        return None
    tree: VariableTree = {}
    for names, value in values:
        below = tree
        for name in names[:-1]:
            inner = below.setdefault(name, {})
            below = inner if isinstance(inner, dict) else below.setdefault(name, {})  # type: ignore[assignment]
        below[names[-1]] = value
    text = _emit_flow(tree) if flow else "\n".join(_emit_block(tree, "", step)) + "\n"
    return NewValue.made(text, as_block=not flow)


VariableTree = dict[str, "NewValue | VariableTree"]


def _emit_flow(tree: VariableTree) -> str:
    pairs = []
    for name, value in tree.items():
        text = _emit_flow(value) if isinstance(value, dict) else emit_inline(value, flow=True, as_json=False)
        pairs.append(f"{emit_key(name, flow=True, as_json=False)}: {text}")
    return "{" + ", ".join(pairs) + "}"


def _emit_block(tree: VariableTree, pad: str, step: int) -> Iterator[str]:
    for name, value in tree.items():
        key = emit_key(name, flow=False, as_json=False)
        if isinstance(value, dict):
            yield f"{pad}{key}:"
            yield from _emit_block(value, pad + " " * step, step)
        else:
            yield f"{pad}{key}: {emit_inline(value, flow=False, as_json=False)}"


def remove_host(source: EditableFile, mention: Mention) -> EditedFile:
    """Take a host out of the one group that `mention` names it in."""
    return remove_entry(source, mention.path, leave_nothing=True)


def move_host(source: EditableFile, mention: Mention, name: str) -> EditedFile:
    """Give a host another name in the one group that `mention` names it in; a port behind it stays."""
    _, port = split_port(mention.name)
    return rename_key(source, mention.path, f"{name}:{port}" if port and not split_port(name)[1] else name)

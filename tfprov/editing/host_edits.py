"""Finds the groups and hosts in the text of a YAML inventory; adds, removes and renames hosts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tfprov.editing.cst import CstNode, NodeKind, NodePath
from tfprov.editing.document import EditableFile, EditedFile, ListIndex, add_entry, remove_entry, rename_key
from tfprov.editing.scalar_emitter import NewValue, emit_inline, emit_key
from tfprov.errors import InvalidInput, Position, Usage, printable
from tfprov.inventory.host_names import RangeError, expand, split_port


@dataclass(frozen=True)
class Mention:
    """An entry of a file that names a group, or a host (`name`) of a group."""

    source: EditableFile
    group: str
    path: NodePath
    name: str = ""

    @property
    def node(self) -> CstNode:
        """The value of the entry."""
        return self.source.document.at(self.path)

    @property
    def at(self) -> Position:
        """The position of the name."""
        return self.source.position(self.source.document.entry(self.path).start)

    def section(self, name: str) -> NodePath | None:
        """Return the path to `hosts`, `children` or `vars` of the group, or None."""
        number = self.node.key(name)
        return None if number is None else (*self.path, number)


def find_groups(source: EditableFile) -> Iterator[Mention]:
    """Yield every entry that names a group, in the order of the file; aliases are not followed."""
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
    """Yield every entry that names a host or a range of hosts, in the order of the file."""
    for group in find_groups(source):
        if below := group.section("hosts"):
            for number, entry in enumerate(source.document.at(below).entries):
                if entry.key is not None and not entry.is_merge:
                    yield Mention(source, group.group, (*below, number), entry.key.text)


def mentions_of(source: EditableFile, host: str) -> list[Mention]:
    """Return the entries that name `host` itself, with or without a port."""
    return [mention for mention in find_hosts(source) if host in (mention.name, split_port(mention.name)[0])]


def find_range(source: EditableFile, host: str) -> Mention | None:
    """Return the range that contains `host`, or None."""
    for mention in find_hosts(source):
        pattern = split_port(mention.name)[0]  # an IPv6 address has brackets where a port follows it
        try:
            if "[" in pattern and host in expand(pattern) and mention.name != host:
                return mention
        except RangeError:
            continue
    return None


def range_error(mention: Mention, host: str, verb: str) -> InvalidInput:
    """Return the error for an edit of a host of a range; the fix names the ranges without it."""
    rest = _ranges_without(mention.name, host)
    entry = mention.source.document.entry(mention.path)
    what = f"{printable(host)} is one of `{printable(mention.name)}`"
    if len(rest) == 1:
        command = f"tfprov inventory move-host '{printable(mention.name)}' '{printable(rest[0])}'"
        fix = f"write `{printable(rest[0])}`: `{command}`"
    elif rest:
        fix = f"write `{printable(rest[0])}` and `{printable(rest[1])}` there, then {verb} it"
    else:
        fix = f"write its hosts one by one, then {verb} it"
    return mention.source.refuse(entry.key or entry.value, what, fix)


def _ranges_without(mentioned: str, host: str) -> list[str]:
    """Return the ranges that remain of a simple range without `host`, with its port; none if it is not simple."""
    pattern, number = split_port(mentioned)
    port = "" if number is None else f":{number}"
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
            return [f"{name}{port}" for name in part]
        return [f"{before}[{numbers[0]}:{numbers[-1]}]{after}{port}"]

    return written(all_of[:position]) + written(all_of[position + 1 :])


# -- edits ------------------------------------------------------------------------------------------------------------


def add_host(
    source: EditableFile, group: str, name: str, values: Sequence[tuple[Sequence[str], NewValue]]
) -> EditedFile:
    """Add the host `name` with variables to `group`, after its other hosts; a role's group may be new."""
    mention = _group_for_hosts(source, group)
    if mention is None:
        path, names = _new_group(source, group)
        return add_entry(source, path, [*names, "hosts", name], mapping_value(values, source.document.step, flow=False))
    below = mention.section("hosts")
    if below is None:
        _require_mapping(source, mention.node, f"group `{group}`")
        return add_entry(source, mention.path, ["hosts", name], mapping_value(values, source.document.step, flow=False))
    hosts = source.document.at(below)
    _require_mapping(source, hosts, f"`hosts` of group `{group}`")
    return add_entry(source, below, [name], _variables_like_siblings(source, hosts, values))


def _group_for_hosts(source: EditableFile, group: str) -> Mention | None:
    """Return the entry of `group` that has hosts, else one that is a mapping, else any; None if there is none."""
    mentions = [mention for mention in find_groups(source) if mention.group == group]
    with_hosts = [mention for mention in mentions if mention.section("hosts") is not None]
    mappings = [mention for mention in mentions if mention.node.kind is NodeKind.MAPPING]
    return next(iter([*with_hosts, *mappings, *mentions]), None)


def _new_group(source: EditableFile, group: str) -> tuple[NodePath, list[str]]:
    for mention in find_groups(source):
        if mention.group == "all" and mention.node.kind is NodeKind.MAPPING:
            below = mention.section("children")
            if below is not None:
                _require_mapping(source, source.document.at(below), "`children`")
                return below, [group]
            return mention.path, ["children", group]
    return (), [group]


def _require_mapping(source: EditableFile, node: CstNode, what: str) -> None:
    """Refuse to add to a node that is an alias or no mapping."""
    if node.kind is NodeKind.ALIAS:
        raise source.refuse(node, f"{what} is an alias, `*{node.text}`", "add it where the alias is defined")
    if node.kind is not NodeKind.MAPPING and not node.is_null:
        raise source.refuse(node, f"{what} must be a mapping to be added to", "write one `name:` per line")


def _variables_like_siblings(
    source: EditableFile, siblings: CstNode, values: Sequence[tuple[Sequence[str], NewValue]]
) -> NewValue | None:
    """Return the variables of a new host in the style of its siblings."""
    if not values:
        last = siblings.entries[-1].value if siblings.entries else None
        is_bare = (
            last is None or last.is_absent or last.kind is NodeKind.ALIAS or bool(last.entries) or bool(last.anchor)
        )
        is_empty = last is not None and not is_bare and (last.is_null or last.kind is NodeKind.MAPPING)
        return NewValue.from_text(source.document.text[last.start : last.end]) if is_empty and last else None
    written = [
        entry.value for entry in siblings.entries if entry.value.kind is NodeKind.MAPPING and entry.value.entries
    ]
    return mapping_value(values, source.document.step, flow=bool(written and written[-1].style))


def mapping_value(values: Sequence[tuple[Sequence[str], NewValue]], step: int, *, flow: bool) -> NewValue | None:
    """Return variables as one mapping, in flow or block style; None without variables."""
    if not values:
        return None
    tree: VariableTree = {}
    for names, value in values:
        if index := next((name for name in names if isinstance(name, ListIndex)), None):
            raise Usage(f"a new host has no list that could have `[{index}]`", "give the whole list, such as `[a, b]`")
        below = tree
        for name in names[:-1]:
            inner = below.setdefault(name, {})
            if not isinstance(inner, dict):
                raise _both_single_and_mapping(name)
            below = inner
        if isinstance(below.get(names[-1]), dict):
            raise _both_single_and_mapping(names[-1])
        below[names[-1]] = value
    text = _emit_flow(tree) if flow else "\n".join(_emit_block(tree, "", step)) + "\n"
    return NewValue.from_text(text, as_block=not flow)


def _both_single_and_mapping(name: str) -> Usage:
    return Usage(f"`{printable(name)}` gets a value, and another one below it", "give only one of them")


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
    """Remove the entry `mention` of a host."""
    return remove_entry(source, mention.path, leave_nothing=True)


def move_host(source: EditableFile, mention: Mention, name: str) -> EditedFile:
    """Rename the host of the entry `mention`; its port stays."""
    _, port = split_port(mention.name)
    if port and not split_port(name)[1]:
        name = f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
    return rename_key(source, mention.path, name)

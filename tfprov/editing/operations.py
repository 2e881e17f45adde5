"""The edits of an inventory: each returns the changed files and describes the change."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from tfprov.editing import host_edits
from tfprov.editing.cst import CstNode, NodeKind, NodePath
from tfprov.editing.document import EditableFile, EditedFile, ListIndex, add_entry, remove_entry, replace_value
from tfprov.editing.files import InventoryFiles, vars_file_owner
from tfprov.editing.host_edits import find_groups, find_range, mentions_of, range_error
from tfprov.editing.locate import (
    Location,
    is_structure,
    join_path,
    missing_path_error,
    path_names,
)
from tfprov.editing.scalar_emitter import NewValue
from tfprov.errors import InvalidInput, Position, Problem, Usage, printable, suggest
from tfprov.inventory.host_names import NameKind, RangeError, check_name, expand, split_port
from tfprov.model.inventory import ROLES, Inventory, overlay
from tfprov.model.yaml_node import Mapping, Node, Scalar, scalars


@dataclass(frozen=True)
class EditResult:
    """The files after an edit, and a description of each change without a verb."""

    files: InventoryFiles
    changes: tuple[str, ...]

    def summary(self) -> str:
        """Return the changes in one line."""
        return ", ".join(self.changes)


def set_value(files: InventoryFiles, location: Location, value: NewValue) -> EditResult:
    """Set the value at `where`, which may be new."""
    resolved = location.resolved
    if resolved.blocked:
        raise resolved.blocked
    if resolved.is_whole:
        edited = replace_value(resolved.source, resolved.path, value)
    elif resolved.node.kind is NodeKind.LIST:
        inner = resolved.rest[1:]
        if inner:
            raise resolved.source.refuse(
                resolved.node, f"there is no `[{resolved.rest[0]}]` to set `{join_path(inner)}` in", "add it first"
            )
        edited = add_entry(resolved.source, resolved.path, [], value)
    elif index := next((name for name in resolved.rest if isinstance(name, ListIndex)), None):
        what, fix = f"there is no list here that could have `[{index}]`", "set the whole list, such as `[a, b]`"
        raise resolved.source.refuse(resolved.node, what, fix)
    else:
        edited = add_entry(resolved.source, resolved.path, resolved.rest, value)
    return _result(files, edited, _location_text(location))


def unset_value(files: InventoryFiles, location: Location) -> EditResult:
    """Remove the value at `where`."""
    resolved = location.resolved
    if not resolved.is_whole:
        raise missing_path_error(resolved, location.names)
    above = is_structure(resolved.source, path_names(resolved.source, resolved.path[:-1]))
    edited = remove_entry(resolved.source, resolved.path, leave_nothing=above)
    return _result(files, edited, _location_text(location))


Owner = tuple[NameKind, str]
"""Whose variable is edited: a group or a host, and its name."""


def refuse_hidden(files: InventoryFiles, inventory: Inventory, location: Location, owner: Owner) -> None:
    """Refuse an edit of a value that is not the one in force among those of `owner`: another file has that."""
    if hiding := hiding_value(inventory, location, owner):
        fix = "change it here"
        if hiding[1].file in files.others:
            fix += "; `ansible-vault edit` opens an encrypted file"
        raise _hidden_error(hiding, "is set here, too, and this wins", fix)


def refuse_without_effect(files: InventoryFiles, after: Inventory, location: Location, owner: Owner) -> None:
    """Refuse a new value that is hidden: among those of `owner`, or on all hosts of a group, as by `group_vars/all`."""
    refuse_hidden(files, after, location, owner)
    kind, group = owner
    hiding = None
    for variables in _variables_of_hosts(after, group) if location.owner and kind is NameKind.GROUP else ():
        hiding = _winner_elsewhere(variables, location)
        if hiding is None:
            return
    if hiding:
        what = f"is set here, too, and no host of `{printable(group)}` would have the new value"
        raise _hidden_error(hiding, what, _fix_without_effect(files, after, hiding[1].file, group))


Hiding = tuple[Sequence[str], Position]
"""The names and the position of the value that wins over one in another file."""


def hiding_value(inventory: Inventory, location: Location, owner: Owner) -> Hiding | None:
    """Return the value of `owner` that wins over the one at `location`; None if that wins, or names its place itself."""
    is_group, name = owner[0] is NameKind.GROUP, owner[1]
    known = inventory.groups if is_group else inventory.hosts
    layers = [known[name].vars] if name in known else []
    for read in inventory.vars_files:
        layers.extend((read.groups if is_group else read.hosts).get(name, ()))
    return _winner_elsewhere(reduce(overlay, layers, Mapping()), location) if location.owner else None


def _variables_of_hosts(inventory: Inventory, group: str) -> Iterator[Mapping]:
    """Yield the variables of every host of a group, as each of its roles has them; `-e` counts for one command only."""
    inventory = replace(inventory, extra=Mapping())
    for host in inventory.members(group):
        roles: list[str | None] = [role for role in ROLES if role in inventory.hosts[host].groups]
        for role in roles or [None]:
            yield inventory.variables(host, role=role)


def _winner_elsewhere(variables: Mapping, location: Location) -> Hiding | None:
    """Return the value in `variables`, or what stands in its way, if none of it is of the file of `location`."""
    node: Node = variables
    depth = 0
    while isinstance(node, Mapping) and depth < len(location.names):
        below = node.get(location.names[depth])
        if below is None:
            break
        node, depth = below, depth + 1
    origins = {scalar.at.file for scalar in scalars(node)} or {node.at.file}
    return (location.names[:depth], node.at) if depth and location.resolved.source.name not in origins else None


def _fix_without_effect(files: InventoryFiles, after: Inventory, file: str, group: str) -> str:
    """Return where to write a value of `group` that one in `file` hides: group_vars of deeper groups win."""
    directory, name = vars_file_owner(file) or ("", "")
    if directory != "group_vars" or name not in after.groups or after.groups[name].depth >= after.groups[group].depth:
        return "change it here"
    beside = f"{file[: file.rindex(f'{directory}/{name}')]}{directory}/{group}.yml"
    own = (source.name for source in files.vars_files if vars_file_owner(source.name) == (directory, group))
    return f"write it into {printable(next(own, beside))}"


def _hidden_error(hiding: Hiding, what: str, fix: str) -> InvalidInput:
    names, at = hiding
    return InvalidInput([Problem(at, f"`{printable(join_path(names))}` {what}; nothing was changed", fix)])


def _location_text(location: Location) -> str:
    return f"{join_path(location.names)}{f' of {location.owner}' if location.owner else ''}"


def _result(files: InventoryFiles, edited: EditedFile, what: str) -> EditResult:
    return EditResult(files.with_source(edited.source), (_describe(edited, what),))


def _describe(edited: EditedFile, what: str) -> str:
    shared = sorted(set(edited.shared))
    lines = f"line{'s' * (len(shared) > 1)} {', '.join(map(str, shared))}"
    also = f", and with it {lines}, by alias" if shared else ""
    return f"{what} ({printable(edited.source.name)}:{edited.line}{also})"


# -- hosts ------------------------------------------------------------------------------------------------------------


def add_host(
    files: InventoryFiles,
    inventory: Inventory | None,
    name: str,
    into: Sequence[str],
    values: Sequence[tuple[Sequence[str], NewValue]],
) -> EditResult:
    """Add a host, or the hosts of a range, to groups; the entry in the first group gets the variables."""
    hosts = _expand_new_name(name)
    changes: list[str] = []
    for number, group in enumerate(dict.fromkeys(into)):
        source = _file_of_group(files, group)
        members = (
            inventory.groups[group].hosts if inventory and group in inventory.groups and group != "ungrouped" else ()
        )
        if inventory and (existing := next((host for host in hosts if host in members), None)):
            raise Usage(f"{printable(existing)} is in `{group}` already", f"see {inventory.hosts[existing].at}")
        edited = host_edits.add_host(source, group, name, values if number == 0 else ())
        files = files.with_source(edited.source)
        changes.append(_describe(edited, f"to {group}"))
    return EditResult(files, tuple(changes))


def _expand_new_name(name: str) -> list[str]:
    """Return the hosts of a name or range; Usage if it is invalid."""
    pattern = split_port(name)[0]
    try:
        hosts = expand(pattern)
    except RangeError as error:
        raise Usage(str(error), "for example `node[1:3]`") from None
    if problem := check_name(NameKind.HOST, Scalar(name, Position(""), name, quoted=True), hosts[-1]):
        raise Usage(*problem)
    return hosts


def _file_of_group(files: InventoryFiles, group: str) -> EditableFile:
    """Return the file that names `group`; a role's group may be new."""
    known = [(source, mention.group) for source in files.inventories for mention in find_groups(source)]
    for source, name in known:
        if name == group:
            return source
    if not files.inventories:
        _require_yaml(files)
    if group in (*ROLES, "all", "ungrouped"):
        return files.inventories[0]
    fix = suggest(group, (name for _, name in known), "write it into the inventory first")
    raise Usage(f"no group `{printable(group)}`", fix)


def _require_yaml(files: InventoryFiles) -> None:
    name = printable(files.others[0]) if files.others else "the inventory"
    raise Usage(f"{name} is no YAML file, and tfprov edits no others", "edit it by hand")


def remove_host(files: InventoryFiles, inventory: Inventory | None, host: str) -> EditResult:
    """Remove a host from all groups."""
    _require_known(files, inventory, host)
    changes: list[str] = []
    for source in files.inventories:
        while mentions := mentions_of(files.find(source.name), host):
            edited = host_edits.remove_host(files.find(source.name), mentions[0])
            files = files.with_source(edited.source)
            changes.append(_describe(edited, f"from {mentions[0].group}"))
        if mention := find_range(files.find(source.name), host):
            raise range_error(mention, host, "remove")
    return EditResult(files, tuple(changes))


def move_host(files: InventoryFiles, inventory: Inventory | None, host: str, name: str) -> EditResult:
    """Rename a host in all groups, and in `image.build_on`."""
    _require_known(files, inventory, host)
    if name == host:
        raise Usage(f"{printable(host)} has that name already", "give another one")
    hosts = _expand_new_name(name)
    old = set(expand(split_port(host)[0])) if inventory and host not in inventory.hosts else {host}
    if inventory and (existing := next((name for name in hosts if name in inventory.hosts and name not in old), None)):
        raise Usage(f"{printable(existing)} is in the inventory already", f"see {inventory.hosts[existing].at}")
    changes: list[str] = []
    for source in files.inventories:
        if mention := find_range(source, host):
            raise range_error(mention, host, "move")
        for mention in mentions_of(source, host):
            edited = host_edits.move_host(files.find(source.name), mention, name)
            files = files.with_source(edited.source)
            changes.append(_describe(edited, f"in {mention.group}"))
    for source in files.editable:
        for path in _build_on_paths(source, host):
            edited = replace_value(files.find(source.name), path, NewValue.from_text(f'"{name}"'))
            files = files.with_source(edited.source)
            changes.append(_describe(edited, "in image.build_on"))
    return EditResult(files, tuple(changes))


def _require_known(files: InventoryFiles, inventory: Inventory | None, host: str) -> None:
    """Refuse a host that does not exist, or that no editable file names."""
    if not files.inventories:
        _require_yaml(files)
    if any(mentions_of(source, host) or find_range(source, host) for source in files.inventories):
        return
    if inventory and host in inventory.hosts:
        at = inventory.hosts[host].at
        what = f"{printable(host)} is named here, which is not a YAML file or an alias in one"
        raise InvalidInput([Problem(at, what, "edit the file by hand")])
    fix = suggest(host, inventory.hosts if inventory else (), "see `tfprov inventory graph`")
    raise Usage(f"no host `{printable(host)}` in the inventory", fix)


def _build_on_paths(source: EditableFile, host: str) -> list[NodePath]:
    """Return the path of every `image: {build_on: HOST}`."""
    paths: list[NodePath] = []
    ahead: list[tuple[NodePath, CstNode, str | None]] = [((), source.document.root, None)]
    while ahead:
        path, node, above = ahead.pop()
        for number, entry in enumerate(node.entries):
            key, value = entry.key.text if entry.key else None, entry.value
            if (above, key) == ("image", "build_on") and (value.kind, value.text) == (NodeKind.SCALAR, host):
                paths.append((*path, number))
            ahead.append(((*path, number), value, key))
    return paths


def host_vars_files(files: InventoryFiles, host: str) -> list[str]:
    """Return the files of `host_vars/` with variables of a host."""
    return [
        name
        for name in (*(one.name for one in files.vars_files), *files.others)
        if vars_file_owner(name) == ("host_vars", host)
    ]

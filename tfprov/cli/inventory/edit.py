"""`tfprov inventory add-host`, `remove-host`, `move-host`, `set` and `unset`: edits that leave the rest of a file alone."""

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click

from tfprov.atomic_write import rewrite
from tfprov.cli.options import source_options, sources_of, vault_of
from tfprov.editing.document import EditableFile, parse_file, unified_diff
from tfprov.editing.locate import (
    InventoryFiles,
    Location,
    locate_group_variable,
    locate_host_variable,
    locate_path,
    split_path,
    vars_file_owner,
)
from tfprov.editing.operations import (
    ChangedTexts,
    EditResult,
    add_host,
    host_vars_files,
    move_host,
    new_problems,
    remove_host,
    set_value,
    unset_value,
)
from tfprov.editing.scalar_emitter import NewValue, parse_value
from tfprov.errors import InvalidInput, Position, Problem, Usage, one_line, shown
from tfprov.inventory.detect import SourceKind, detect_kind, is_blank, is_unlikely_inventory
from tfprov.inventory.sources import source_path
from tfprov.model.inventory import Inventory
from tfprov.planning.tasks import place
from tfprov.settings.cluster_rules import processes_here
from tfprov.settings.load import load_inventory
from tfprov.settings.resolve import resolve
from tfprov.vault.decrypt import HEADER, Vault
from tfprov.vault.redaction import mentions_secret
from tfprov.yamltext.overlay import reading


@dataclass(frozen=True)
class LoadedInventory:
    """An inventory as it was read: None where it cannot be understood, the problems it has, and its files."""

    inventory: Inventory | None
    problems: tuple[Problem, ...]
    contents: dict[str, bytes] = field(default_factory=dict)


def read(options: dict[str, Any], vault: Vault, instead: dict[str, bytes] | None = None) -> LoadedInventory:
    """Read and check the inventory that `options` name; `instead` stands for the content of files, by their real paths."""
    inventory = None
    with reading(instead) as found:
        try:
            inventory = load_inventory(sources_of(options), options["extra"], vault, lookup_dirs=options["lookup_dirs"])
            place(resolve(inventory, (), [processes_here]))
        except InvalidInput as error:
            return LoadedInventory(inventory, error.problems, found.files)
    return LoadedInventory(inventory, (), found.files)


def open_files(contents: dict[str, bytes], sources: Sequence[str], extra: Sequence[str]) -> InventoryFiles:
    """Return the files of an inventory that can be edited, of all that were read for it."""
    inventories: list[EditableFile] = []
    beside: list[EditableFile] = []
    others: list[str] = []
    for name, data in contents.items():
        if f"@{name}" in extra:
            continue
        if vars_file_owner(name) is None and not _is_source(name, sources):
            continue
        stands_alone = vars_file_owner(name) is None
        is_yaml = not stands_alone or detect_kind(name, data) is SourceKind.YAML
        if is_yaml and stands_alone and is_unlikely_inventory(name, data) and name not in map(source_path, sources):
            continue  # a README in a directory
        if is_yaml and not data.startswith(HEADER.encode()):
            if not is_blank(data):
                (inventories if vars_file_owner(name) is None else beside).append(parse_file(data, name))
        elif not is_blank(data):
            others.append(name)
    return InventoryFiles(tuple(inventories), tuple(beside), tuple(others))


def _is_source(name: str, sources: Sequence[str]) -> bool:
    places = map(source_path, sources)
    return any(name == one or name.startswith(one.rstrip("/") + "/") for one in places)


class EditSession:
    """An edit from a command's options: what is there, and what is done with it at the end."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.sources, self.extra, self.vault = sources_of(options), options["extra"], vault_of(options)
        self.writes, self.shows_diff = not options["check"], options["diff"]
        self._options = options
        self.before = read(options, self.vault)
        self.inventory = self.before.inventory
        self.files = open_files(self.before.contents, self.sources, self.extra)
        if not (self.files.inventories or self.files.beside or self.files.others):
            raise InvalidInput(self.before.problems) if self.before.problems else _no_editable_file()

    def finish(self, done: EditResult, verb: str, holds: Callable[[Inventory], None] | None = None) -> None:
        """Check the result, write it, and say what was done; `verb` is in the past tense: `added x`.

        `holds` raises where the inventory does not say afterwards what the edit was for.
        """
        changed = [one for one in (*done.files.inventories, *done.files.beside) if one not in self._all()]
        texts = {one.name: (self._text(one.name), one.text) for one in changed}
        after = self._checked(texts, holds)
        if self.shows_diff:
            for name, (old, new) in texts.items():
                click.echo("".join(f"{line}\n" for line in unified_diff(name, old, new)), nl=False)
        if self.writes:
            for name, (_, new) in texts.items():
                self._write(name, new)
        if not texts:
            click.echo(f"nothing to do: {_edit_text(done)} is like that already")
        else:
            click.echo(f"{verb} {done.words()}{'' if self.writes else '; not written (--check)'}")
        if after.problems:
            count = len(after.problems)
            these = f"{count} problems; `tfprov plan` tells them" if count > 1 else "1 problem; `tfprov plan` tells it"
            click.echo(f"note: the inventory still has {these}")

    def _all(self) -> tuple[object, ...]:
        return (*self.files.inventories, *self.files.beside)

    def _text(self, name: str) -> str:
        return self.files.find(name).text

    def _checked(self, texts: ChangedTexts, holds: Callable[[Inventory], None] | None) -> LoadedInventory:
        instead = {os.path.realpath(name): new.encode() for name, (_, new) in texts.items()}
        after = read(self._options, self.vault, instead)
        if problems := new_problems(self.before.problems, after.problems, texts):
            raise InvalidInput(problems)
        if holds is not None and after.inventory is not None:
            holds(after.inventory)
        return after

    def _write(self, name: str, text: str) -> None:
        try:
            rewrite(Path(name), self.before.contents[name], text.encode())
        except OSError as error:
            reason = one_line(error.strerror or str(error))
            fix = "try again" if error.errno == errno.EBUSY else "edit a file of your own in its place"
            raise Usage(f"{shown(name)} is left as it is: {reason[0].lower()}{reason[1:]}", fix) from None


def _edit_text(done: EditResult) -> str:
    return done.words() or "it"


def _no_editable_file() -> Usage:
    return Usage("the inventory is no file that can be edited", "give a YAML file with -i")


F = TypeVar("F", bound=Callable[..., Any])


def edit_command_options(command: F) -> F:
    """Add what all edits take: where the inventory is, `--check` and `--diff`."""
    command = click.option("--diff", is_flag=True, help="Show what changes in the file.")(command)
    command = click.option("-C", "--check", is_flag=True, help="Write nothing; with --diff, to see what would change.")(
        command
    )
    return source_options(command)


def place_options(command: F) -> F:
    """Add `--group` and `--host`."""
    command = click.option("--host", help="A variable of this host, instead of all.")(command)
    return click.option("--group", help="A variable of this group, instead of all.")(command)


@click.command("add-host")
@click.argument("name")
@click.option("-g", "--group", "groups", multiple=True, required=True, help="A group to put it into; may be repeated.")
@click.option("--var", "variables", multiple=True, metavar="KEY=VALUE", help="A variable of the host; read as YAML.")
@edit_command_options
def add_host_command(name: str, groups: Sequence[str], variables: Sequence[str], **options: Any) -> None:
    """NAME may be a range, such as `node[4:6]`. A group of tfprov's (`worker`, `ps`, …) is made where there is none."""
    values = [_variable(one) for one in variables]
    editing = EditSession(options)
    editing.finish(add_host(editing.files, editing.inventory, name, groups, values), f"added {shown(name)}")


def _variable(text: str) -> tuple[Sequence[str], NewValue]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise Usage(f"`--var {shown(name)}` has no value", "write `--var name=value`")
    return split_path(name), _value(name, value, f"--var {shown(name)}")


def _value(path: str, text: str, name: str) -> NewValue:
    """Read a value; what is wrong with that of a password is told without it."""
    try:
        return parse_value(text, name)
    except InvalidInput:
        if not mentions_secret(path):
            raise
    raise InvalidInput([Problem(Position(name), "YAML reads this otherwise than it looks", "quote it twice: '\"…\"'")])


@click.command("remove-host")
@click.argument("name")
@edit_command_options
def remove_host_command(name: str, **options: Any) -> None:
    """From every group that names it. Files of `host_vars/` stay."""
    editing = EditSession(options)
    editing.finish(
        remove_host(editing.files, editing.inventory, name),
        f"removed {shown(name)}",
        lambda after: _require_removed(after, name),
    )
    for path in host_vars_files(editing.files, name):
        click.echo(f"note: {shown(path)} stays, and is not read any more")


def _require_removed(after: Inventory, host: str) -> None:
    """Refuse an edit after which a host is still there: an alias, a merge or another source names it."""
    if host in after.hosts:
        what = f"{shown(host)} would still be in the inventory: this names it too; nothing was changed"
        raise InvalidInput([Problem(after.hosts[host].at, what, "edit the file by hand")])


@click.command("move-host")
@click.argument("old", metavar="FROM")
@click.argument("new", metavar="TO")
@edit_command_options
def move_host_command(old: str, new: str, **options: Any) -> None:
    """Wherever it is named; its variables and comments stay. A range is moved as a whole: `'node[1:3]' 'node[1:4]'`."""
    editing = EditSession(options)
    if left := host_vars_files(editing.files, old):
        becomes = new.join(left[0].rsplit(old, 1))
        what = f"{shown(left[0])} holds variables of {shown(old)}, which {shown(new)} would not have"
        raise Usage(what, f"first `mv {shown(left[0])} {shown(becomes)}`")
    editing.finish(
        move_host(editing.files, editing.inventory, old, new),
        f"moved {shown(old)} to {shown(new)}",
        lambda after: _require_removed(after, old),
    )


@click.command("set", context_settings={"ignore_unknown_options": True})
@click.argument("path")
@click.argument("value")
@place_options
@edit_command_options
def set_command(path: str, value: str, group: str | None, host: str | None, **options: Any) -> None:
    """PATH is a variable of all hosts, such as `tfprov.flags.train_steps`, or leads through the whole file:
    `all.children.worker.vars.tfprov.port`. Elements of lists are counted from 0: `tfprov.command[1]`.

    VALUE is read as YAML: `5`, `true`, `[python, train.py]`; text that YAML reads otherwise is quoted twice: `'"5"'`.
    """  # noqa: D205  its first line is in the table of commands
    new = _value(path, value, "VALUE")
    editing = EditSession(options)
    editing.finish(set_value(editing.files, _locate(editing, path, group, host), new), "set")


@click.command("unset")
@click.argument("path")
@place_options
@edit_command_options
def unset_command(path: str, group: str | None, host: str | None, **options: Any) -> None:
    """PATH is as in `set`. What is above it stays, empty or not."""
    editing = EditSession(options)
    editing.finish(unset_value(editing.files, _locate(editing, path, group, host)), "removed")


def _locate(editing: EditSession, path: str, group: str | None, host: str | None) -> Location:
    names = split_path(path)
    if group is not None and host is not None:
        raise Usage("`--group` and `--host` say two places", "give one of them")
    if host is not None:
        return locate_host_variable(editing.files, host, names)
    if group is not None:
        return locate_group_variable(editing.files, group, names)
    return locate_path(editing.files, names) or locate_group_variable(editing.files, "all", names)

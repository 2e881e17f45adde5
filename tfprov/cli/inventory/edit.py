"""The commands that edit an inventory: `add-host`, `remove-host`, `move-host`, `set` and `unset`."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import click

from tfprov.cli.options import source_options, sources_of, vault_of
from tfprov.cli.shells import values
from tfprov.editing.document import unified_diff
from tfprov.editing.files import InventoryFiles, open_sources, open_vars_files, write_texts
from tfprov.editing.locate import (
    Location,
    is_mentioned,
    locate_group_variable,
    locate_host_variable,
    locate_path,
    split_path,
)
from tfprov.editing.operations import (
    EditResult,
    Owner,
    add_host,
    hiding_value,
    host_vars_files,
    move_host,
    refuse_hidden,
    refuse_without_effect,
    remove_host,
    set_value,
    unset_value,
)
from tfprov.editing.scalar_emitter import NewValue, parse_value
from tfprov.editing.semantic_diff import ChangedTexts, new_problems
from tfprov.errors import InvalidInput, Position, Problem, Usage, printable
from tfprov.inventory.host_names import NameKind
from tfprov.model.inventory import Inventory
from tfprov.planning.tasks import assign_tasks
from tfprov.settings.cluster_rules import check_processes
from tfprov.settings.load import InventoryOptions, read_inventory
from tfprov.settings.resolve import resolve
from tfprov.vault.redaction import mentions_secret


class EditSession:
    """An edit by a command: the files before it, and what is checked and written at the end."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.writes, self.shows_diff = not options["check"], options["diff"]
        self._inventory = InventoryOptions(
            sources_of(options), options["extra"], vault_of(options), lookup_dirs=options["lookup_dirs"]
        )
        self._skip = frozenset(option.removeprefix("@") for option in options["extra"] if option.startswith("@"))
        self._sources: Sequence[str] = sources_of(options)
        self.files = open_sources(self._sources, self._skip)
        if self.files.is_empty:
            self.open_all_vars_files()
        if self.files.is_empty:
            raise InvalidInput(self._problems_before) if self._problems_before else _no_editable_file()

    @cached_property
    def _loaded(self) -> tuple[Inventory, list[Problem]]:
        """The inventory before the edit, without a check of its settings."""
        return read_inventory(self._inventory)

    @property
    def inventory(self) -> Inventory | None:
        """The inventory before the edit; None if it has problems."""
        inventory, problems = self._loaded
        return None if problems else inventory

    @cached_property
    def _problems_before(self) -> tuple[Problem, ...]:
        return _problems(*self._loaded)

    def open_vars_files(self, kind: NameKind, name: str) -> None:
        """Open the vars files of the group or host (`kind`) `name` as well, if the inventory has it."""
        groups, hosts = ((name,), ()) if kind is NameKind.GROUP else ((), (name,))
        opened = open_vars_files(self._sources, groups, hosts, self._skip)
        if not opened.is_empty and (is_mentioned(self.files, kind, name) or name in self._names(kind)):
            self._add_vars_files(opened)

    def open_all_vars_files(self) -> None:
        """Open the vars files of all groups and hosts as well."""
        self._add_vars_files(
            open_vars_files(self._sources, self._names(NameKind.GROUP), self._names(NameKind.HOST), self._skip)
        )

    def _add_vars_files(self, opened: InventoryFiles) -> None:
        self.files = replace(self.files, vars_files=opened.vars_files, others=(*self.files.others, *opened.others))

    def _names(self, kind: NameKind) -> Iterable[str]:
        inventory, _ = self._loaded
        return inventory.groups if kind is NameKind.GROUP else inventory.hosts

    def finish(self, done: EditResult, verb: str, holds: Callable[[Inventory], None] | None = None) -> None:
        """Check the result, write it, and print what was done; `verb` is in the past tense: `added x`.

        `holds` raises if the inventory after the edit is not what the edit is for.
        """
        texts = {
            after.name: (before.text, after.text)
            for before, after in zip(self.files.editable, done.files.editable, strict=True)
            if before != after
        }
        remaining = self._check(texts, holds)
        if self.shows_diff:
            for name, (old, new) in texts.items():
                click.echo("".join(f"{line}\n" for line in unified_diff(name, old, new)), nl=False)
        if self.writes:
            write_texts(texts)
        if not texts:
            click.echo(f"nothing to do: {done.summary() or 'it'} is like that already")
        else:
            click.echo(f"{verb} {done.summary()}{'' if self.writes else '; not written (--check)'}")
        if remaining:
            count = len(remaining)
            these = f"{count} problems; `tfprov plan` shows them" if count > 1 else "1 problem; `tfprov plan` shows it"
            click.echo(f"note: the inventory still has {these}")

    def _check(self, texts: ChangedTexts, holds: Callable[[Inventory], None] | None) -> tuple[Problem, ...]:
        """Return the problems of the inventory after the edit, all of which it had before; InvalidInput for others."""
        file_overlay = {os.path.realpath(name): new.encode() for name, (_, new) in texts.items()}
        inventory, problems = read_inventory(replace(self._inventory, file_overlay=file_overlay))
        remaining = _problems(inventory, problems)
        if remaining and (new := new_problems(self._problems_before, remaining, texts)):
            raise InvalidInput(new)
        if holds is not None and not problems:
            holds(inventory)
        return remaining


def _problems(inventory: Inventory, problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return the problems of an inventory, those of its settings only if there are no others."""
    if problems:
        return InvalidInput(problems).problems
    try:
        assign_tasks(resolve(inventory, (), [check_processes]))
    except InvalidInput as error:
        return error.problems
    return ()


def _no_editable_file() -> Usage:
    return Usage("no source of the inventory is a file that can be edited", "give a YAML file with -i")


F = TypeVar("F", bound=Callable[..., Any])


def edit_command_options(command: F) -> F:
    """Add the options of all edits: those of the inventory, `--check` and `--diff`."""
    command = click.option("--diff", is_flag=True, help="Show what changes in the file.")(command)
    command = click.option("-C", "--check", is_flag=True, help="Write nothing; with --diff, to see what would change.")(
        command
    )
    return source_options(command)


def place_options(command: F) -> F:
    """Add `--group` and `--host`."""
    command = click.option("--host", shell_complete=values.hosts, help="A variable of this host, instead of all.")(
        command
    )
    return click.option("--group", shell_complete=values.groups, help="A variable of this group, instead of all.")(
        command
    )


@click.command("add-host")
@click.argument("name")
@click.option("-g", "--group", "groups", multiple=True, required=True, help="A group to put it into; may be repeated.")
@click.option("--var", "variables", multiple=True, metavar="KEY=VALUE", help="A variable of the host; read as YAML.")
@edit_command_options
def add_host_command(name: str, groups: Sequence[str], variables: Sequence[str], **options: Any) -> None:
    """NAME may be a range, such as `node[4:6]`. A role's group (`worker`, `ps`, …) is added if the inventory has none."""
    new = [_variable(text) for text in variables]
    session = EditSession(options)
    session.finish(add_host(session.files, session.inventory, name, groups, new), f"added {printable(name)}")


def _variable(text: str) -> tuple[Sequence[str], NewValue]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise Usage(f"`--var {printable(name)}` has no value", "write `--var name=value`")
    return split_path(name), _value(name, value, f"--var {printable(name)}")


def _value(path: str, text: str, name: str) -> NewValue:
    """Parse a value; the error for a password does not repeat it."""
    try:
        return parse_value(text, name)
    except InvalidInput:
        if not mentions_secret(path):
            raise
    raise InvalidInput(
        [Problem(Position(name), "YAML reads this differently than it looks", "quote it twice: '\"…\"'")]
    )


@click.command("remove-host")
@click.argument("name", shell_complete=values.hosts)
@edit_command_options
def remove_host_command(name: str, **options: Any) -> None:
    """The host is removed from every group. Files of `host_vars/` stay."""
    session = EditSession(options)
    session.open_vars_files(NameKind.HOST, name)
    session.finish(
        remove_host(session.files, session.inventory, name),
        f"removed {printable(name)}",
        lambda after: _require_removed(after, name),
    )
    for path in host_vars_files(session.files, name):
        click.echo(f"note: {printable(path)} stays, and is not read any more")


def _require_removed(after: Inventory, host: str) -> None:
    """Refuse an edit that leaves the host in the inventory: an alias, a merge or another source names it."""
    if host in after.hosts:
        what = f"{printable(host)} would still be in the inventory: this names it too; nothing was changed"
        raise InvalidInput([Problem(after.hosts[host].at, what, "edit the file by hand")])


@click.command("move-host")
@click.argument("old", metavar="FROM", shell_complete=values.hosts)
@click.argument("new", metavar="TO")
@edit_command_options
def move_host_command(old: str, new: str, **options: Any) -> None:
    """The host is renamed in every group; its variables and comments stay. A range moves whole: `'n[1:3]' 'n[1:4]'`."""
    session = EditSession(options)
    session.open_all_vars_files()
    edit = move_host(session.files, session.inventory, old, new)
    if left := host_vars_files(session.files, old):
        becomes = new.join(left[0].rsplit(old, 1))
        what = f"{printable(left[0])} holds variables of {printable(old)}, which {printable(new)} would not have"
        raise Usage(what, f"first `mv {printable(left[0])} {printable(becomes)}`")
    session.finish(
        edit,
        f"moved {printable(old)} to {printable(new)}",
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

    VALUE is YAML: `5`, `true`, `[python, train.py]`; quote text that YAML reads otherwise twice: `'"5"'`.
    """  # noqa: D205  its first line is in the table of commands
    new = _value(path, value, "VALUE")
    session = EditSession(options)
    location, owner = _locate(session, path, group, host)
    edited = set_value(session.files, location, new)
    session.finish(edited, "set", lambda after: refuse_without_effect(session.files, after, location, owner))


@click.command("unset")
@click.argument("path")
@place_options
@edit_command_options
def unset_command(path: str, group: str | None, host: str | None, **options: Any) -> None:
    """PATH is that of `set`. The mappings above it stay, even if they are empty."""
    session = EditSession(options)
    location, owner = _locate(session, path, group, host)

    def holds(after: Inventory) -> None:
        # What was hidden may be in force now, so that only the inventory before says whether the removed value was.
        if hiding_value(after, location, owner) and session.inventory is not None:
            refuse_hidden(session.files, session.inventory, location, owner)

    session.finish(unset_value(session.files, location), "removed", holds)


def _locate(session: EditSession, path: str, group: str | None, host: str | None) -> tuple[Location, Owner]:
    names = split_path(path)
    if group is not None and host is not None:
        raise Usage("`--group` and `--host` exclude each other", "give one of them")
    if host is not None:
        session.open_vars_files(NameKind.HOST, host)
        return locate_host_variable(session.files, host, names), (NameKind.HOST, host)
    owner = "all" if group is None else group
    if group is None and (location := locate_path(session.files, names)):
        return location, (NameKind.GROUP, owner)
    session.open_vars_files(NameKind.GROUP, owner)
    return locate_group_variable(session.files, owner, names), (NameKind.GROUP, owner)

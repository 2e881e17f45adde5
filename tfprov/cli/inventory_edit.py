"""`tfprov inventory add-host`, `remove-host`, `move-host`, `set` and `unset`: edits that leave the rest of a file alone."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from tfprov.cli.editing import Editing
from tfprov.cli.options import source_options
from tfprov.config.edit.inventory import add_host, left_behind, move_host, remove_host, set_value, unset
from tfprov.config.edit.paths import split_path
from tfprov.config.edit.places import Where, for_group, for_host, for_path
from tfprov.config.edit.value import Value, read_value
from tfprov.config.vault.secrets import mentions_secret
from tfprov.errors import InvalidInput, Position, Problem, Usage, shown
from tfprov.model.inventory import Inventory

F = TypeVar("F", bound=Callable[..., Any])


def edit_options(command: F) -> F:
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
@edit_options
def add_host_command(name: str, groups: Sequence[str], variables: Sequence[str], **options: Any) -> None:
    """NAME may be a range, such as `node[4:6]`. A group of tfprov's (`worker`, `ps`, …) is made where there is none."""
    values = [_variable(one) for one in variables]
    editing = Editing(options)
    editing.finish(add_host(editing.files, editing.inventory, name, groups, values), f"added {shown(name)}")


def _variable(text: str) -> tuple[Sequence[str], Value]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise Usage(f"`--var {shown(name)}` has no value", "write `--var name=value`")
    return split_path(name), _value(name, value, f"--var {shown(name)}")


def _value(path: str, text: str, name: str) -> Value:
    """Read a value; what is wrong with that of a password is told without it."""
    try:
        return read_value(text, name)
    except InvalidInput:
        if not mentions_secret(path):
            raise
    raise InvalidInput([Problem(Position(name), "YAML reads this otherwise than it looks", "quote it twice: '\"…\"'")])


@click.command("remove-host")
@click.argument("name")
@edit_options
def remove_host_command(name: str, **options: Any) -> None:
    """From every group that names it. Files of `host_vars/` stay."""
    editing = Editing(options)
    editing.finish(
        remove_host(editing.files, editing.inventory, name), f"removed {shown(name)}", lambda after: _gone(after, name)
    )
    for path in left_behind(editing.files, name):
        click.echo(f"note: {shown(path)} stays, and is not read any more")


def _gone(after: Inventory, host: str) -> None:
    """Refuse an edit after which a host is still there: an alias, a merge or another source names it."""
    if host in after.hosts:
        what = f"{shown(host)} would still be in the inventory: this names it too; nothing was changed"
        raise InvalidInput([Problem(after.hosts[host].at, what, "edit the file by hand")])


@click.command("move-host")
@click.argument("old", metavar="FROM")
@click.argument("new", metavar="TO")
@edit_options
def move_host_command(old: str, new: str, **options: Any) -> None:
    """Wherever it is named; its variables and comments stay. A range is moved as a whole: `'node[1:3]' 'node[1:4]'`."""
    editing = Editing(options)
    if left := left_behind(editing.files, old):
        becomes = new.join(left[0].rsplit(old, 1))
        what = f"{shown(left[0])} holds variables of {shown(old)}, which {shown(new)} would not have"
        raise Usage(what, f"first `mv {shown(left[0])} {shown(becomes)}`")
    editing.finish(
        move_host(editing.files, editing.inventory, old, new),
        f"moved {shown(old)} to {shown(new)}",
        lambda after: _gone(after, old),
    )


@click.command("set", context_settings={"ignore_unknown_options": True})
@click.argument("path")
@click.argument("value")
@place_options
@edit_options
def set_command(path: str, value: str, group: str | None, host: str | None, **options: Any) -> None:
    """PATH is a variable of all hosts, such as `tfprov.flags.train_steps`, or leads through the whole file:
    `all.children.worker.vars.tfprov.port`. Elements of lists are counted from 0: `tfprov.command[1]`.

    VALUE is read as YAML: `5`, `true`, `[python, train.py]`; text that YAML reads otherwise is quoted twice: `'"5"'`.
    """  # noqa: D205  its first line is in the table of commands
    new = _value(path, value, "VALUE")
    editing = Editing(options)
    editing.finish(set_value(editing.files, _where(editing, path, group, host), new), "set")


@click.command("unset")
@click.argument("path")
@place_options
@edit_options
def unset_command(path: str, group: str | None, host: str | None, **options: Any) -> None:
    """PATH is as in `set`. What is above it stays, empty or not."""
    editing = Editing(options)
    editing.finish(unset(editing.files, _where(editing, path, group, host)), "removed")


def _where(editing: Editing, path: str, group: str | None, host: str | None) -> Where:
    names = split_path(path)
    if group is not None and host is not None:
        raise Usage("`--group` and `--host` say two places", "give one of them")
    if host is not None:
        return for_host(editing.files, host, names)
    if group is not None:
        return for_group(editing.files, group, names)
    return for_path(editing.files, names) or for_group(editing.files, "all", names)

"""A group of commands that imports the module of the one command that is used."""

import difflib
import importlib
import inspect
from collections.abc import Mapping
from typing import Any

import click

Table = Mapping[str, tuple[str, str]]
"""Every command: the module of `tfprov.cli` it is in, and its line of help."""


class LazyGroup(click.Group):
    """Imports a command's module when the command is used, and not before: `--help` imports none of them.

    The command `add-host` is `add_host_command` in its module. `noun` is what messages call a command.
    """

    def __init__(self, *args: Any, table: Table, noun: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table, self.noun = table, noun
        self._imported: dict[str, click.Command] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which a user meets them."""
        return list(self.table)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Return the command called `name`."""
        if name not in self.table:
            return None
        if name not in self._imported:  # its help is completed once
            self._imported[name] = self._import(name)
        return self._imported[name]

    def _import(self, name: str) -> click.Command:
        module = importlib.import_module(f"tfprov.cli.{self.table[name][0]}")
        command: click.Command = getattr(module, f"{name.replace('-', '_')}_command")
        command.help = self.table[name][1] + ("\n\n" + inspect.cleandoc(command.help) if command.help else "")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, without importing them."""
        with formatter.section(f"{self.noun.capitalize()}s"):
            formatter.write_dl([(name, line) for name, (_, line) in self.table.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one was probably meant."""
        name = args[0]
        if name not in self.table and not name.startswith("-"):
            close = difflib.get_close_matches(name, self.table, n=1, cutoff=0.5)
            fix = f"did you mean `{close[0]}`?" if close else f"see `{ctx.command_path} --help`"
            raise click.UsageError(f"no {self.noun} `{name}`; {fix}", ctx)
        return super().resolve_command(ctx, args)

"""The option `--color`."""

import sys

import click

from tfprov.cli.escape_sequences import Screened

CHOICES = ("auto", "always", "never")
"""The values of `--color`."""


def add_colour_option(command: click.Command) -> None:
    """Add `--color` to a command, and to those below it that are there already."""
    command.params.append(
        click.Option(
            ["--color"],
            type=click.Choice(CHOICES),
            expose_value=False,
            callback=_choose,
            help="Colours: on a terminal (auto), always, or never. A NO_COLOR in the environment means never.",
        )
    )
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        add_colour_option(below)


def chosen() -> bool | None:
    """Return the colours of the command that runs: True or False by `--color`, None for `auto`."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.color


def _choose(context: click.Context, _option: click.Parameter, value: str | None) -> None:
    if value is None or context.resilient_parsing:
        return
    colours = {"always": True, "never": False}.get(value)
    context.color = colours
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, Screened):
            stream.colours = colours

"""Commands are imported when they are used."""

import click

from tfprov.cli.main import tfprov


def test_the_help_of_a_command_is_the_same_each_time_it_is_looked_up() -> None:
    helps = [command.help for _ in range(3) if (command := tfprov.get_command(click.Context(tfprov), "gather"))]
    assert len(helps) == 3
    assert len(set(helps)) == 1

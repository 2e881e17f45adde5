"""The verb `help`: `tfprov help VERB` is `tfprov VERB --help`."""

from collections.abc import Sequence

import click

from tfprov.cli.shells.values import verbs_and_commands


@click.command("help")
@click.argument("words", nargs=-1, metavar="[VERB] [COMMAND]", shell_complete=verbs_and_commands)
@click.pass_context
def help_command(context: click.Context, words: Sequence[str]) -> None:
    """For example `tfprov help run` or `tfprov help inventory set`. Without a verb it lists all verbs."""
    current = context.parent
    assert current is not None, "a verb has the program above it"
    for word in words:
        if not isinstance(current.command, click.Group):
            raise click.UsageError(f"`{current.command_path}` has no commands; see `{current.command_path} --help`")
        _, command, _ = current.command.resolve_command(current, [word])
        assert command is not None, "an unknown name is an error"
        current = click.Context(command, parent=current, info_name=word)
    click.echo(current.get_help())

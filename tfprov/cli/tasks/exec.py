"""The verb `exec`: a command beside a task, with this terminal if asked for."""

import os
from collections.abc import Sequence
from typing import Any

import click

from tfprov.cli.options import cluster_of, inventory_options
from tfprov.cli.output import Printer
from tfprov.cli.shells import values
from tfprov.errors import Usage
from tfprov.hosts.terminal import ExecMode


@click.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@inventory_options
@click.option("-it", "-ti", "terminal", is_flag=True, help="With this terminal: the same as `--stdin --tty`.")
@click.option(
    "--stdin", "--interactive", "stdin", is_flag=True, help="Pass on the standard input. (-i is the inventory.)"
)
@click.option("-t", "--tty", is_flag=True, help="With a terminal, of which Ctrl-C and its size reach the command.")
@click.argument("task", shell_complete=values.tasks)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def exec_command(task: str, command: Sequence[str], terminal: bool, stdin: bool, tty: bool, **options: Any) -> int:
    """The command has the task's environment and working directory; its exit code is tfprov's.

    For example `tfprov exec worker/0 -- ls -l`, or `tfprov exec -it worker/0 -- bash`.
    """
    if task.startswith("-"):  # unknown options are passed on, as they may be the command's
        raise click.NoSuchOption(task, ctx=click.get_current_context())
    argv = command[1:] if command[0] == "--" else command
    if not argv or not argv[0]:
        raise click.UsageError("no command; for example `tfprov exec worker/0 -- ls -l`")
    tty = tty or terminal
    if tty and not (os.isatty(0) and os.isatty(1)):
        raise Usage("`-t` needs a terminal, and this has none", "leave it out; `--stdin` passes on the standard input")
    with Printer() as printer:
        cluster = cluster_of(options, printer.handle, starts=False)
        return cluster.execute(task, argv, ExecMode(stdin=stdin or terminal, tty=tty), printer.leave)

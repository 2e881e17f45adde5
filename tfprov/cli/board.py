"""The verb `tensorboard`."""

from contextlib import suppress
from typing import Any

import click

from tfprov.cli.options import context_of, inventory_options
from tfprov.cli.output import Printer
from tfprov.engine.watching.board import board, stay


@click.command("tensorboard")
@click.option(
    "--port", type=click.IntRange(1, 65535), help="The port of this machine that leads to a TensorBoard over SSH."
)
@inventory_options
def tensorboard_command(port: int | None, **options: Any) -> None:
    """Waits until it answers. On another host it is reached through the SSH connection, and by nobody else.

    The inventory has it as the role `tensorboard`, which `up` starts beside the chief's files.
    """
    with Printer() as printer:
        context = context_of(options, printer)
        with board(context, port) as found:
            task = found.container.task
            with suppress(KeyboardInterrupt):
                printer.note(f"{task.name} on {task.host}: {found.url} (Ctrl-C ends this, not the TensorBoard)")
                stay(context, found)

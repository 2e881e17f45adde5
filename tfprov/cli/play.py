"""The verbs `run`, `down`, `gather` and `play`."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from tfprov.cli.escape_sequences import write_document
from tfprov.cli.options import (
    change_options,
    cluster_of,
    exit_code_of_training,
    inventory_options,
    named_file,
    partial_option,
    resume_option,
)
from tfprov.cli.output import Printer
from tfprov.cli.printing.closing import closing_lines
from tfprov.cli.printing.json_events import JsonEvents, events_option
from tfprov.cli.runs.detach import RunHandover, detach_option, detached_text, nothing_begun
from tfprov.cli.shells import values
from tfprov.errors import HangUp
from tfprov.paths import working_directory

_discard_option = click.option(
    "--discard", is_flag=True, help="Do not gather: remove checkpoints that were not brought back."
)


@click.command("run")
@detach_option
@events_option
@_discard_option
@partial_option
@resume_option
@change_options
def run_command(detach: bool, as_json: bool, partial: bool, discard: bool, resume: bool, **options: Any) -> None:
    """Ctrl-C takes the cluster down too, after the chief has saved. When the terminal is closed, a supervisor goes on."""
    with JsonEvents() if as_json else Printer() as printer:
        own = {"partial": partial, "discard": discard, "resume": resume}
        handover = RunHandover({**options, **own}, printer.handle)
        cluster = cluster_of(options, handover.handle, connect=True, as_json=as_json)
        printer.align(cluster.tasks)
        if detach:
            from tfprov.engine.monitoring.follow import check_ends  # noqa: PLC0415

            check_ends(cluster.prepare(connect=True))  # before it is up, which nobody would take down
            working_directory()  # without one there is no supervisor: nothing is started
            printer.result(cluster.up(partial=partial, resume=resume))
            printer.note(detached_text(handover.detach(cluster)))
            return
        try:
            with exit_code_of_training():
                result = cluster.run(partial=partial, discard=discard, resume=resume)
        except HangUp as hang_up:
            goes_on = handover.hang_up(cluster, hang_up)
            raise (HangUp(goes_on) if goes_on is not None else nothing_begun()) from hang_up
        printer.result(result)
        for line in closing_lines(result, options["sources"]) if not as_json else ():
            printer.note(line)


@click.command("down")
@events_option
@_discard_option
@change_options
def down_command(as_json: bool, discard: bool, **options: Any) -> None:
    """What holds a checkpoint that could not be gathered is stopped, but kept; so is what cannot be reached."""
    with JsonEvents() if as_json else Printer() as printer:
        cluster = cluster_of(options, printer.handle, connect=True, starts=False)
        printer.align(cluster.tasks)
        printer.result(cluster.down(discard=discard))


@click.command("gather")
@events_option
@click.option("--path", metavar="PATH", help="Bring this file or directory of the chief instead, as it is.")
@inventory_options
def gather_command(as_json: bool, path: str | None, **options: Any) -> None:
    """A second gather copies nothing. Nothing that was gathered is ever replaced by something older.

    PATH is for a program that saves elsewhere than in TFPROV_CHECKPOINT_DIR. A relative one counts from the chief's working
    directory; in a container it may be anywhere.
    """
    with JsonEvents() if as_json else Printer() as printer:
        printer.result(cluster_of(options, printer.handle, connect=None, starts=False).gather(path))


@click.command("play")
@click.argument("playbook", callback=named_file, shell_complete=values.playbooks)
@click.option("--show", is_flag=True, help="Print the playbook instead of playing it.")
@click.option("-C", "--check", is_flag=True, help="Say what each step would do, and change nothing.")
@click.option("-t", "--tags", multiple=True, help="Only plays and steps with one of these tags.")
@partial_option
@resume_option
@change_options
def play_command(  # noqa: PLR0913, PLR0917  an argument for every option
    playbook: str, show: bool, check: bool, tags: Sequence[str], partial: bool, resume: bool, **options: Any
) -> None:
    """PLAYBOOK is a file, or the name of one that ships with tfprov: up, run, down."""
    from tfprov.playbook.run import find_playbook, read_tagged  # noqa: PLC0415  the other verbs import it when they play

    chosen = [tag for group in tags for tag in group.split(",")]
    if show:
        read_tagged(playbook, ())
        write_document(find_playbook(playbook).read_text(), sys.stdout)
        return
    read_tagged(playbook, chosen)  # report errors of the playbook before those of the inventory
    with Printer() as printer:
        cluster = cluster_of(options, printer.handle)
        printer.align(cluster.tasks)
        cluster.play(playbook, tags=chosen, check=check, partial=partial, resume=resume)

"""The verbs `plan` and `up`; with nothing to do, they import nothing that starts a task."""

import json
from typing import Any

import click

from tfprov.cli.escape_sequences import json_screened
from tfprov.cli.options import change_options, cluster_of, json_option, partial_option, resume_option
from tfprov.cli.output import Printer
from tfprov.cli.printing.json_events import JsonEvents, events_option


@click.command("plan")
@json_option
@resume_option
@change_options
def plan_command(as_json: bool, resume: bool, **options: Any) -> None:
    """Nothing is changed. A task is restarted only where a field of it differs, and the field is named."""
    with Printer() as printer:
        result = cluster_of(options, None if as_json else printer.handle, connect=True).plan(resume=resume)
        lines = [json_screened(json.dumps(result.to_dict(), indent=2))] if as_json else result.text()
        for line in lines:
            printer.note(line)


@click.command("up")
@events_option
@click.option(
    "--canary",
    type=click.IntRange(min=1),
    metavar="N",
    help="Change the first N hosts, wait until their tasks serve, then change the others.",
)
@partial_option
@resume_option
@change_options
def up_command(as_json: bool, canary: int | None, partial: bool, resume: bool, **options: Any) -> None:
    """A second run changes nothing. Tasks keep running after the command has ended.

    All or nothing: what was started is taken back when not all of it comes up, unless you say `--partial`.
    """
    with JsonEvents() if as_json else Printer() as printer:
        cluster = cluster_of(options, printer.handle, connect=True, as_json=as_json)
        printer.align(cluster.tasks)
        printer.result(cluster.up(partial=partial, resume=resume, canary=canary))

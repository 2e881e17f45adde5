"""`tfprov runs`: the table of runs, and commands for single ones."""

import json
import time

import click

from tfprov.cli.escape_sequences import json_screened
from tfprov.cli.main import LazyGroup
from tfprov.cli.options import cluster_option, json_option
from tfprov.cli.output import table
from tfprov.cli.printing.json_text import finite

COMMANDS = {
    "show": ("runs.commands", "Show one run: settings, versions, tasks, and its loss as a curve."),
    "compare": ("runs.commands", "Show what differs between runs, their final figures and their curves."),
    "rm": ("runs.commands", "Remove runs from the history; checkpoints stay."),
    "prune": ("runs.commands", "Remove old runs from the history; checkpoints stay."),
}
"""Every command: the module it is in, and its line of help."""


@click.group("runs", cls=LazyGroup, table=COMMANDS, noun="command", invoke_without_command=True)
@cluster_option
@click.option("-n", "--last", type=click.IntRange(min=1), metavar="N", help="Only the newest N.")
@json_option
@click.pass_context
def runs_command(ctx: click.Context, cluster: str | None, last: int | None, as_json: bool) -> None:
    """Without a command: a table of all runs on this controller, the newest last.

    RUN is the id of a run, or the beginning of one, or of the six digits at its end; the newest run without one.
    """
    if ctx.invoked_subcommand is not None:
        if last is not None:
            name = ctx.invoked_subcommand
            raise click.UsageError(f"`-n` is an option of the table alone; write `tfprov runs {name}` without it", ctx)
        # An option in front of the command counts as if it stood behind it: every command has these two.
        ctx.default_map = {ctx.invoked_subcommand: {"cluster": cluster, "as_json": as_json}}
        return
    from tfprov.history.reader import RunHistory  # noqa: PLC0415
    from tfprov.history.show import HEAD, row  # noqa: PLC0415

    summaries = RunHistory().summaries(cluster)
    summaries = summaries[-last:] if last else summaries
    if as_json:
        data = {"schema": 1, "runs": [summary.to_dict() for summary in summaries]}
        click.echo(json_screened(json.dumps(finite(data), indent=2)))
        return
    if not summaries:
        click.echo("no runs yet: `tfprov run` and `tfprov up` begin one")
        return
    now = time.time()
    for line in table([HEAD, *(row(summary, now) for summary in summaries)]):
        click.echo(line)

"""The commands `runs show`, `compare`, `rm` and `prune`."""

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path

import click

from tfprov.atomic_write import replace_output
from tfprov.cli.escape_sequences import json_screened
from tfprov.cli.options import OutputPath, cluster_option, json_option, named_runs
from tfprov.cli.output import table
from tfprov.cli.printing.json_text import finite
from tfprov.errors import TfprovError, Usage, combine_errors
from tfprov.history import formats
from tfprov.history.drawing.text_plot import text_plot
from tfprov.history.reader import RunHistory, RunRecord
from tfprov.history.removal import refuse_followed, remove, to_prune
from tfprov.history.run_dir import RunDir
from tfprov.history.show import DAMAGE, comparison_rows, curve_of, show_lines

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


@click.command("show")
@click.argument("run", callback=named_runs, required=False)
@cluster_option
@json_option
def show_command(run: str | None, cluster: str | None, as_json: bool) -> None:
    """The newest run without RUN."""
    record = RunHistory().load(run or "", cluster)
    if as_json:
        _echo_json(record.to_dict())
        return
    head = ("TASK", "HOST", "STATE", "EXIT CODE", "RESTARTS", "TOOK")
    try:
        lines = [*show_lines(record, time.time()), "", *table([head, *_task_rows(record)])]
    except DAMAGE as error:
        raise record.damaged(f"a field of run.json or end.json has another form: {error}") from None
    for line in lines:
        click.echo(line)


def _task_rows(record: RunRecord) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name, task in sorted(record.tasks.items()):
        started, finished = task.get("started"), task.get("finished")
        took = formats.span(finished - started) if started is not None and finished is not None else "-"
        code = "-" if task.get("exit_code") is None else str(task["exit_code"])
        rows.append(
            (name, str(task.get("host", "-")), str(task.get("state")), code, str(task.get("restarts", 0)), took)
        )
    return rows


@click.command("compare")
@click.argument("runs", callback=named_runs, nargs=-1, required=True, metavar="RUN RUN...")
@click.option("--html", "html", type=OutputPath(dir_okay=False), metavar="FILE", help="Write a page.")
@cluster_option
@json_option
def compare_command(runs: Sequence[str], html: Path | None, cluster: str | None, as_json: bool) -> None:
    """The curves are the loss by step, one letter for each run.

    The page of `--html` is one file, with the curves as SVG and nothing from elsewhere.
    """
    from tfprov.history.compare import compare  # noqa: PLC0415

    if len(runs) < 2:
        raise click.UsageError("one run cannot be compared; name two or more")
    history = RunHistory()
    records = [history.load(run, cluster) for run in runs]
    try:
        comparison = compare(records)
        rows, plot = table(list(comparison_rows(comparison))), text_plot([curve_of(one) for one in comparison.runs])
    except DAMAGE as error:
        raise Usage(f"these runs cannot be compared: {error}", "`tfprov runs show RUN` names the damaged one") from None
    if html is not None:
        from tfprov.history.drawing.html_report import html_report  # noqa: PLC0415

        try:
            replace_output(html, html_report(comparison).encode("utf-8", "replace"))
        except OSError as error:
            raise Usage(f"{html} cannot be written: {error.strerror}", "choose another path with `--html`") from None
        click.echo(f"written to {html}", err=as_json)
    if as_json:
        _echo_json(comparison.to_dict())
        return
    for line in (*rows, "\nloss by step", *plot):
        click.echo(line)


@click.command("rm")
@click.argument("runs", callback=named_runs, nargs=-1, required=True, metavar="RUN...")
@cluster_option
@json_option
def rm_command(runs: Sequence[str], cluster: str | None, as_json: bool) -> None:
    """A run that is recorded at the moment is refused, and then none is removed."""
    history = RunHistory()
    directories = list(dict.fromkeys(history.find(run, cluster) for run in runs))
    for directory in directories:
        refuse_followed(directory)
    removed, errors = _remove_each(directories, quiet=as_json)
    if as_json:
        _echo_json({"removed": removed})
    if errors:
        raise combine_errors(errors)


def _remove_each(directories: Sequence[RunDir], *, quiet: bool) -> tuple[list[str], list[TfprovError]]:
    """Remove runs, and print each unless `quiet`; return the ids of those that are gone, and why others are not."""
    removed: list[str] = []
    errors: list[TfprovError] = []
    for directory in directories:
        try:
            remove(directory)
        except TfprovError as error:
            errors.append(error)
        except OSError as error:
            why = f"{directory.id} cannot be removed: {error.strerror or error}"
            errors.append(TfprovError(why, f"its files are in {directory.path}"))
        else:
            removed.append(directory.id)
            if not quiet:
                click.echo(f"removed {directory.id} of {directory.cluster}")
    return removed, errors


def _age(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,6})([smhdw])", text, re.ASCII)
    if match is None:
        raise click.BadParameter(f"`{text}` is no time span; for example 12h, 30d or 8w")
    return float(match[1]) * _UNITS[match[2]]


@click.command("prune")
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="Keep the newest N of each cluster.")
@click.option("--older-than", callback=_age, metavar="SPAN", help="Only what ended longer ago: 12h, 30d, 8w.")
@click.option("-C", "--check", is_flag=True, help="Print what would be removed, and remove nothing.")
@cluster_option
@json_option
def prune_command(keep: int | None, older_than: float | None, check: bool, cluster: str | None, as_json: bool) -> None:
    """With both options, what is beyond N and old is removed. Runs that may still run stay."""
    if keep is None and older_than is None:
        raise click.UsageError("say what to remove: `--keep 20`, `--older-than 30d`, or both")
    history = RunHistory()
    chosen = list(to_prune(history.summaries(cluster), keep=keep, older_than=older_than, now=time.time()))
    directories = [history.find(one.run, one.cluster) for one in chosen]
    removed, errors = ([], []) if check else _remove_each(directories, quiet=as_json)
    if as_json:
        _echo_json({"removed": removed, "chosen": [one.run for one in chosen]})
    elif check:
        for summary in chosen:
            click.echo(f"would remove {summary.run} of {summary.cluster}")
    if not chosen and not as_json:
        click.echo("nothing to remove")
    if errors:
        raise combine_errors(errors)


def _echo_json(data: object) -> None:
    click.echo(json_screened(json.dumps(finite(data), indent=2)))

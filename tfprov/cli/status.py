"""What `status` shows: the tasks with their speed, the training's step, and where its variables are."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import click

from tfprov.cli.options import change_options, context_of, json_option
from tfprov.cli.output import table
from tfprov.cli.screening import json_screened, on_one_line
from tfprov.cli.under_way import duration, progress_line
from tfprov.engine.context import Context
from tfprov.engine.report import Quiet
from tfprov.engine.watching.pace import Slowest
from tfprov.engine.watching.placement import Placement, placement
from tfprov.engine.watching.status import Row, Status, status
from tfprov.errors import together
from tfprov.planning.text import counted, readable


@click.command("status")
@click.option("--placement", "places", is_flag=True, help="Show which ps holds which variable instead.")
@json_option
@change_options
def status_command(places: bool, as_json: bool, **options: Any) -> None:
    """Step and loss are what the chief last wrote into its event file; steps/s are each task's own.

    A program that uses tfprov.runtime says its own; of any other only the chief's event file is known.
    """
    context = context_of(options)
    context = replace(context, report=Quiet()) if as_json else context
    if places:
        _show_placement(context, as_json=as_json)
        return
    found = status(context, time.time())
    for line in [json_screened(json.dumps(found.to_json(), indent=2))] if as_json else lines_of(found):
        click.echo(line)
    if found.unreachable:
        raise together(found.unreachable.values())


def lines_of(found: Status) -> Iterator[str]:
    """Yield what `status` prints."""
    paced = any(row.pace for row in found.rows)
    speed = ("STEPS/S", "EXAMPLES/S") if paced else ()
    head = ("TASK", "STATE", "UPTIME", "RESTARTS", *speed, "HOST", "ADDRESS", "ID", "")
    yield from table([head, *(_cells(row, found.chief, paced=paced) for row in found.rows)])
    if found.progress is not None:
        age = max(0.0, time.time() - found.progress.wall_time)
        examples = f"  {_rate(found.examples_rate)} examples/s" if found.examples_rate is not None else ""
        line = progress_line(found.progress, found.steps, runs=found.chief_runs)
        yield f"{found.chief}: {line}{examples} ({duration(age)} ago)"
    if found.slowest is not None:
        yield _slowest_line(found.slowest)
    if found.went_back is not None:
        yield f"{found.went_back.task}: went back {found.went_back.lost} -> {found.went_back.resumed}"
    for row in found.rows:
        yield from (f"  {row.task} | {on_one_line(line)}" for line in row.log)


def _cells(row: Row, chief: str, *, paced: bool) -> tuple[str, ...]:
    uptime = duration(row.uptime) if row.uptime is not None else "-"
    note = ", ".join(filter(None, ["chief" if row.task == chief else "", row.detail]))
    pace = row.pace if row.state == "running" else None
    speed = (_rate(pace.rate if pace else None), _rate(pace.examples_rate if pace else None)) if paced else ()
    return row.task, row.state, uptime, str(row.restarts), *speed, row.host, row.address or "-", row.id or "-", note


def _rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.1f}" if rate >= 1 or not rate else f"{rate:.3g}"


def _slowest_line(slowest: Slowest) -> str:
    share = f", {100 * slowest.rate / slowest.median:.0f}% of" if slowest.median else ";"
    rate, median = _rate(slowest.rate), _rate(slowest.median)
    return f"slowest: {slowest.task} with {rate} steps/s{share} the median {median} of {slowest.tasks} tasks"


def _show_placement(context: Context, *, as_json: bool) -> None:
    found = placement(context)
    for line in [json_screened(json.dumps(found.to_json(), indent=2))] if as_json else _placement_lines(found):
        click.echo(line)


def _placement_lines(found: Placement) -> Iterator[str]:
    rows = [
        (variable.name, variable.task or variable.device or "-", _shape(variable.shape), readable(variable.bytes))
        for variable in found.variables
    ]
    yield from table([("VARIABLE", "TASK", "SHAPE", "SIZE"), *rows])
    for task, share in found.shares.items():
        yield f"{task or 'elsewhere'}: {counted(share.variables, 'variable')}, {readable(share.bytes)}"


def _shape(shape: tuple[int | None, ...]) -> str:
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"

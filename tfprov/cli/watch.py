"""Verbs for while it runs."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import click

from tfprov.cli.options import change_options, context_of, exit_code_of_training, inventory_options, json_option
from tfprov.cli.output import Printer, table
from tfprov.cli.progress_line import duration, progress_line
from tfprov.cli.screening import json_screened, on_one_line
from tfprov.engine.context import Context
from tfprov.engine.events import Quiet
from tfprov.engine.monitoring.follow import follow
from tfprov.engine.monitoring.kept_logs import Kept, ended, kept_logs, lines_of
from tfprov.engine.monitoring.logs import log_lines
from tfprov.engine.monitoring.status import Placement, Row, Status, placement, status
from tfprov.engine.monitoring.task_progress import Slowest
from tfprov.engine.monitoring.tensorboard import board, stay
from tfprov.engine.monitoring.wait import wait_serving
from tfprov.engine.observe import locate, needs, observe
from tfprov.errors import Usage, combine_errors
from tfprov.model.state import Observation, Observed
from tfprov.planning.plan_text import format_count, format_size


@click.command("wait")
@click.option("--for", "condition", type=click.Choice(["done", "serving"]), default="done", show_default=True)
@click.option("--timeout", type=click.FloatRange(0, 1e9, min_open=True), metavar="SECONDS", help="Give up after this.")
@change_options
def wait_command(condition: str, timeout: float | None, **options: Any) -> None:
    """Ends with the chief's exit code when waiting for `done`."""
    with Printer() as printer:
        if timeout is not None and timeout != timeout:  # noqa: PLR0124  nan is no number of seconds
            raise click.UsageError("`--timeout nan` is not a number of seconds")
        context = context_of(options, printer)
        locate(context, context.cluster.chief.name)
        if condition == "serving":
            wait_serving(context, timeout)
        else:
            with exit_code_of_training():
                follow(context, timeout, with_logs=False)
            printer.note(f"{context.cluster.chief.name} is done")


@click.command("logs")
@click.argument("tasks", nargs=-1, metavar="[TASK]...")
@click.option("-f", "--follow", "follows", is_flag=True, help="Go on until the tasks end.")
@click.option("-n", "--tail", type=click.IntRange(min=0), metavar="LINES", help="Only the last lines of each task.")
@inventory_options
def logs_command(tasks: Sequence[str], follows: bool, tail: int | None, **options: Any) -> None:
    """All tasks, or only those named, such as `worker/1`. Each line has its task in front.

    Of tasks that were removed it is what was kept beside the gathered checkpoints.
    """
    with Printer() as printer:
        context = context_of(options, printer)
        seen = Observation({}) if tasks else observe(context, tolerant=True)
        found, gone = _named(context, tasks) if tasks else _all(context, seen)
        printer.align([*(observed.task for observed in found), *(task for _, files in gone for task in files)])
        for _, files in gone:
            for task, path in files.items():
                printer.note(ended(task, path))
                for line in lines_of(path, tail):
                    printer.log(task, line)
        if follows:
            for task, line in log_lines(context, found, tail=tail):
                printer.log(task, line)
        else:
            for observed in found:
                for line in context.runtimes[observed.host].logs(observed.task, tail=tail):
                    printer.log(observed.task, line)
        if lost := [error for host, error in seen.unreachable.items() if needs(context, host)]:
            raise combine_errors(lost)


def _named(context: Context, tasks: Sequence[str]) -> tuple[list[Observed], list[Kept]]:
    """Return the containers of `tasks`, and the kept logs of those that are not there any more."""
    found, gone = [], []
    for task in tasks:
        try:
            found.append(locate(context, task)[1])
        except Usage:
            if (kept := kept_logs(context.logs, task)) is None:
                raise
            gone.append(kept)
    return found, gone


def _all(context: Context, seen: Observation) -> tuple[list[Observed], list[Kept]]:
    """Return every container, and the kept logs of their run, or of the last run where there is none."""
    found, kept = seen.containers(), kept_logs(context.logs)
    if kept is None or seen.unreachable or (found and kept[0].name not in {one.run for one in found}):
        return found, []
    there = {one.task for one in found}
    files = {task: path for task, path in kept[1].items() if task not in there}
    return found, [(kept[0], files)] if files else []


@click.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@inventory_options
@click.argument("task")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def exec_command(task: str, command: Sequence[str], **options: Any) -> int:
    """The command has the task's environment and working directory; its exit code is tfprov's.

    For example `tfprov exec worker/0 -- ls -l`.
    """
    context = context_of(options)
    runtime, _ = locate(context, task)
    argv = command[1:] if command[0] == "--" else command
    if not argv:
        raise click.UsageError("no command; for example `tfprov exec worker/0 -- ls -l`")
    return runtime.execute(task, argv)


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
    for line in [json_screened(json.dumps(found.to_json(), indent=2))] if as_json else status_lines(found):
        click.echo(line)
    if found.unreachable:
        raise combine_errors(found.unreachable.values())


def status_lines(found: Status) -> Iterator[str]:
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
        (variable.name, variable.task or variable.device or "-", _shape(variable.shape), format_size(variable.bytes))
        for variable in found.variables
    ]
    yield from table([("VARIABLE", "TASK", "SHAPE", "SIZE"), *rows])
    for task, share in found.shares.items():
        yield f"{task or 'elsewhere'}: {format_count(share.variables, 'variable')}, {format_size(share.bytes)}"


def _shape(shape: tuple[int | None, ...]) -> str:
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"

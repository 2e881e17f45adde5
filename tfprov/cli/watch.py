"""The verbs for a running cluster: `wait`, `logs`, `exec`, `status`, and those that lead to its servers."""

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Literal

import click

from tfprov.cli.escape_sequences import Screened, json_screened, on_one_line
from tfprov.cli.live.layout import fitted_table, summary_line
from tfprov.cli.options import (
    change_options,
    cluster_of,
    exit_code_of_training,
    inventory_options,
    json_option,
    named_runs,
)
from tfprov.cli.output import Printer, table, until_ctrl_c
from tfprov.cli.printing.json_events import JsonEvents, events_option
from tfprov.cli.printing.json_text import finite
from tfprov.cli.printing.log_text import LinePattern
from tfprov.cli.printing.moments import parse_range
from tfprov.cli.shells import values
from tfprov.engine.monitoring.status import Placement, Row, Status
from tfprov.engine.monitoring.task_progress import Slowest
from tfprov.errors import Usage, combine_errors
from tfprov.hosts.log_lines import LogTimes
from tfprov.planning.plan_text import format_count, format_size, format_span
from tfprov.results import WebServer


@click.command("wait")
@click.option("--for", "condition", type=click.Choice(["done", "serving"]), default="done", show_default=True)
@click.option("--timeout", type=click.FloatRange(0, 1e9, min_open=True), metavar="SECONDS", help="Give up after this.")
@events_option
@change_options
def wait_command(condition: Literal["done", "serving"], timeout: float | None, as_json: bool, **options: Any) -> None:
    """Ends with the chief's exit code when waiting for `done`."""
    with JsonEvents() if as_json else Printer() as printer:
        if timeout is not None and timeout != timeout:  # noqa: PLR0124  nan is no number of seconds
            raise click.UsageError("`--timeout nan` is not a number of seconds")
        cluster = cluster_of(options, printer.handle, starts=False)
        with exit_code_of_training():
            chief = cluster.wait(condition, timeout)
        if condition == "done":
            printer.note(f"{chief} is done")
        if isinstance(printer, JsonEvents):
            printer.emit("result", result={"chief": chief})


@click.command("logs")
@click.argument("tasks", nargs=-1, metavar="[TASK]...", shell_complete=values.tasks)
@click.option("-f", "--follow", is_flag=True, help="Go on until the tasks end.")
@click.option("-n", "--tail", type=click.IntRange(min=0), metavar="LINES", help="Only the last lines of each task.")
@click.option("--since", metavar="TIME", help="Only what was printed since then: `10m`, `1h30m`, `2026-11-25T09:30`.")
@click.option("--until", metavar="TIME", help="Only what was printed before then.")
@click.option("--grep", metavar="REGEX", help="Only lines in which this regular expression is.")
@click.option("-t", "--timestamps", is_flag=True, help="Show when each line was printed, by its host's clock, in UTC.")
@click.option(
    "--run",
    "run",
    callback=named_runs,
    metavar="RUN",
    help="The recorded logs of this run, see `tfprov runs`; needs no inventory.",
)
@events_option
@inventory_options
def logs_command(  # noqa: PLR0913  an argument for every option
    *,
    tasks: Sequence[str],
    follow: bool,
    tail: int | None,
    since: str | None,
    until: str | None,
    grep: str | None,
    timestamps: bool,
    run: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """All tasks, or only those named, such as `worker/1`. Each line has its task in front.

    Of tasks that were removed it is what was kept beside the gathered checkpoints.
    """
    times = LogTimes(*parse_range(since, until, time.time()))
    pattern = None if grep is None else LinePattern(grep)
    with JsonEvents() if as_json else Printer() as printer:
        if run is not None:
            from tfprov.cli.runs.recorded_logs import recorded_logs  # noqa: PLC0415

            logs = recorded_logs(run, tasks, follow=follow, tail=tail, times=times)
            if isinstance(printer, Printer):
                printer.awaits("")  # no host is asked
        else:
            wanted = times if timestamps or as_json or times.is_bounded else None
            is_live = isinstance(printer, Printer) and printer.live
            logs = cluster_of(options, printer.handle, starts=False).logs(
                *tasks, follow=follow, tail=tail, times=wanted, unfinished=is_live
            )
        printer.align(logs.tasks)
        if follow and isinstance(printer, Printer):
            printer.awaits("waiting for output")
        for record in logs:
            if pattern is None or record.is_remark or pattern.matches(record.line):
                if isinstance(printer, JsonEvents):
                    printer.record(record)
                else:
                    printer.record(record, times=timestamps)
        if isinstance(printer, JsonEvents):
            printer.emit("result", result={"tasks": list(logs.tasks)})


_port_option = click.option(
    "--port", type=click.IntRange(1, 65535), help="The port of this machine that leads to it over SSH."
)


def show(opened: AbstractContextManager[WebServer], printer: Printer, what: str) -> None:
    """Print where a task answers, and stay until Ctrl-C."""
    with opened as server, until_ctrl_c():
        printer.awaits("")
        printer.note(f"{server.task} on {server.host}: {server.url} (Ctrl-C ends this, not {what})")
        server.stay()


@click.command("tensorboard")
@_port_option
@inventory_options
def tensorboard_command(port: int | None, **options: Any) -> None:
    """Waits until it answers. On another host it is reached through the SSH connection, and by nobody else.

    The inventory has it as the role `tensorboard`, which `up` starts beside the chief's files.
    """
    with Printer() as printer:
        show(cluster_of(options, printer.handle, starts=False).tensorboard(port), printer, "the TensorBoard")


@click.command("serving")
@_port_option
@inventory_options
def serving_command(port: int | None, **options: Any) -> None:
    """Waits until it answers. On another host it is reached through the SSH connection, and by nobody else.

    The inventory has it as the role `serving`, which `up` starts beside the chief's files. Programs send the token of the
    address in the header `Authorization: Bearer TOKEN`.
    """
    with Printer() as printer:
        show(cluster_of(options, printer.handle, starts=False).serving(port), printer, "the model server")


@click.command("notebook")
@_port_option
@inventory_options
def notebook_command(port: int | None, **options: Any) -> None:
    """Waits until it answers. On another host it is reached through the SSH connection, and by nobody else.

    The inventory has it as the role `notebook`, which `up` starts beside the chief's files. The address has its token.
    """
    with Printer() as printer:
        show(cluster_of(options, printer.handle, starts=False).notebook(port), printer, "the notebook")


@click.command("status")
@click.option(
    "-w", "--watch", "watches", is_flag=True, help="Show it on the whole screen, again and again, until Ctrl-C."
)
@click.option("--placement", "places", is_flag=True, help="Show which ps holds which variable instead.")
@json_option
@change_options
def status_command(watches: bool, places: bool, as_json: bool, **options: Any) -> None:
    """Step and loss are what the chief last wrote into its event file; steps/s are each task's own.

    A program that uses tfprov.runtime says its own; of any other only the chief's event file is known. `--watch` also
    shows what each task uses of its host: cores, memory, and memory of GPUs.
    """
    if watches and (places or as_json):
        raise click.UsageError("`--watch` excludes `--placement` and `--json`")
    if watches and not sys.stdout.isatty():
        raise Usage("`--watch` needs a terminal, and this has none", "use `status --json`")
    with Printer() as printer:
        cluster = cluster_of(options, None if as_json else printer.handle, connect=True, starts=False)
        if places:
            placement = cluster.placement()
            _print(printer, _json_lines(placement) if as_json else _placement_lines(placement))
            return
        if not watches:
            status = cluster.status()
            _print(printer, _json_lines(status) if as_json else status_lines(status, _columns()))
    if watches:
        from tfprov.cli.live.watch import watch  # noqa: PLC0415

        with cluster.overviews() as read:
            watch(read, sys.stdout.raw if isinstance(sys.stdout, Screened) else sys.stdout)
        return
    if status.unreachable:
        raise combine_errors(status.unreachable.values())


def _json_lines(result: Status | Placement) -> Iterator[str]:
    yield json_screened(json.dumps(finite(result.to_dict()), indent=2))


def _print(printer: Printer, lines: Iterable[str]) -> None:
    for line in lines:
        printer.print(line)


def _columns() -> int | None:
    """Return the width of the terminal; None for another output, whose lines may have any length."""
    with suppress(OSError, ValueError):
        return os.get_terminal_size(sys.stdout.fileno()).columns or None if sys.stdout.isatty() else None
    return None


def status_lines(status: Status, columns: int | None = None) -> Iterator[str]:
    """Yield what `status` prints; no row of the table is longer than `columns`."""
    paced = any(row.pace for row in status.rows)
    speed = ("STEPS/S", "EXAMPLES/S") if paced else ()
    head = ("TASK", "STATE", "UPTIME", "RESTARTS", *speed, "HOST", "ADDRESS", "ID", "")
    yield from fitted_table([head, *(_cells(row, status.chief, paced=paced) for row in status.rows)], columns)
    if status.progress is not None:
        age = max(0.0, time.time() - status.progress.wall_time)
        examples = f"  {_rate(status.examples_rate)} examples/s" if status.examples_rate is not None else ""
        yield f"{summary_line(status, f'{status.chief}:')}{examples} ({format_span(age)} ago)"
    if status.slowest is not None:
        yield _slowest_line(status.slowest)
    if status.mirror is not None:
        yield str(status.mirror)
    if status.went_back is not None:
        yield f"{status.went_back.task}: went back {status.went_back.lost} -> {status.went_back.resumed}"
    for row in status.rows:
        yield from (f"  {row.task} | {on_one_line(line)}" for line in row.log)


def _cells(row: Row, chief: str, *, paced: bool) -> tuple[str, ...]:
    uptime = format_span(row.uptime) if row.uptime is not None else "-"
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


def _placement_lines(placement: Placement) -> Iterator[str]:
    rows = [
        (variable.name, variable.task or variable.device or "-", _shape(variable.shape), format_size(variable.bytes))
        for variable in placement.variables
    ]
    yield from table([("VARIABLE", "TASK", "SHAPE", "SIZE"), *rows])
    for task, share in placement.shares.items():
        yield f"{task or 'elsewhere'}: {format_count(share.variables, 'variable')}, {format_size(share.bytes)}"


def _shape(shape: tuple[int | None, ...] | None) -> str:
    if shape is None:
        return "?"
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"

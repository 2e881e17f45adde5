"""Verbs for while it runs."""

from collections.abc import Sequence
from typing import Any

import click

from tfprov.cli.options import change_options, context_of, exit_code_of_training, inventory_options
from tfprov.cli.output import Printer
from tfprov.engine.context import Context
from tfprov.engine.observe import locate, needs, observe
from tfprov.engine.watching.follow import follow
from tfprov.engine.watching.kept_logs import Kept, ended, kept_logs, lines_of
from tfprov.engine.watching.logs import log_lines
from tfprov.engine.watching.waiting import wait_serving
from tfprov.errors import Usage, together
from tfprov.model.state import Observation, Observed


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
            raise together(lost)


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

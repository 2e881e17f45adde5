"""`tfprov logs --run`: the recorded logs of a run."""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import click

from tfprov.cli.output import Printer
from tfprov.errors import Usage, printable
from tfprov.history.log_store import LogLine
from tfprov.history.reader import RunHistory, RunRecord


def print_recorded(printer: Printer, run: str, tasks: Sequence[str], *, follow: bool, tail: int | None) -> None:
    """Print the recorded lines of `tasks`, or of all, in the order in which they came; `tail` of each."""
    if follow:
        raise click.UsageError("`--run` and `--follow` exclude each other; `tfprov attach` follows a run")
    record = RunHistory().load(run)
    names = list(tasks) or record.logged_tasks
    if unknown := [name for name in names if name not in record.logged_tasks]:
        recorded = ", ".join(record.logged_tasks) or "none"
        raise Usage(f"{record.directory.id} has no log of `{printable(unknown[0])}`", f"its logs: {recorded}")
    printer.align(names)
    for _, name, line in heapq.merge(*(_lines(record, name, tail) for name in names), key=lambda one: one[0]):
        if line.gap:
            printer.note(f"{name}: {line.text}")
        else:
            printer.log(name, line.text)


def _lines(record: RunRecord, task: str, tail: int | None) -> Iterator[tuple[float, str, LogLine]]:
    lines: Iterable[LogLine] = record.log(task)
    return ((line.at, task, line) for line in (lines if tail is None else deque(lines, tail)))

"""`tfprov logs --run`: the recorded logs of a run."""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import click

from tfprov.errors import Usage, printable
from tfprov.history.log_store import LogLine
from tfprov.history.reader import RunHistory, RunRecord
from tfprov.hosts.log_lines import Line, LogTimes
from tfprov.results import LogRecord, LogStream


def recorded_logs(
    run: str, tasks: Sequence[str], *, follow: bool, tail: int | None, times: LogTimes | None = None
) -> LogStream:
    """Return the recorded lines of `tasks`, or of all, in the order in which they came; `tail` of each in `times`.

    Raises Usage for a run that still goes on and has no recorded log: `up` leaves nobody to record what its tasks print.
    """
    if follow:
        raise click.UsageError("`--run` and `--follow` exclude each other; `tfprov attach` follows a run")
    record = RunHistory().load(run)
    if record.end is None and not record.logged_tasks:
        raise Usage(
            f"{record.directory.id} has no recorded log so far", "`tfprov logs` prints those of the tasks that run"
        )
    names = tuple(dict.fromkeys(tasks)) or tuple(record.logged_tasks)
    if unknown := [name for name in names if name not in record.logged_tasks]:
        recorded = ", ".join(record.logged_tasks) or "none"
        raise Usage(f"{record.directory.id} has no log of `{printable(unknown[0])}`", f"its logs: {recorded}")
    merged = heapq.merge(*(_lines(record, name, tail, times or LogTimes()) for name in names), key=lambda one: one[0])
    return LogStream(names, (_record(name, line) for _, name, line in merged))


def _record(task: str, line: LogLine) -> LogRecord:
    text = f"{task}: {line.text}" if line.gap else line.text
    return LogRecord(task, text, is_remark=bool(line.gap), printed=line.at)


def _lines(record: RunRecord, task: str, tail: int | None, times: LogTimes) -> Iterator[tuple[float, str, LogLine]]:
    lines: Iterable[LogLine] = (line for line in record.log(task) if times.includes(Line(line.text, line.at)))
    return ((line.at, task, line) for line in (lines if tail is None else deque(lines, tail)))

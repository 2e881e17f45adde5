"""The live view as lines: a pure function of an overview and the size of the screen."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfprov.cli.escape_sequences import on_one_line, screened
from tfprov.cli.output import table
from tfprov.cli.printing.live_line import fitting
from tfprov.cli.progress_line import progress_line
from tfprov.engine.monitoring.overview import Overview
from tfprov.engine.monitoring.status import Row, Status
from tfprov.hosts.usage import Usage
from tfprov.planning.name_ranges import host_names, ranges
from tfprov.planning.plan_text import format_size, format_span

NARROW = 80
"""Columns for which the widths of cells are made."""
_BAD = ("failed", "unreachable", "absent", "lost", "restarting", "paused")
"""States of tasks that stand first, as somebody has to do something about them."""
_HEAD = ("TASK", "STATE", "UP", "STEPS/S", "CPU", "MEMORY", "GPU", "HOST")


@dataclass(frozen=True)
class Group:
    """Tasks that one row shows: of the same job and state."""

    rows: tuple[Row, ...]
    usage: tuple[Usage, ...]

    @property
    def tasks(self) -> str:
        """The tasks, such as `worker/0-35`."""
        job = self.rows[0].task.partition("/")[0]
        return f"{job}/{ranges(row.task.partition('/')[2] for row in self.rows)}"


def summary_line(status: Status, subject: str) -> str:
    """Return the state of a training in one line: its progress, how long it has run, and the steps it has lost."""
    if status.progress is not None:
        progress = progress_line(status.progress, status.steps, runs=status.chief_runs)
    else:
        progress = "no step yet" if status.chief_runs else "not running"
    parts = [f"{subject} {progress}"]
    if (uptime := elapsed(status)) is not None:
        parts.append(f"up {format_span(uptime)}")
    if lost := lost_steps(status):
        parts.append(f"{lost:,} steps lost")
    return " · ".join(parts)


def elapsed(status: Status) -> float | None:
    """Return for how many seconds the oldest task has run, which no restart of another one changes; None if none runs."""
    return max((row.uptime for row in status.rows if row.uptime is not None), default=None)


def lost_steps(status: Status) -> int:
    """Return the steps that were trained twice since the last restart of a session."""
    return status.went_back.lost - status.went_back.resumed if status.went_back is not None else 0


def screen_lines(overview: Overview, columns: int, rows: int, age: float) -> list[str]:
    """Return what a screen of this size shows; `age` is how many seconds ago the overview was read."""
    status = overview.status
    head = [cut(summary_line(status, f"{status.cluster}:"), columns), ""]
    foot = list(_notes(overview, columns))
    when = f"as of {age:.0f} s ago" if age >= 1 else "as of now"
    foot.append(cut(f"{overview.title} · {when} · Ctrl-C ends this view, not the cluster", columns))
    space = max(3, rows - len(head) - len(foot) - 1)
    groups = grouped(overview, space - 1)
    table = _table(groups, columns)
    return [*head, *table[:space], *[""] * max(0, space - len(table)), *foot][: max(1, rows)]


def grouped(overview: Overview, most: int) -> list[Group]:
    """Return a group for each task if these fit into `most` rows; else tasks of one job and state are one group.

    What is wrong stands first; of more bad tasks than fit the rest is folded, too.
    """
    usage = overview.usage
    rows = sorted(overview.status.rows, key=lambda row: (row.state not in _BAD, *_order(row.task)))
    single = [_group([row], usage) for row in rows]
    if len(single) <= most:
        return single
    bad = [row for row in rows if row.state in _BAD]
    good = [row for row in rows if row.state not in _BAD]
    folded = _folded(good, usage)
    space = most - len(folded)
    if len(bad) <= space:
        return [*(_group([row], usage) for row in bad), *folded]
    return [*_folded(bad, usage), *folded]


def _folded(rows: Iterable[Row], usage: Mapping[str, Usage]) -> list[Group]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.task.partition("/")[0], row.state), []).append(row)
    return [_group(members, usage) for members in groups.values()]


def _group(rows: Sequence[Row], usage: Mapping[str, Usage]) -> Group:
    return Group(tuple(rows), tuple(usage[row.task] for row in rows if row.task in usage))


def _order(task: str) -> tuple[str, int]:
    job, _, index = task.partition("/")
    return job, int(index) if index.isdecimal() else 0


def _table(groups: Sequence[Group], columns: int) -> list[str]:
    cells = [_HEAD, *map(_cells, groups)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(_HEAD))]
    gpu = _HEAD.index("GPU")
    if all(row[gpu] == "-" for row in cells[1:]):
        widths[gpu] = 0
    fixed = [width for width in widths[1:-1] if width]
    rest = columns - sum(fixed) - 2 * (len(fixed) + 1)
    widths[0] = min(widths[0], max(10, rest // 2))
    widths[-1] = max(4, rest - widths[0])
    return [
        cut(
            "  ".join(cut(cell, width).ljust(width) for cell, width in zip(row, widths, strict=True) if width), columns
        ).rstrip()
        for row in cells
    ]


def _cells(group: Group) -> tuple[str, ...]:
    rows = group.rows
    paces = [
        row.pace.rate for row in rows if row.pace is not None and row.pace.rate is not None and row.state == "running"
    ]
    uptimes = [row.uptime for row in rows if row.uptime is not None]
    restarts = sum(row.restarts for row in rows)
    state = rows[0].state + (f" ({restarts}x)" if restarts else "")
    cpu = [used.cpu for used in group.usage if used.cpu is not None]
    memory = [used.memory for used in group.usage if used.memory is not None]
    gpu = [used.gpu_memory for used in group.usage if used.gpu_memory is not None]
    place = host_names(row.host for row in rows)
    detail = rows[0].detail if len(rows) == 1 else ""
    return (
        group.tasks,
        state,
        format_span(max(uptimes)) if uptimes else "-",
        _span([f"{rate:.1f}" if rate < 10 else f"{rate:.0f}" for rate in (min(paces), max(paces))]) if paces else "-",
        f"{sum(cpu):.1f}" if cpu else "-",
        format_size(sum(memory)) if memory else "-",
        format_size(sum(gpu)) if gpu else "-",
        on_one_line(f"{place}: {detail}" if detail else place),
    )


_LESS_NEEDED = ("ID", "ADDRESS", "EXAMPLES/S", "RESTARTS", "UPTIME")
"""Columns of `status` that a narrow terminal lacks, in this order."""


def fitted_table(rows: Sequence[tuple[str, ...]], columns: int | None) -> Iterator[str]:
    """Yield rows as aligned lines of at most `columns` cells; the last cell of a row, a note, gets a line if it must.

    The first row has the names of the columns. Without `columns`, every cell is shown.
    """
    lines = table(list(rows))
    if columns is None or max(map(len, lines)) <= columns:
        yield from lines
        return
    bare = [row[:-1] for row in rows]
    for name in _LESS_NEEDED:
        if max(map(len, table(bare))) > columns and name in bare[0]:
            at = bare[0].index(name)
            bare = [(*row[:at], *row[at + 1 :]) for row in bare]
    for row, line in zip(rows, table(bare), strict=True):
        yield cut(line, columns)
        if row[-1]:
            yield f"  {on_one_line(row[-1])}"


def _span(ends: Sequence[str]) -> str:
    return ends[0] if ends[0] == ends[-1] else f"{ends[0]}-{ends[-1]}"


def _notes(overview: Overview, columns: int) -> Iterable[str]:
    status = overview.status
    for host, error in list(status.unreachable.items())[:2]:
        yield cut(f"{host}: {error.reason}", columns)
    if len(status.unreachable) > 2:
        yield cut(f"and {len(status.unreachable) - 2} more hosts that do not answer", columns)
    if status.slowest is not None and len(status.rows) > 2:
        yield cut(
            f"slowest: {status.slowest.task} with {status.slowest.rate:.1f} steps/s, median {status.slowest.median:.1f}",
            columns,
        )
    if overview.last_line:
        yield cut(f"{status.chief} | {overview.last_line.strip()}", columns)


def cut(text: str, width: int) -> str:
    """Return text on one line without control characters, cut to `width` cells."""
    return fitting(screened(on_one_line(text), colours=False), width)

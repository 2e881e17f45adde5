"""The summary of a run, as the table of runs has it."""

import calendar
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tfprov.history.json_lines import last_line
from tfprov.history.run_dir import NewerSchema, RunDir

RUNNING, UP, INTERRUPTED, LOST, DAMAGED, NEWER = "running", "up", "interrupted", "lost", "damaged", "newer"
"""Outcomes of runs without end.json. Those of ended runs are in `ending.outcome_of`.

running       a verb or a supervisor follows it
up            it was left running
interrupted   the process that recorded it was killed
lost          it was left running, and a later run of the cluster began
damaged       its files cannot be read
newer         a later version of tfprov recorded it
"""


_FOREVER = 253402300800.0
"""The year 10000, in seconds since 1970."""


@dataclass(frozen=True)
class RunSummary:
    """One line on a run. Times are seconds since 1970; what is unknown is None.

    `last_step` and `loss` are the last that were seen, `steps` is how many were to be trained, `quality` has the last value
    of each measure in the event files, `restarts` counts those of all tasks, and `went_back` how often steps were lost.
    """

    cluster: str
    run: str
    outcome: str
    started: float
    ended: float | None = None
    verb: str = ""
    exit_code: int | None = None
    error: str = ""
    steps: int | None = None
    last_step: int | None = None
    loss: float | None = None
    rate: float | None = None
    quality: dict[str, float] = field(default_factory=dict)
    restarts: int = 0
    went_back: int = 0
    tasks: int = 0
    supervised: bool = False

    @property
    def duration(self) -> float | None:
        """The seconds from its start to its end; None while it has not ended."""
        return None if self.ended is None else max(0.0, self.ended - self.started)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, and the duration."""
        return {**asdict(self), "duration": self.duration}


def summarize(directory: RunDir) -> RunSummary:
    """Return the summary of a run; never raises for what its files contain."""
    summary = RunSummary(directory.cluster, directory.id, DAMAGED, _time_of(directory.id))
    try:
        description = directory.read(directory.run_file)
        summary = replace(
            summary,
            started=_moment(description["started"]),
            verb=str(description.get("verb", "")),
            steps=_whole(description.get("steps")),
            tasks=len(description.get("tasks", ())),
        )
        if directory.end_file.exists():
            return _with_end(summary, directory.read(directory.end_file))
    except NewerSchema:
        return replace(summary, outcome=NEWER, error="recorded by a later version of tfprov")
    except FileNotFoundError as error:
        return replace(summary, error=f"{error.filename} is missing")
    except (OSError, ValueError, ArithmeticError, KeyError, TypeError, AttributeError) as error:
        return replace(summary, error=f"{type(error).__name__}: {error}")
    return _unended(summary, directory)


def _unended(summary: RunSummary, directory: RunDir) -> RunSummary:
    progress, event = last_line(directory.progress) or {}, last_line(directory.events) or {}
    followed, closed = directory.is_followed, event.get("event") == "verb_ended"
    return replace(
        summary,
        outcome=RUNNING if followed else UP if closed else INTERRUPTED,
        error="" if followed else str(event.get("error") or ""),
        supervised=directory.is_supervised,
        **_last(progress, summary.steps),
    )


def _with_end(summary: RunSummary, end: dict[str, Any]) -> RunSummary:
    quality = end.get("quality") or {}
    return replace(
        summary,
        outcome=str(end["outcome"]),
        ended=_moment(end["ended"]),
        exit_code=_whole(end.get("exit_code")),
        error=str(end.get("error") or ""),
        quality={str(tag): float(value) for tag, value in quality.items()},
        restarts=_whole(end.get("restarts")) or 0,
        went_back=len(end.get("went_back") or ()),
        tasks=summary.tasks or len(end.get("tasks") or ()),
        **_last(end.get("last") or {}, summary.steps),
    )


def _last(progress: dict[str, Any], steps: int | None) -> dict[str, Any]:
    return {
        "last_step": _whole(progress.get("step")),
        "loss": _number(progress.get("loss")),
        "rate": _number(progress.get("rate")),
        "steps": steps if steps is not None else _whole(progress.get("steps")),
    }


def newest_runs(summaries: Sequence[RunSummary]) -> dict[str, str]:
    """Return the newest run of each cluster, of those that can be read: it has the tasks of all older ones."""
    readable = (one for one in summaries if one.outcome not in (DAMAGED, NEWER))
    return {one.cluster: one.run for one in sorted(readable, key=lambda one: one.run)}


def with_lost(summaries: Sequence[RunSummary]) -> list[RunSummary]:
    """Return the summaries with what was left running, and cannot run any more, as lost: a later run has its tasks."""
    newest = newest_runs(summaries)
    return [
        replace(one, outcome=LOST) if one.outcome == UP and newest.get(one.cluster) != one.run else one
        for one in summaries
    ]


def _time_of(run: str) -> float:
    try:
        return float(calendar.timegm(time.strptime(run.partition("-")[0], "%Y%m%dT%H%M%SZ")))
    except ValueError:
        return 0.0


def _moment(value: Any) -> float:
    """Return a time of a clock; ValueError for a number that no calendar has."""
    if not 0 <= (at := float(value)) < _FOREVER:
        raise ValueError(f"{at} is no time")
    return at


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) and value == value and abs(value) < 1e18 else None  # noqa: PLR0124


def _number(value: object) -> float | None:
    try:
        return None if value is None else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None

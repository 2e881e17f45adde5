"""Reads the history of runs: the API for tables, comparisons and pages. It changes nothing, and loads nothing heavy.

    history = RunHistory()
    for summary in history.summaries():
        print(summary.run, summary.outcome)
    record = history.load(history.find("20260101T1200").id)
    print(record.description["versions"], record.curve(500))

Damaged runs are shown as damaged. A run that is recorded at the moment can be read, too.
"""

import difflib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tfprov.errors import Usage, printable
from tfprov.history.json_lines import Follower, read_lines
from tfprov.history.log_store import LogLine, logged_tasks, read_log
from tfprov.history.run_dir import NewerSchema, RunDir, run_dirs
from tfprov.history.run_index import RunIndex
from tfprov.history.summary import RunSummary, summarize, with_lost
from tfprov.paths import clusters_directory, runs_directory, state_home

_INDEX = "runs.sqlite"


@dataclass(frozen=True)
class Sample:
    """The chief's progress `at` seconds since 1970: its step, and what it reported of its loss and its steps per second."""

    at: float
    step: int
    loss: float | None
    rate: float | None
    steps: int | None


@dataclass(frozen=True)
class RunRecord:
    """One run. `description` is run.json, `end` is end.json, None while the run goes on."""

    directory: RunDir
    summary: RunSummary
    description: dict[str, Any]
    end: dict[str, Any] | None

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield what happened, in the order in which it was recorded: the objects of events.jsonl."""
        return read_lines(self.directory.events)

    @cached_property
    def samples(self) -> tuple[Sample, ...]:
        """All samples of the chief's progress, by the time at which they were recorded."""
        known = (sample for line in read_lines(self.directory.progress) if (sample := _sample(line)) is not None)
        return tuple(sorted(known, key=lambda one: one.at))

    def curve(self, points: int = 1000) -> tuple[Sample, ...]:
        """Return at most about `points` of the samples, evenly chosen, with the first and the last."""
        every = max(1, -(-len(self.samples) // max(1, points)))
        chosen = self.samples[::every]
        return chosen if not self.samples or chosen[-1] is self.samples[-1] else (*chosen, self.samples[-1])

    @property
    def tasks(self) -> dict[str, dict[str, Any]]:
        """The last known state of each task, by its name: that of end.json, else that of the events."""
        if self.end is not None and isinstance(self.end.get("tasks"), dict):
            return dict(self.end["tasks"])
        named = ((event.get("task"), event) for event in self.events() if event.get("event") == "task")
        return {
            str(task): {k: v for k, v in event.items() if k not in ("at", "event", "task")} for task, event in named
        }

    @property
    def logged_tasks(self) -> list[str]:
        """The names of the tasks whose logs are recorded."""
        return logged_tasks(self.directory.logs)

    def log(self, task: str) -> Iterator[LogLine]:
        """Yield the recorded lines of a task; none for a task without a log."""
        return read_log(self.directory.logs, task)

    def follow(self) -> tuple[Follower, Follower]:
        """Return readers of the events and of the progress that are added from now on, after all there are."""
        return Follower(self.directory.events), Follower(self.directory.progress)

    def damaged(self, why: str) -> Usage:
        """Return the error for a run whose files cannot be shown."""
        return _damaged(self.directory, why)

    def to_dict(self) -> dict[str, Any]:
        """Return `runs show --json`."""
        return {
            "summary": self.summary.to_dict(),
            "description": self.description,
            "end": self.end,
            "tasks": self.tasks,
            "curve": [vars(sample) for sample in self.curve()],
        }


def _sample(line: dict[str, Any]) -> Sample | None:
    try:
        loss, rate, steps = line.get("loss"), line.get("rate"), line.get("steps")
        return Sample(
            float(line["at"]),
            int(line["step"]),
            None if loss is None else float(loss),
            None if rate is None else float(rate),
            None if steps is None else int(steps),
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


class RunHistory:
    """All runs on this controller. `clusters` is the directory of the clusters; `index` a file that may be rebuilt."""

    def __init__(self, clusters: Path | None = None, index: Path | None = None) -> None:
        self._clusters = clusters or clusters_directory()
        self._index = index or state_home() / _INDEX

    def clusters(self) -> list[str]:
        """Return the names of the clusters with runs. Raises Usage for a history that may not be read."""
        try:
            names = sorted(entry.name for entry in os.scandir(self._clusters) if entry.is_dir())
            return [name for name in names if runs_directory(self._clusters / name).is_dir()]
        except PermissionError as error:
            raise _forbidden(error) from None
        except OSError:
            return []

    def directories(self, cluster: str | None = None) -> list[RunDir]:
        """Return the directories of all runs, or of those of a cluster, the oldest first.

        Raises Usage for a cluster without runs.
        """
        clusters = self.clusters()
        if cluster is not None and cluster not in clusters:
            known = f"there are runs of {', '.join(clusters)}" if clusters else "nothing was recorded yet"
            raise Usage(f"no runs of cluster `{printable(cluster)}`", known)
        try:
            runs = [
                run
                for name in (clusters if cluster is None else [cluster])
                for run in run_dirs(runs_directory(self._clusters / name))
            ]
        except PermissionError as error:
            raise _forbidden(error) from None
        return sorted(runs, key=lambda run: run.id)

    def summaries(self, cluster: str | None = None) -> list[RunSummary]:
        """Return a summary of each run, the oldest first; ended runs come from the index."""
        directories = self.directories(cluster)
        with RunIndex(self._index) as index:
            return with_lost([index.summary(directory) for directory in directories])

    def find(self, text: str = "", cluster: str | None = None) -> RunDir:
        """Return the run whose id begins with `text`, or whose last six digits do; the newest one for an empty text.

        Raises Usage for none, with the closest ids, and for several.
        """
        directories = self.directories(cluster)
        if not directories:
            raise Usage("nothing was recorded yet", "`tfprov run` and `tfprov up` begin a run")
        if not text:
            return directories[-1]
        matching = [run for run in directories if text in (run.id, run.id.rpartition("-")[2])]
        matching = matching or [run for run in directories if _abbreviates(text, run.id)]
        if len(matching) == 1:
            return matching[0]
        if matching:
            raise Usage(f"`{printable(text)}` is the beginning of {len(matching)} ids", _named(matching))
        raise Usage(f"no run `{printable(text)}`", f"the closest are {_named(_closest(text, directories))}")

    def load(self, run: str, cluster: str | None = None) -> RunRecord:
        """Return a run by its id or an abbreviation. Raises Usage, also for a damaged one, and one of a later version."""
        directory = self.find(run, cluster)
        try:
            description = directory.read(directory.run_file)
            end = directory.read(directory.end_file) if directory.end_file.exists() else None
        except NewerSchema as error:
            raise Usage(
                f"{directory.id} was recorded by a later version of tfprov: {error}", "upgrade tfprov"
            ) from None
        except (OSError, ValueError) as error:
            raise _damaged(directory, _reason(error)) from None
        return RunRecord(directory, summarize(directory), description, end)


def _forbidden(error: OSError) -> Usage:
    return Usage(
        f"the history of runs cannot be read: {error.strerror}: {error.filename}", "give this user access to it"
    )


def _damaged(directory: RunDir, why: str) -> Usage:
    fix = f"its files are in {directory.path}; `tfprov runs rm {directory.id}` removes it"
    return Usage(f"{directory.id} is damaged: {why}", fix)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        name = Path(str(error.filename or "")).name
        return f"{name}: {error.strerror}"
    return str(error)


def _abbreviates(text: str, run: str) -> bool:
    return run.startswith(text) or run.rpartition("-")[2].startswith(text)


def _named(runs: Iterable[RunDir]) -> str:
    names = [run.id for run in runs]
    return ", ".join(names[:5]) + (" and others" if len(names) > 5 else "")


def _closest(text: str, runs: list[RunDir]) -> list[RunDir]:
    near = difflib.get_close_matches(text, [run.id for run in runs], n=3, cutoff=0.3)
    return [run for name in near for run in runs if run.id == name] or runs[-3:]

"""The speed of each training task, from the `progress.json` that tfprov's runtime writes for it."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from tfprov.engine.concurrency import pool
from tfprov.engine.context import Context
from tfprov.errors import HostError
from tfprov.hosts.base import Runtime
from tfprov.hosts.facts import read_clock
from tfprov.hosts.usage import Usage
from tfprov.model.state import Observed, State

FILE = "progress.json"
_MOST = 4096
"""How many bytes of the file are read: it has one line."""
_TRAINING = ("chief", "worker")
_STEPS, _UPTIME = 20, 30.0
"""Steps, or seconds since its start, after one of which the speed of a task can be compared with that of others."""
_SILENT = 30.0
"""Seconds behind the latest report of any task after which a task's own report is out of date."""


@dataclass(frozen=True)
class Pace:
    """The last reported progress of a training task: at the global `step`, after `steps` of its own.

    `rate` is its own steps per second, `examples_rate` its examples per second, and `at` the time of its host's clock in
    seconds since the epoch. `resumed` is the step its session went on from, and `lost` the one it had reached before.
    """

    step: int
    steps: int
    rate: float | None
    examples_rate: float | None
    at: float
    resumed: int | None = None
    lost: int | None = None
    tensorflow: str = ""
    """The version of TensorFlow that the task uses; empty if its runtime did not say."""

    @property
    def step_back(self) -> tuple[int, int] | None:
        """The step that was lost and the one that came next: after a crash, a training goes on from its last checkpoint."""
        if self.lost is None or self.resumed is None or self.lost <= self.resumed:
            return None
        return self.lost, self.resumed


@dataclass(frozen=True)
class Slowest:
    """The slowest of several tasks: its `rate` and the `median` of all `tasks`, in steps per second."""

    task: str
    rate: float
    median: float
    tasks: int


def parse(data: bytes, task: str) -> Pace | None:
    """Parse the progress file of `task`; None for another file of this name, which a program may have."""
    try:
        entry = json.loads(data)
        if not isinstance(entry, dict) or entry.get("task") != task:
            return None
        return Pace(
            step=_whole(entry["step"]),
            steps=_whole(entry["steps"]),
            rate=_number(entry.get("rate")),
            examples_rate=_number(entry.get("examples_rate")),
            at=_time(entry["at"]),
            resumed=None if entry.get("resumed") is None else _whole(entry["resumed"]),
            lost=None if entry.get("lost") is None else _whole(entry["lost"]),
            tensorflow=_version(entry.get("tensorflow")),
        )
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
        return None


def _version(value: Any) -> str:
    return value if isinstance(value, str) and re.fullmatch(r"[\w.+-]{1,40}", value, re.ASCII) else ""


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(value)
    return value


def _time(value: Any) -> float:
    if (number := _number(value)) is None:
        raise ValueError(f"{value!r} is not a time")
    return number


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) and value >= 0 else None


def may_report(observed: Observed) -> bool:
    """Whether a task may write `progress.json`: only the chief and the workers train."""
    return observed.task.partition("/")[0] in _TRAINING


def read_pace(runtime: Runtime, observed: Observed) -> Pace | None:
    """Return the progress of a task; None if it has reported none since its start, or if its host does not answer."""
    try:
        pace = parse(runtime.tail(observed.task, FILE, _MOST), observed.task)
    except HostError:
        return None
    return pace if pace is not None and is_current(pace, observed) else None


def read_usage(context: Context, host: str) -> Mapping[str, Usage]:
    """Return what each running task of a host uses; empty if the host does not answer, which others report."""
    try:
        return context.runtimes[host].usage()
    except HostError:
        return {}


def is_current(pace: Pace, observed: Observed) -> bool:
    """Whether a task has reported its progress since its start."""
    return observed.started_at is None or pace.at >= observed.started_at


def read_paces(context: Context, containers: Iterable[Observed]) -> dict[str, Pace]:
    """Return the progress of the training tasks in `containers`; those without a report are left out."""
    candidates = [observed for observed in containers if may_report(observed) and observed.started_at is not None]
    with pool(min(context.forks, len(candidates))) as executor:
        answers = list(executor.map(lambda observed: read_pace(context.runtimes[observed.host], observed), candidates))
    return {observed.task: pace for observed, pace in zip(candidates, answers, strict=False) if pace is not None}


def settled(pace: Pace, uptime: float | None) -> bool:
    """Whether the speed of a task with this uptime can be compared: the first steps are slow."""
    return pace.steps >= _STEPS or (uptime is not None and uptime >= _UPTIME)


class HostClocks:
    """How many seconds the clocks of hosts are ahead of this machine's; each host is asked once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._ahead: dict[str, float] = {}

    def in_local_time(self, paces: Mapping[str, Pace], hosts: Mapping[str, str]) -> Mapping[str, Pace]:
        """Return the paces with times of this machine's clock, if one seems silent; `hosts` are those of the tasks."""
        if not _silent(paces):
            return paces
        unknown = sorted({hosts[task] for task in paces} - set(self._ahead))
        with pool(min(self._context.forks, len(unknown))) as executor:
            self._ahead |= zip(unknown, executor.map(self._measure, unknown), strict=True)
        return {task: replace(pace, at=pace.at - self._ahead[hosts[task]]) for task, pace in paces.items()}

    def _measure(self, host: str) -> float:
        try:
            offset = read_clock(self._context.runtimes[host].command, self._context.clock.wall)
        except HostError:
            return 0.0
        return offset.offset if offset is not None else 0.0


def _silent(paces: Mapping[str, Pace]) -> set[str]:
    """Return the tasks whose reports are out of date."""
    latest = max((pace.at for pace in paces.values()), default=0.0)
    return {task for task, pace in paces.items() if latest - pace.at > _SILENT}


def slowest(paces: Mapping[str, Pace]) -> Slowest | None:
    """Return the slowest of the training tasks; None if fewer than two can be compared."""
    silent = _silent(paces)
    rates = {task: 0.0 if task in silent else pace.rate for task, pace in paces.items() if pace.rate is not None}
    if len(rates) < 2:
        return None
    task = min(rates, key=lambda name: rates[name])
    return Slowest(task, rates[task], median(rates.values()), len(rates))


def last_step_back(paces: Mapping[str, Pace], chief: str) -> tuple[str, int, int] | None:
    """Return a task that lost steps, with its step back: the chief, else the last one that did."""
    steps = {task: pace.step_back for task, pace in paces.items()}
    behind = {task: back for task, back in steps.items() if back is not None}
    if not behind:
        return None
    task = chief if chief in behind else max(behind, key=lambda name: paces[name].at)
    return task, *behind[task]


def observed_running(containers: Iterable[Observed]) -> list[Observed]:
    """Return the training tasks that run now and are not being restarted."""
    return [one for one in containers if may_report(one) and one.state is State.RUNNING and not one.restarting]

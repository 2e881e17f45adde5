"""The verb `status`: the state and speed of every task, and the chief's progress."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tfprov.engine.concurrency import pool
from tfprov.engine.context import Context
from tfprov.engine.monitoring.chief_progress import read_progress, steps_of
from tfprov.engine.monitoring.failures import ended, last_log
from tfprov.engine.monitoring.mirror_status import MirrorStatus, read_mirror
from tfprov.engine.monitoring.task_progress import (
    HostClocks,
    Pace,
    Slowest,
    last_step_back,
    read_paces,
    settled,
    slowest,
)
from tfprov.engine.observe import locate, needs, observe
from tfprov.errors import HostError, TaskFailed
from tfprov.formats.event_file import EventProgress
from tfprov.model.state import Observation, Observed, State
from tfprov.wiring import STANDALONE

_STRAY = "not in the inventory"


@dataclass(frozen=True)
class Row:
    """One task. `uptime` is in seconds, and None unless it runs; `id` is the pid under the process runtime.

    `pace` is the last reported progress of a training task; `log` the end of the log of a task that failed repeatedly.
    """

    task: str
    host: str
    state: str
    address: str | None = None
    id: str = ""
    uptime: float | None = None
    restarts: int = 0
    exit_code: int | None = None
    detail: str = ""
    pace: Pace | None = None
    log: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepBack:
    """Lost steps: the training continued from step `resumed` after it had reached `lost`, as `task` reported."""

    task: str
    lost: int
    resumed: int


@dataclass(frozen=True)
class Status:
    """All tasks of a cluster, and the progress of its `chief`, which is empty for bare servers.

    `unreachable` has the errors of silent hosts.

    `slowest` compares the tasks that train now.
    """

    cluster: str
    chief: str
    rows: tuple[Row, ...]
    progress: EventProgress | None
    slowest: Slowest | None
    went_back: StepBack | None
    unreachable: Mapping[str, HostError]
    steps: int | None = None
    """The number of steps in the chief's flags; None if they do not set it."""
    mirror: MirrorStatus | None = None
    """The state of the chief's remote checkpoint directory; None without one."""
    run: str = ""
    """The id of the chief's run; empty while it is not there."""

    @property
    def left(self) -> float | None:
        """The seconds until the chief's last step at its present rate; None if unknown."""
        return self.progress.seconds_left(self.steps) if self.progress and self.chief_runs else None

    @property
    def chief_runs(self) -> bool:
        """Whether the chief runs now."""
        return any(row.task == self.chief and row.state == "running" for row in self.rows)

    @property
    def examples_rate(self) -> float | None:
        """The examples per second of all running tasks that report theirs; None if none does."""
        rates = [row.pace.examples_rate for row in self.rows if row.pace and row.state == "running"]
        known = [rate for rate in rates if rate is not None]
        return sum(known) if known else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for `status --json`."""
        return {
            "cluster": self.cluster,
            "run": self.run,
            "chief": self.chief,
            "tasks": [asdict(row) for row in self.rows],
            "progress": asdict(self.progress) if self.progress else None,
            "steps": self.steps,
            "eta": self.left,
            "examples_rate": self.examples_rate,
            "slowest": asdict(self.slowest) if self.slowest else None,
            "went_back": asdict(self.went_back) if self.went_back else None,
            **({"mirror": asdict(self.mirror)} if self.mirror else {}),
            "unreachable": {host: error.reason for host, error in self.unreachable.items()},
        }


Paces = Callable[[Iterable[Observed]], Mapping[str, Pace]]
"""Returns the progress of tasks, by name."""


def status(context: Context, now: float) -> Status:
    """Ask all hosts; return the state of every task at `now`, in seconds since the epoch."""
    observation = observe(context, tolerant=True)
    paces, clocks = (lambda tasks: read_paces(context, tasks)), HostClocks(context)
    return with_logs(context, status_of(context, observation, now, paces, clocks))


def status_of(context: Context, observation: Observation, now: float, read: Paces, clocks: HostClocks) -> Status:
    """Return the state of every task by an observation, without logs; asks only the chief's host, and `clocks`."""
    unreachable = {h: e for h, e in observation.unreachable.items() if needs(context, h) and context.allows(h)}
    rows = [row for row in _rows(context, observation, now) if context.allows(row.host)]
    ours = {(row.task, row.host) for row in rows if row.detail != _STRAY}
    paces = read(one for one in observation.containers() if (one.task, one.host) in ours)
    rows = [replace(row, pace=paces.get(row.task)) if (row.task, row.host) in ours else row for row in rows]
    compared = {row.task: row.pace for row in rows if row.pace and _is_compared(row, row.pace)}
    chief, present = context.cluster.chief.name, context.chief(observation)
    back = last_step_back(paces, chief)
    return Status(
        cluster=context.cluster.name,
        chief="" if any(wanted.strategy == STANDALONE for wanted in context.wanted) else chief,
        rows=tuple(rows),
        progress=read_progress(context, observation) or _from_pace(paces.get(chief)),
        slowest=slowest(clocks.in_local_time(compared, {row.task: row.host for row in rows if row.pace})),
        went_back=StepBack(*back) if back else None,
        unreachable=unreachable,
        steps=steps_of(context, present),
        mirror=read_mirror(context, observation),
        run=present.run if present is not None else "",
    )


def _is_compared(row: Row, pace: Pace) -> bool:
    return row.state == "running" and settled(pace, row.uptime)


def _rows(context: Context, observation: Observation, now: float) -> list[Row]:
    rows = []
    wanted = {container.task.name: container.task for container in context.wanted}
    seen = {(container.task, container.host): container for container in observation.containers()}
    for name, task in wanted.items():
        present = seen.get((name, task.host))
        address = task.endpoint if task.serves else None
        state = "unreachable" if task.host in observation.unreachable else "absent"
        rows.append(_row(present, now, address) if present else Row(name, task.host, state, address))
    strays = [c for c in observation.containers() if c.task not in wanted or wanted[c.task].host != c.host]
    return rows + [_row(stray, now, None, _STRAY) for stray in strays]


def _row(observed: Observed, now: float, address: str | None, detail: str = "") -> Row:
    runs = observed.state is State.RUNNING and not observed.restarting
    uptime = max(0.0, now - observed.started_at) if runs and observed.started_at else None
    state = _state(observed)
    if state == "failed":
        detail = detail or ended(observed)
    if state == "restarting" and observed.last_exit is not None:
        detail = detail or f"ended with exit code {observed.last_exit}"
    return Row(
        observed.task,
        observed.host,
        state,
        address,
        observed.id if runs else "",
        uptime,
        observed.restarts,
        observed.exit_code,
        detail,
    )


def _state(observed: Observed) -> str:
    if observed.state is State.RUNNING:
        return "restarting" if observed.restarting else "paused" if observed.paused else "running"
    if observed.finished or observed.stopped:
        return "finished" if observed.finished else "stopped"
    return "failed" if observed.state is State.EXITED else observed.state.value


def with_logs(context: Context, result: Status) -> Status:
    """Add the end of the log of every task that failed in spite of restarts."""

    def completed(row: Row) -> Row:
        gave_up = row.state == "failed" and row.restarts
        return replace(row, log=tuple(last_log(context, row.task, row.host))) if gave_up else row

    with pool(context.forks) as executor:
        return replace(result, rows=tuple(executor.map(completed, result.rows)))


def _from_pace(pace: Pace | None) -> EventProgress | None:
    """Return the progress of a chief without event files, from its pace: the step, without loss and rate."""
    return EventProgress(pace.step, pace.at, None, None) if pace else None


FILE = "placement.json"
_MOST = 16 * 1024 * 1024
"""Bytes of the file that are read: some hundred for each variable."""
_DEVICE = re.compile(r"/job:(\w+)(?:/.*)?/task:(\d+)")


@dataclass(frozen=True)
class PlacedVariable:
    """A variable of the model; `task` is the task that holds it, such as `ps/0`; empty if its device names no task.

    `shape` is None, or one of its sizes, where the program leaves it open.
    """

    name: str
    task: str
    device: str
    shape: tuple[int | None, ...] | None
    bytes: int


@dataclass(frozen=True)
class Share:
    """The number and size of the variables of one task."""

    variables: int
    bytes: int


@dataclass(frozen=True)
class Placement:
    """All variables of a model, in the order in which its program made them."""

    variables: tuple[PlacedVariable, ...]

    @property
    def shares(self) -> Mapping[str, Share]:
        """Return the share of each task, by its name."""
        shares: dict[str, Share] = {}
        for variable in self.variables:
            before = shares.get(variable.task, Share(0, 0))
            shares[variable.task] = Share(before.variables + 1, before.bytes + variable.bytes)
        return dict(sorted(shares.items(), key=lambda item: (item[0].partition("/")[0], _index(item[0]))))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for `status --placement --json`."""
        shares = {task: asdict(share) for task, share in self.shares.items()}
        return {"variables": [asdict(variable) for variable in self.variables], "tasks": shares}


def _index(task: str) -> int:
    index = task.partition("/")[2]
    return int(index) if index.isdigit() else 0


def placement(context: Context) -> Placement:
    """Return which task holds which variable; raises TaskFailed until the chief has written it."""
    chief = context.cluster.chief.name
    runtime, _ = locate(context, chief)
    fix = "its program says where the variables are once its model is ready, if it uses tfprov.runtime"
    if FILE not in runtime.files(chief):
        raise TaskFailed(chief, f"has not written {FILE} yet; {fix}")
    try:
        return parse(runtime.tail(chief, FILE, _MOST))
    except (ValueError, TypeError, LookupError) as error:
        raise HostError(runtime.host, f"the {FILE} of {chief} is not one of tfprov's runtime: {error}") from None


def parse(data: bytes) -> Placement:
    """Parse a chief's placement file; raises ValueError, TypeError or LookupError if it is invalid."""
    return Placement(tuple(_variable(entry) for entry in json.loads(data)["variables"]))


def _variable(entry: Mapping[str, Any]) -> PlacedVariable:
    device, shape = str(entry["device"]), _shape(entry["shape"])
    match = _DEVICE.search(device)
    task = f"{match[1]}/{int(match[2])}" if match else ""
    return PlacedVariable(str(entry["name"]), task, device, shape, int(entry["bytes"]))


def _shape(entry: Sequence[Any] | None) -> tuple[int | None, ...] | None:
    return None if entry is None else tuple(None if size is None else int(size) for size in entry)

"""The logs of tasks that were removed, and the settings of their run, beside the gathered checkpoints.

    logs/RUN/JOB-INDEX.log     what a task printed; `.log.gz` where that is more than 1 MiB
    logs/RUN/JOB-INDEX.TIME.log  that of an earlier container of the task, which ended before TIME
    logs/RUN/settings.json     the settings of every role, the spec that each task ran with, and how and when it ended

Secrets are masked in both. Incomplete files have a dot in front.
"""

import gzip
import json
import os
import re
import shutil
import threading
import time
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tfprov.atomic_write import private_directory, replace
from tfprov.engine.context import Context
from tfprov.engine.monitoring.kept_notebooks import keep_notebooks
from tfprov.engine.monitoring.task_progress import read_pace
from tfprov.engine.public_settings import masked, public, public_roles
from tfprov.engine.run_ids import RUN_ID
from tfprov.errors import HostError, mask_secrets
from tfprov.model.state import Observation, Observed, State

_LARGE = 1024 * 1024
"""Size in bytes from which a log is compressed."""
_SETTINGS = "settings.json"
_LOG = re.compile(r"(?P<job>[a-z_]+)-(?P<index>[0-9]+(?:@.+)?)\.log(?:\.gz)?", re.ASCII)


Kept = tuple[Path, Mapping[str, Path]]
"""The directory with the logs of a run, and its logs by task."""


class KeptLogs:
    """Keeps the logs of the observed containers before they are removed; a failure is a note and no error.

    With `notebooks`, those of Jupyter tasks are kept as well.
    """

    def __init__(self, context: Context, observation: Observation, *, notebooks: bool = False) -> None:
        self._context, self._seen, self._notebooks = context, observation, notebooks
        self._containers = {(one.task, one.host): one for one in observation.containers()}
        self._lock = threading.Lock()
        self._kept: set[Path] = set()
        self._before: dict[Path, Mapping[str, Mapping[str, Any]]] = {}

    def keep(self, task: str, host: str) -> None:
        """Keep the present log of `task` on `host`, in place of an earlier copy.

        Raises GatherError if a notebook cannot be kept: its task must not be removed.
        """
        if self._notebooks:
            keep_notebooks(self._context, self._seen, task, host)
        container = self._containers.get((task, host))
        if self._context.logs is None or container is None or not container.run:
            return
        to = self._context.logs / container.run
        try:
            with self._lock:
                to.parent.parent.mkdir(parents=True, exist_ok=True)
                private_directory(to.parent)
                private_directory(to)
                if to not in self._kept:
                    self._before[to] = kept_tasks(to)
                    written = _settings(self._context, self._seen, container.run, self._before[to])
                    replace(to / _SETTINGS, written, mode=0o600)
                self._kept.add(to)
            if self._before[to].get(task, {}).get("started") not in (None, container.started_at):
                _set_aside(to, self._name(container))
            _write(to, self._name(container), self._context.runtimes[host].logs(task))
        except HostError as error:
            self._context.report.note(f"the log of {task} is not kept: {error}")
        except OSError as error:
            self._context.report.note(f"the log of {task} is not kept: {to}: {error.strerror}")

    def report(self) -> None:
        """Report the directory of the kept logs."""
        for directory in sorted(self._kept):
            self._context.report.note(f"logs are kept in {directory}")

    def _name(self, container: Observed) -> str:
        """Return a file's name without its ending; a task that was moved has a log on each of its hosts."""
        wanted = self._context.container(container.task)
        moved = wanted is not None and wanted.task.host != container.host
        return container.task.replace("/", "-") + (f"@{container.host}" if moved else "")


def kept_logs(logs: Path | None, task: str | None = None) -> Kept | None:
    """Return the directory of the newest run whose logs were kept, or that of `task`, and its logs by task."""
    if logs is None or not logs.is_dir():
        return None
    for directory in sorted((one for one in logs.iterdir() if RUN_ID.fullmatch(one.name)), reverse=True):
        matches = ((_LOG.fullmatch(path.name), path) for path in sorted(directory.iterdir()))
        files = {f"{name['job']}/{name['index']}": path for name, path in matches if name is not None}
        files = {name: path for name, path in files.items() if task in (None, name.partition("@")[0])}
        if files:
            return directory, files
    return None


def lines_of(path: Path, tail: int | None) -> Iterable[str]:
    """Return the lines of a kept log, or its last `tail` lines; of a damaged one up to the damage, and a remark."""
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        lines = (line.decode("utf-8", "replace").rstrip("\n") for line in _whole(file, path))
        return list(lines if tail is None else deque(lines, tail))


def _whole(file: Iterable[bytes], path: Path) -> Iterator[bytes]:
    try:
        yield from file
    except (EOFError, zlib.error, gzip.BadGzipFile):
        yield f"… the rest is missing: {path} is damaged".encode()


def ended(task: str, path: Path) -> str:
    """Return the remark above the kept log of a removed task: how and when it ended."""
    facts = kept_tasks(path.parent).get(task.partition("@")[0], {})
    how, at = facts.get("ended") or "removed", facts.get("finished")
    seconds = float(at) if isinstance(at, int | float) else path.stat().st_mtime
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
    return f"{task} is not there any more ({how}, {when}); its log is kept in {path}:"


def kept_tasks(directory: Path) -> Mapping[str, Mapping[str, Any]]:
    """Return the kept facts of a run's tasks; empty if they cannot be read."""
    try:
        tasks: Any = json.loads((directory / _SETTINGS).read_bytes())["tasks"]
        return {task: dict(facts) for task, facts in tasks.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _set_aside(directory: Path, name: str) -> None:
    """Rename the log of an earlier container by its time: it may have the cause of a failure."""
    for path in (directory / f"{name}.log", directory / f"{name}.log.gz"):
        if path.exists():
            at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(path.stat().st_mtime))
            path.replace(directory / path.name.replace(f"{name}.log", f"{name}.{at}.log", 1))


def _write(directory: Path, name: str, lines: Iterator[str]) -> None:
    part, packed = directory / f".{name}.log", directory / f".{name}.log.gz"
    try:
        with os.fdopen(_private_file(part), "wb") as file:
            file.writelines(f"{mask_secrets(line)}\n".encode("utf-8", "replace") for line in lines)
            file.flush()
            os.fsync(file.fileno())
        whole = part
        if part.stat().st_size > _LARGE:
            with part.open("rb") as source, os.fdopen(_private_file(packed), "wb") as raw, gzip.open(raw, "wb") as sink:
                shutil.copyfileobj(source, sink, _LARGE)
            whole = packed
        whole.replace(directory / whole.name[1:])
        (directory / (part if whole is packed else packed).name[1:]).unlink(missing_ok=True)
    finally:
        for left in (part, packed):
            left.unlink(missing_ok=True)


def _private_file(path: Path) -> int:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor


def _settings(context: Context, observation: Observation, run: str, before: Mapping[str, Mapping[str, Any]]) -> bytes:
    roles = public_roles(context.roles)
    tasks = dict(before) | {one.task: _of_task(one) for one in observation.containers() if one.run == run}
    if (chief := context.chief(observation)) is not None and chief.run == run:
        pace = read_pace(context.runtimes[chief.host], chief)
        tasks[chief.task] = {**tasks[chief.task], "tensorflow": pace.tensorflow if pace else ""}
    whole = {"cluster": context.cluster.name, "run": run, "roles": roles, "tasks": tasks}
    return json.dumps(masked(whole), indent=1, ensure_ascii=False).encode("utf-8", "replace")


def _of_task(one: Observed) -> dict[str, Any]:
    ended = "stopped" if one.state is State.RUNNING else one.ending
    times = {"started": one.started_at, "ended": ended, "finished": one.finished_at}
    return {"host": one.host, "spec": public(one.spec), **times}

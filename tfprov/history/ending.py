"""The end of a run for end.json, and the copy of its record beside the gathered checkpoints."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tfprov.atomic_write import private_directory, replace
from tfprov.engine.checkpoints import manifest as manifests
from tfprov.engine.context import Context
from tfprov.engine.monitoring.kept_logs import kept_tasks, lines_of
from tfprov.errors import INTERRUPTED, TERMINATED, GatherError
from tfprov.history.event_json import finite
from tfprov.history.json_lines import Appender, read_lines
from tfprov.history.quality import EventData, read_event_data
from tfprov.history.recorder import Recorder
from tfprov.history.run_dir import RunDir
from tfprov.history.totals import Totals

_FEW = 5
"""Samples below which the curve is taken from the event files: nobody followed the training."""


def end_record(
    context: Context, directory: RunDir, totals: Totals, verb: str, outcome: Mapping[str, Any]
) -> dict[str, Any]:
    """Return end.json: how the run ended, the states of its tasks, and its final figures."""
    ended = context.clock.wall()
    started, before = _started(directory, ended), end_before(directory)
    gathered = manifests.directory_of(context.target, directory.id)
    events = read_event_data(gathered, started) if gathered.is_dir() else EventData()
    filled = _fill_curve(directory, events)
    chief = totals.tasks.get(context.cluster.chief.name, {})
    last = _last(directory) if filled or totals.last is None else totals.last
    word = outcome_of(chief, verb, outcome)
    if word == "stopped" and before.get("outcome") in ("failed", "deadline"):  # what was left of it is taken down
        word, outcome = before["outcome"], {name: before.get(name) for name in ("exit_code", "error")}
    return {
        "run": directory.id,
        "verb": verb,
        "ended": ended,
        "duration": max(0.0, ended - started),
        "outcome": word,
        **outcome,
        "tasks": totals.tasks,
        "restarts": totals.restarts,
        "went_back": totals.went_back,
        "last": last,
        "quality": events.measures,
        "checkpoint": _checkpoint(context, directory.id),
        "tensorflow": _tensorflow(context, directory),
    }


def end_before(directory: RunDir) -> dict[str, Any]:
    """Return the end of a run that has ended already, and of which something was left; empty without one."""
    with suppress(OSError, ValueError):
        return directory.read(directory.end_file)
    return {}


def outcome_of(chief: Mapping[str, Any], verb: str, outcome: Mapping[str, Any]) -> str:
    """Return how the run ended, in one word.

    succeeded   the chief ended with exit code 0, and its checkpoints were gathered
    deadline    `deadline` was over
    failed      a task, the start or the gather failed
    stopped     it was taken down before its end
    """
    code = outcome["exit_code"]
    if outcome.get("deadline"):
        return "deadline"
    if chief.get("state") == "exited" and chief.get("exit_code") == 0:
        return "failed" if code else "succeeded"
    if chief.get("state") in ("exited", "lost"):
        return "failed"
    taken_down = verb == "down" or chief.get("state") == "gone"
    return "stopped" if taken_down or code in (0, INTERRUPTED, TERMINATED) else "failed"


def _started(directory: RunDir, default: float) -> float:
    try:
        return float(directory.read(directory.run_file)["started"])
    except (OSError, ValueError, KeyError, TypeError):
        return default


def _last(directory: RunDir) -> dict[str, Any] | None:
    lines = [line for line in read_lines(directory.progress) if isinstance(line.get("written"), int | float)]
    line = max(lines, key=lambda one: float(one["written"]), default=None)
    return None if line is None else {name: line.get(name) for name in ("step", "steps", "loss", "rate", "at")}


def _fill_curve(directory: RunDir, events: EventData) -> bool:
    """Add the losses in the event files that were not seen, as after `up` and `down`; return whether there were any."""
    known = {line.get("step") for line in read_lines(directory.progress)}
    newest = max((step for step in known if isinstance(step, int)), default=-1) if len(known) >= _FEW else -1
    missing = [one for one in events.loss if one[1] > newest and one[1] not in known]
    with suppress(OSError):
        appender = Appender(directory.progress)
        for at, step, loss in missing:
            line = {"at": at, "step": step, "loss": finite(loss), "rate": None, "written": at, "source": "events"}
            appender.append(line)
        appender.close()
    return bool(missing)


def _tensorflow(context: Context, directory: RunDir) -> str | None:
    """Return the version of TensorFlow that the chief's runtime reported, in a container, too; else that of run.json."""
    kept = kept_tasks(context.logs / directory.id) if context.logs is not None else {}
    reported = kept.get(context.cluster.chief.name, {}).get("tensorflow")
    with suppress(OSError, ValueError, KeyError, TypeError):
        reported = reported or directory.read(directory.run_file)["versions"]["tensorflow"]
    return str(reported) if reported else None


def _checkpoint(context: Context, run: str) -> dict[str, Any] | None:
    """Return the newest gathered checkpoint of the run; None without one."""
    try:
        manifest = manifests.read(context.target)
    except GatherError:
        return None
    if manifest is None or manifest.run != run or manifest.newest is None:
        return None
    newest = manifest.newest
    return {
        "directory": str(context.target),
        "prefix": newest.prefix,
        "step": newest.step,
        "tensors": newest.tensors,
        "files": len(manifest.files),
    }


def fill_logs(context: Context, recorder: Recorder) -> None:
    """Complete the recorded logs from those that were kept when the tasks were removed: nobody may have followed them."""
    if context.logs is None:
        return
    directory = context.logs / recorder.directory.id
    for name, task in recorder.totals.tasks.items():
        stem = name.replace("/", "-")
        for path in (directory / f"{stem}.log", directory / f"{stem}.log.gz"):
            with suppress(OSError, EOFError):
                if path.exists():
                    recorder.fill_log(
                        name, float(task.get("finished") or path.stat().st_mtime), [*lines_of(path, None)]
                    )


def keep_beside_checkpoints(context: Context, directory: RunDir) -> None:
    """Copy the record of the run, without its logs, beside the gathered checkpoints, if there are any."""
    if context.logs is None:
        return
    with suppress(OSError):
        if not context.target.is_dir() or not directory.run_file.exists():
            return
        to = context.logs / directory.id
        private_directory(to)
        for path in (directory.run_file, directory.end_file, directory.progress):
            if path.exists():
                replace(to / path.name, path.read_bytes(), mode=0o600)

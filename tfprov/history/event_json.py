"""Events of a run as JSON objects, and back."""

import math
from collections.abc import Mapping
from typing import Any

from tfprov.engine.events import (
    ActionDone,
    ActionFailed,
    ActionSkipped,
    ActionsPlanned,
    ActionStarted,
    Event,
    Incident,
    Note,
    RunStarted,
    TaskChanged,
    TrainingProgress,
)
from tfprov.errors import TfprovError, mask_secrets
from tfprov.formats.event_file import EventProgress
from tfprov.model.incident import IncidentKind
from tfprov.model.plan import Action, ActionKind
from tfprov.model.state import Observed

_NAMES = {ActionStarted: "started", ActionDone: "done", ActionSkipped: "skipped"}
_KINDS = {name: kind for kind, name in _NAMES.items()}


def to_json(event: Event) -> dict[str, Any] | None:
    """Return an event of events.jsonl, secrets masked; None for one that is not recorded there."""
    match event:
        case ActionsPlanned(actions):
            return {"event": "planned", "actions": [_action(action) for action in actions]} if actions else None
        case ActionStarted() | ActionDone() | ActionSkipped():
            return {"event": _NAMES[type(event)], **_action(event.action)}
        case ActionFailed(action, error):
            return {"event": "failed", **_action(action), "error": mask_secrets(str(error))}
        case Incident():
            where = {"task": event.task, "host": event.host, "values": dict(event.values)}
            return {"event": "incident", "kind": event.kind, "text": mask_secrets(event.text), **where}
        case Note(text):
            return {"event": "note", "text": mask_secrets(text)}
        case TaskChanged(observed):
            return {"event": "task", **task_json(observed)}
        case RunStarted(run):
            return {"event": "run_started", "run": run}
    return None


def from_json(record: Mapping[str, Any]) -> Event | None:
    """Return the event of a line of events.jsonl; None for one that has no event, or is unknown."""
    try:
        match record.get("event"):
            case "planned":
                return ActionsPlanned(tuple(map(_from_action, record["actions"])))
            case "started" | "done" | "skipped" as name:
                return _KINDS[name](_from_action(record))
            case "failed":
                return ActionFailed(_from_action(record), TfprovError(str(record["error"])))
            case "incident":
                kind, values = IncidentKind(record["kind"]), dict(record["values"])
                return Incident(str(record["text"]), kind, str(record["task"]), str(record["host"]), values)
            case "note":
                return Note(str(record["text"]))
            case "run_started":
                return RunStarted(str(record["run"]))
    except (KeyError, TypeError, ValueError):
        pass
    return None


def progress_json(event: TrainingProgress) -> dict[str, Any]:
    """Return a line of progress.jsonl but for the time at which it was recorded."""
    progress = event.progress
    return {
        "step": progress.step,
        "steps": event.steps,
        "loss": finite(progress.loss),
        "rate": finite(progress.steps_per_second),
        "written": progress.wall_time,
    }


def finite(value: float | None) -> float | str | None:
    """Return a number as JSON has it: `nan` and `inf`, which it lacks, as texts."""
    return value if value is None or math.isfinite(value) else str(value)


def progress_from_json(record: Mapping[str, Any]) -> TrainingProgress | None:
    """Return the progress of a line of progress.jsonl; None for a damaged one."""
    try:
        numbers = (None if (value := record.get(name)) is None else float(value) for name in ("rate", "loss"))
        return TrainingProgress(
            EventProgress(int(record["step"]), float(record["written"]), *numbers), record.get("steps")
        )
    except (KeyError, TypeError, ValueError):
        return None


def task_json(one: Observed) -> dict[str, Any]:
    """Return the state of a task."""
    return {
        "task": one.task,
        "host": one.host,
        "state": "stopped" if one.stopped else one.state.value,
        "exit_code": one.exit_code,
        "restarts": one.restarts,
        "started": one.started_at,
        "finished": one.finished_at,
        "gave_up": one.gave_up,
        "ending": "" if one.exit_code is None and not one.error else mask_secrets(one.ending),
        "run": one.run,
    }


def _action(action: Action) -> dict[str, Any]:
    causes = [mask_secrets(cause) for cause in action.causes]
    return {"action": action.kind, "host": action.host, "subject": action.subject, "causes": causes}


def _from_action(record: Mapping[str, Any]) -> Action:
    causes = tuple(map(str, record.get("causes", ())))
    return Action(ActionKind(record["action"]), str(record["host"]), str(record["subject"]), causes)

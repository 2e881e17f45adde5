"""The message about an event: as JSON and as environment variables. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfprov.engine.events import Event, Incident, TaskChanged
from tfprov.errors import mask_secrets
from tfprov.model.incident import IncidentKind
from tfprov.model.sections import NotifyEvent

SCHEMA = 1
_KINDS: Mapping[IncidentKind, NotifyEvent] = {
    IncidentKind.HOST_LOST: "host_lost",
    IncidentKind.CRASH_LOOP: "crash_loop",
    IncidentKind.STRAGGLER: "straggler",
    IncidentKind.STALLED: "stalled",
}


@dataclass(frozen=True)
class Message:
    """An event of a run. `text` is one line for people; `values` are further facts, such as `outcome` and `exit_code`."""

    event: NotifyEvent
    cluster: str
    run: str
    text: str
    at: float
    task: str = ""
    host: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object, secrets masked."""
        return {
            "schema": SCHEMA,
            "event": self.event,
            "cluster": self.cluster,
            "run": self.run,
            "text": mask_secrets(self.text),
            "at": self.at,
            "task": self.task,
            "host": self.host,
            **self.values,
        }

    def environment(self) -> dict[str, str]:
        """Return the variables of a command: TFPROV_EVENT, TFPROV_TEXT and so on."""
        return {f"TFPROV_{name.upper()}": "" if value is None else str(value) for name, value in self.to_dict().items()}


def incident_of(event: Event) -> tuple[NotifyEvent, str, str, str] | None:
    """Return kind, text, task and host of the message about an event of the engine; None if there is none."""
    if isinstance(event, Incident) and event.kind in _KINDS:
        return _KINDS[event.kind], event.text, event.task, event.host
    if isinstance(event, TaskChanged) and event.observed.gave_up:
        one = event.observed
        return (
            "crash_loop",
            f"{one.task} on {one.host} {one.ending} again and is not started any more",
            one.task,
            one.host,
        )
    return None


def ending_of(cluster: str, run: str, end: Mapping[str, Any]) -> Message:
    """Return the message on the end of a run: `end` is its end.json."""
    outcome, last = str(end.get("outcome")), end.get("last") or {}
    failed = outcome in ("failed", "deadline")
    reached = f" at step {last['step']:,}" if isinstance(last.get("step"), int) else ""
    error = str(end.get("error") or "").partition("\n")[0]
    text = f"{cluster}: run {run} {_WORDS.get(outcome, outcome)}{reached}{f': {error}' if error else ''}"
    values = {
        "outcome": outcome,
        "exit_code": end.get("exit_code"),
        "duration": end.get("duration"),
        "step": last.get("step"),
        "loss": last.get("loss"),
        "restarts": end.get("restarts"),
    }
    return Message("failed" if failed else "ended", cluster, run, text, float(end.get("ended") or 0.0), values=values)


_WORDS = {
    "succeeded": "succeeded",
    "failed": "failed",
    "stopped": "was stopped",
    "deadline": "was ended by its deadline",
}

"""What the events of a run add up to: the last state of each task, restarts, lost steps, the last progress."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tfprov.engine.events import Incident, TrainingProgress
from tfprov.formats.event_file import EventProgress
from tfprov.history.event_json import finite
from tfprov.model.incident import IncidentKind
from tfprov.model.plan import Action, ActionKind
from tfprov.model.state import State


@dataclass
class Totals:
    """The sums of a run. Times are seconds since 1970."""

    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    went_back: list[dict[str, Any]] = field(default_factory=list)
    last: dict[str, Any] | None = None
    _progress: tuple[EventProgress, int | None] | None = None

    def progress(self, event: TrainingProgress, at: float) -> bool:
        """Add a sample; return whether it says anything new."""
        if self._progress == (event.progress, event.steps):
            return False
        self._progress = event.progress, event.steps
        one = event.progress
        last = {
            "step": one.step,
            "steps": event.steps,
            "loss": finite(one.loss),
            "rate": finite(one.steps_per_second),
            "at": at,
        }
        self.last = last
        return True

    def action_done(self, action: Action) -> None:
        """Add an action: what was stopped or removed is not observed any more, or not at once."""
        task = self.tasks.get(action.subject, {})
        if action.kind == ActionKind.START:
            self.tasks[action.subject] = {"host": action.host, "state": State.RUNNING.value}
            return
        ran = task.get("host") == action.host and task.get("state") == State.RUNNING.value
        if ran and action.kind in (ActionKind.STOP, ActionKind.REMOVE):
            task["state"] = "stopped"

    @property
    def running(self) -> list[str]:
        """The tasks that run as far as is known."""
        return [name for name, task in self.tasks.items() if task.get("state") == State.RUNNING.value]

    def all_gone(self) -> None:
        """Mark the tasks that somebody else has removed, whose end was not seen."""
        for name in self.running:
            self.tasks[name]["state"] = "gone"

    def task(self, state: Mapping[str, Any]) -> None:
        """Add the state of a task as `task_json` has it."""
        self.tasks[str(state["task"])] = {name: state[name] for name in state if name not in ("task", "run")}

    def incident(self, event: Incident, at: float) -> None:
        """Add an incident."""
        if event.kind == IncidentKind.WENT_BACK:
            self.went_back.append({"at": at, **event.values})

    def add_lines(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Add the lines of events.jsonl that an earlier verb has written."""
        for record in events:
            if record.get("event") == "task" and "task" in record:
                self.task({name: value for name, value in record.items() if name not in ("at", "event")})
            elif record.get("kind") == IncidentKind.WENT_BACK and isinstance(record.get("values"), dict):
                self.went_back.append({"at": record.get("at"), **record["values"]})

    def goes_on(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Go on as another run, of which `events` were recorded; the tasks that run are the same."""
        other = Totals()
        other.add_lines(events)
        self.went_back, self.last = other.went_back, None

    @property
    def restarts(self) -> int:
        """The number of restarts of all tasks by their restart policies."""
        return sum(int(task.get("restarts") or 0) for task in self.tasks.values())

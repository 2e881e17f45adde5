"""What a task's directory says of it, in our words."""

from collections.abc import Mapping
from typing import Any

from tfprov.hosts.processes import is_alive
from tfprov.hosts.taskdir import TaskDir
from tfprov.model.state import Observed, State


def observed(directory: TaskDir, host: str) -> Observed:
    """Return the task that `directory` belongs to, as it is now."""
    job, _, index = directory.path.name.rpartition("-")
    ordered = directory.read("order.json") or {}
    supervised, facts = directory.told()
    state = _state(supervised, facts)
    restarting = state is State.RUNNING and facts.get("state") == "restarting"
    return Observed(
        task=f"{job}/{index}",
        host=host,
        state=state,
        spec=ordered.get("spec", {}),
        id="" if restarting else str(facts.get("pid") or ""),
        run=ordered.get("run", ""),
        exit_code=facts.get("exit_code") if state is State.EXITED else None,
        started_at=facts.get("started_at"),
        finished_at=facts.get("finished_at") if state is State.EXITED else None,
        restarts=facts.get("restarts", 0),
        restarting=restarting,
        last_exit=facts.get("last_exit"),
        last_words=facts.get("last_words", ""),
        gave_up=bool(facts.get("gave_up")) and state is State.EXITED,
        stopped=bool(facts.get("stopped")),
        error=facts.get("error", "") if state is State.EXITED else "",
    )


def _state(supervised: bool, facts: Mapping[str, Any]) -> State:
    stated = facts.get("state")
    if stated == "exited" and not supervised:
        return State.EXITED
    if supervised or is_alive(facts.get("pid"), facts.get("identity")):
        return State.RUNNING
    return State.LOST if stated else State.CREATED

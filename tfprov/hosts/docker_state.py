"""What an engine says of a container, in our words. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from tfprov.hosts.answers import seconds
from tfprov.hosts.docker_labels import RUN, SPEC, STOPPED, TASK
from tfprov.hosts.engine_errors import explain
from tfprov.model.state import Observed, State

_STATES = {"created": State.CREATED, "exited": State.EXITED, "dead": State.EXITED}
"""All others (running, restarting, paused, removing) are called running: something of it may still be there."""


def observed(facts: Mapping[str, Any], host: str) -> Observed:
    """Return the container that `facts`, the answer to an inspect, describes."""
    told, labels = facts["State"], facts["Config"].get("Labels") or {}
    state = _STATES.get(told["Status"], State.RUNNING)
    ended = state is State.EXITED
    failed_to_start = state is State.CREATED and bool(told.get("Error"))
    return Observed(
        task=labels.get(TASK, ""),
        host=host,
        state=State.EXITED if failed_to_start else state,
        spec=_spec(labels.get(SPEC, "")),
        id=facts["Id"][:12],
        run=labels.get(RUN, ""),
        exit_code=told["ExitCode"] if ended or failed_to_start else None,
        started_at=seconds(told["StartedAt"]),
        finished_at=seconds(told["FinishedAt"]) if ended else None,
        restarts=facts.get("RestartCount", 0),
        restarting=told["Status"] == "restarting",
        last_exit=told["ExitCode"] if told["Status"] == "restarting" else None,
        gave_up=ended and _gave_up(facts),
        stopped=facts["Name"].endswith(STOPPED),
        error=_error(facts) if ended or failed_to_start else "",
    )


def _gave_up(facts: Mapping[str, Any]) -> bool:
    """Whether a container was started again, and then no more: `no` from the start starts nothing again."""
    policy = (facts.get("HostConfig", {}).get("RestartPolicy") or {}).get("Name")
    return policy == "no" and bool(facts.get("RestartCount")) and bool(facts["State"]["ExitCode"])


def _spec(text: str) -> Mapping[str, Any]:
    try:
        spec = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return spec if isinstance(spec, dict) else {}


def _error(facts: Mapping[str, Any]) -> str:
    if facts["State"].get("OOMKilled"):
        limit = facts["HostConfig"].get("Memory") or 0
        return f"it was killed: out of memory{f' (limit {limit // 1024**2}m)' if limit else ''}"
    return "; ".join(filter(None, explain(str(facts["State"].get("Error") or ""))))

"""What an engine says of a container, in our words. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import docker

from tfprov.errors import HostError
from tfprov.hosts.crash import LINES, last_words
from tfprov.hosts.docker.api_types import seconds
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_errors import explain
from tfprov.hosts.docker.labels import RUN, SPEC, STOPPED, TASK
from tfprov.hosts.log_file import split
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


_BEFORE = 1.0
"""Seconds before the recorded end from which the event is looked for."""


@dataclass(frozen=True)
class End:
    """The exit code of a run of a container, None where it is not known, and the line that named its failure."""

    code: int | None
    words: str


class Exits:
    """Asks `engine` once for every restart of a container; an engine keeps its last few hundred events."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, tuple[tuple[int, str], End]] = {}

    def last(self, facts: Mapping[str, Any]) -> End | None:
        """Return the end of the run before the present or coming one of a container; None where there was none."""
        restarts, status = facts.get("RestartCount", 0), facts["State"]["Status"]
        if not restarts or status not in ("running", "restarting"):
            return None
        container = facts["Id"]
        known = self._known.get(container)
        if known is None or known[0] != (restarts, status):
            code = facts["State"]["ExitCode"] if status == "restarting" else self._code(facts)
            known = self._known[container] = (restarts, status), End(code, self._words(facts))
        return known[1]

    def _words(self, facts: Mapping[str, Any]) -> str:
        """Return the words with which the run before the present one ended; what that one has printed is left out."""
        until: dict[str, Any] = {}
        ended, begun = seconds(facts["State"]["FinishedAt"]), seconds(facts["State"]["StartedAt"])
        if facts["State"]["Status"] == "running" and ended is not None and begun is not None:
            # An engine waits 0.1 s or more in between. It notes a line when it reads it, which may be after the end, and a
            # start when the program already prints.
            until = {"until": (ended + begun) / 2}
        try:
            with self._engine.errors():
                # As a stream, which comes without the frames of the engine's protocol.
                printed = self._engine.api.logs(facts["Id"], stream=True, follow=False, tail=LINES, **until)
                return last_words(list(split(printed)))
        except (HostError, docker.errors.APIError):  # what is lost is an explanation
            return ""

    def _code(self, facts: Mapping[str, Any]) -> int | None:
        ended, began = seconds(facts["State"]["FinishedAt"]), seconds(facts["State"]["StartedAt"])
        if ended is None or began is None or began < ended:
            return None
        # Between the two, so that the engine has said all of it and does not wait for more.
        since, until = cast(int, f"{ended - _BEFORE:.6f}"), cast(int, f"{began:.6f}")
        try:
            with self._engine.errors():
                wanted = {"container": facts["Id"], "event": "die"}
                told = list(self._engine.api.events(since=since, until=until, filters=wanted, decode=True))
            return int(told[-1]["Actor"]["Attributes"]["exitCode"])
        except (HostError, LookupError, TypeError, ValueError):  # what is lost is a number in a message
            return None

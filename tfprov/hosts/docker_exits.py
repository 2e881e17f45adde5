"""How a container ended before its engine started it again: only the engine's events and its log still say so."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import docker

from tfprov.errors import HostError
from tfprov.hosts.answers import seconds
from tfprov.hosts.crash import LINES, last_words
from tfprov.hosts.engine_api import Engine
from tfprov.hosts.logfile import split

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

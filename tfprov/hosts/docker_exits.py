"""With which exit code a container ended before its engine started it again: only the engine's events still say so."""

from collections.abc import Mapping
from typing import Any, cast

from tfprov.errors import HostError
from tfprov.hosts.docker_state import seconds
from tfprov.hosts.engine_api import Engine

_BEFORE = 1.0
"""Seconds before the recorded end from which the event is looked for."""


class Exits:
    """Asks `engine` once for every restart of a container; an engine keeps its last few hundred events."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, tuple[int, int | None]] = {}

    def last(self, facts: Mapping[str, Any]) -> int | None:
        """Return the exit code of the run before the present one of a container; None where it is not known."""
        restarts = facts.get("RestartCount", 0)
        if not restarts or facts["State"]["Status"] != "running":
            return None
        container = facts["Id"]
        known = self._known.get(container)
        if known is None or known[0] != restarts:
            known = self._known[container] = restarts, self._ask(facts)
        return known[1]

    def _ask(self, facts: Mapping[str, Any]) -> int | None:
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

"""What a container prints, also after its engine has started it again: the engine's own stream ends with the first life."""

import time
from collections.abc import Iterator
from typing import Any

import docker

from tfprov.hosts.docker_state import seconds
from tfprov.hosts.logfile import split

_POLL = 0.2
"""Seconds between two looks at a container that has ended and may be started again."""
_SETTLE = 1.0
"""Seconds an engine gets to say that a container has ended whose stream has."""


def lines(api: docker.APIClient, container: str, tail: int | None, *, follow: bool) -> Iterator[str]:
    """Yield the lines of a container's log, from `tail` lines before its end; with `follow`, until it ends for good."""
    whence: dict[str, Any] = {"tail": "all" if tail is None else tail}
    while True:
        restarts = _restarts(api, container) if follow else None
        yield from split(api.logs(container, stream=True, follow=follow, **whence))
        ended = None if restarts is None else _ended_before(api, container, restarts)
        if ended is None:
            return
        whence = {"since": ended}


def _restarts(api: docker.APIClient, container: str) -> int:
    restarts: int = api.inspect_container(container)["RestartCount"]
    return restarts


def _ended_before(api: docker.APIClient, container: str, restarts: int) -> float | None:
    """Wait until a container runs again and return when it had ended; None when it has ended for good."""
    deadline = time.monotonic() + _SETTLE
    while True:
        try:
            facts = api.inspect_container(container)
        except docker.errors.NotFound:
            return None
        status = facts["State"]["Status"]
        if status == "running" and facts["RestartCount"] > restarts:
            return seconds(facts["State"]["FinishedAt"])
        if status not in ("running", "restarting") or (status == "running" and time.monotonic() > deadline):
            return None
        time.sleep(_POLL)

"""What a container prints, also after its engine has started it again: the engine's own stream ends with the first life."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import docker

from tfprov.hosts.docker.api_types import seconds
from tfprov.hosts.log_file import split, split_stamped

_POLL = 0.2
"""Seconds between two looks at a container that has ended and may be started again."""
_ALIVE = ("running", "restarting")
_SECOND = len("2006-01-02T15:04:05")
_SETTLE = 1.0
"""Seconds an engine gets to say that a container has ended whose stream has."""


def lines(api: docker.APIClient, container: str, tail: int | None, *, follow: bool) -> Iterator[str]:
    """Yield the lines of a container's log, from `tail` lines before its end; with `follow`, until it ends for good."""
    whence: dict[str, Any] = {"tail": "all" if tail is None else tail}
    while True:
        try:
            restarts = _restarts(api, container) if follow else None
            printed = api.logs(container, stream=True, follow=follow, **whence)
        except docker.errors.NotFound:  # removed since it was found
            return
        yield from split(printed)
        ended = None if restarts is None else _ended_before(api, container, restarts)
        if ended is None:
            return
        whence = {"since": ended}


def _restarts(api: docker.APIClient, container: str) -> int:
    restarts: int = api.inspect_container(container)["RestartCount"]
    return restarts


def _ended_before(api: docker.APIClient, container: str, restarts: int) -> float | None:
    """Wait until a container has run again and return when it had ended before; None when it has ended for good.

    That is the first end that is seen: by the time it runs again, it may have ended a second time.
    """
    deadline = time.monotonic() + _SETTLE
    first: float | None = None
    while True:
        try:
            facts = api.inspect_container(container)
        except docker.errors.NotFound:
            return None
        status, ended = facts["State"]["Status"], seconds(facts["State"]["FinishedAt"])
        if status != "running" or facts["RestartCount"] > restarts:
            first = first or ended
        if status != "restarting" and facts["RestartCount"] > restarts:
            return first
        if status not in _ALIVE or (status == "running" and time.monotonic() > deadline):
            return None
        time.sleep(_POLL)


def polled(
    api: docker.APIClient, container: str, tail: int | None, turn: threading.Lock, every: float = 1.0
) -> Iterator[str]:
    """Yield what `lines` yields while it follows, from short requests instead: one `every` seconds.

    For a connection that has few channels, of which each that is followed takes one for as long as a training. `turn` is
    held during a request: the SDK asks a second thing while the first one is answered, and of many that each had a channel
    for the one, none would get a channel for the other.
    """
    seen = _Seen("" if tail is None else None)
    whence: dict[str, Any] = {"tail": "all" if tail is None else max(1, tail)}
    shown = tail != 0
    while True:
        with turn:
            try:
                alive = api.inspect_container(container)["State"]["Status"] in _ALIVE  # before its last line is read
                printed = api.logs(container, stream=True, timestamps=True, **whence)
            except docker.errors.NotFound:  # removed since it was found
                return
            for line in split_stamped(printed):
                if seen.is_new(line) and shown:
                    yield line.partition(" ")[2]
        if not alive:
            return
        since = seen.since()
        whence, shown = {"tail": "all"} if since is None else {"since": since}, True
        time.sleep(every)


class _Seen:
    """The lines, each with its time in front, that a log was seen to have, from the time `first` on, or from the first one.

    The engine finds lines by their time, so a little is asked for twice: those of the last two seconds in which there were
    any are kept, to know them by.
    """

    def __init__(self, first: str | None) -> None:
        self._first = first
        self._known: dict[str, set[str]] = {}

    def is_new(self, line: str) -> bool:
        """Take in a line; return whether it is one to show."""
        stamp, second = line.partition(" ")[0], line[:_SECOND]
        self._first = stamp if self._first is None else self._first
        if stamp < self._first or line in self._known.get(second, ()):
            return False
        self._known.setdefault(second, set()).add(line)
        self._known = {second: self._known[second] for second in sorted(self._known)[-2:]}
        return True

    def since(self) -> float | None:
        """Return the time, in seconds since the epoch, from which on the log is asked for again; None for all of it."""
        return seconds(f"{min(self._known)}Z") if self._known else None

"""Read a container's log across restarts: the engine's own stream ends with each run."""

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_api.answers import MalformedAnswer, parse_time
from tfprov.hosts.docker.engine_api.sdk import docker
from tfprov.hosts.log_file import split_lines, split_stamped_lines
from tfprov.hosts.log_lines import Line, LogTimes

_POLL_INTERVAL = 0.2
"""Seconds between checks of a container that has ended and may be restarted."""
_LIVE_STATES = ("running", "restarting")
_SECOND_LENGTH = len("2006-01-02T15:04:05")
_SETTLE_SECONDS = 1.0
"""Seconds for an engine to report the end of a container after the end of its stream."""
_EVENT_MARGIN = 1.0
"""Seconds before a recorded end from which events are searched."""


@dataclass(frozen=True)
class RunEnd:
    """The end of a container's run as the engine reported it, in seconds since the epoch, and the exit code.

    By then the engine has read, and stamped, all of the run's output, and it has not begun the next run.
    """

    at: float
    code: int


def run_ends(api: "docker.APIClient", container: str, since: float, until: float) -> Sequence[RunEnd]:
    """Return the ends of a container's runs from `since` to `until`, a time in the past, that the engine still knows.

    It keeps a few hundred events. Raises the errors of the connection.
    """
    # `until` is in the past, so that the engine does not wait for further events. The SDK converts only whole seconds.
    times = {"since": cast(int, f"{since - _EVENT_MARGIN:.6f}"), "until": cast(int, f"{until:.6f}")}
    try:
        events = api.events(**times, filters={"container": container, "event": "die"}, decode=True)
        return [RunEnd(event["timeNano"] / 1e9, int(event["Actor"]["Attributes"]["exitCode"])) for event in events]
    except (docker.errors.APIError, docker.errors.StreamParseError):  # only details are lost
        return ()
    except (LookupError, TypeError, ValueError, OverflowError):  # not Docker's events
        return ()


def task_lines(
    engine: Engine, container: str, tail: int | None, *, follow: bool, times: LogTimes | None
) -> Iterator[Line]:
    """Yield the lines of a container's log; followed by a stream while the connection has channels, else by requests."""
    if not follow:
        yield from read_lines(engine.api, container, tail, follow=False, times=times)
    elif engine.followers.acquire(blocking=False):
        try:
            yield from read_lines(engine.api, container, tail, follow=True, times=times)
        finally:
            engine.followers.release()
    else:
        yield from poll_lines(engine.api, container, tail, engine.poll_lock, times=times)


def read_lines(
    api: "docker.APIClient", container: str, tail: int | None, *, follow: bool, times: LogTimes | None = None
) -> Iterator[Line]:
    """Yield the lines of a container's log, from `tail` lines before its end; with `follow`, until its final end."""
    bounded = not follow and times is not None and times.is_bounded
    lines = _read(api, container, None if bounded else tail, follow=follow, times=times)
    yield from lines if times is None else times.select(lines, tail if bounded else None)


def _read(
    api: "docker.APIClient", container: str, tail: int | None, *, follow: bool, times: LogTimes | None
) -> Iterator[Line]:
    range_options: dict[str, Any] = {"tail": "all" if tail is None else tail, **_engine_range(times)}
    while True:
        try:
            restarts = _restarts(api, container) if follow else None
            output = api.logs(container, stream=True, follow=follow, timestamps=times is not None, **range_options)
        except docker.errors.NotFound:  # removed meanwhile
            return
        yield from split_lines(output) if times is None else map(_with_time, split_stamped_lines(output))
        ended = None if restarts is None else _last_end(api, container, restarts)
        if ended is None:
            return
        range_options |= {"tail": "all", "since": ended}


def _engine_range(times: LogTimes | None) -> dict[str, float]:
    """Return the options with which the engine leaves out most of the lines that are not asked for; 0 is none for it."""
    bounds = {"since": times.since, "until": times.until} if times is not None else {}
    return {name: bound for name, bound in bounds.items() if bound}


def _with_time(stamped: str) -> Line:
    stamp, _, text = stamped.partition(" ")
    try:
        return Line(text, parse_time(stamp))
    except MalformedAnswer:  # a piece of a line that is longer than the engine's buffer
        return Line(stamped)


def _restarts(api: "docker.APIClient", container: str) -> int:
    """Return the restarts before the run whose log is read; one for which the engine is waiting comes after it."""
    facts = api.inspect_container(container)
    return int(facts["RestartCount"]) - int(facts["State"]["Status"] == "restarting")


def _last_end(api: "docker.APIClient", container: str, restarts: int) -> float | None:
    """Wait until a container has been restarted, and return a time between its runs; None if it has ended for good.

    It is that of the first end observed: by the time it runs again, it may have ended a second time. The last lines of a
    run may be read, and stamped, after its end; the engine reports the end after them.
    """
    deadline = time.monotonic() + _SETTLE_SECONDS
    first: float | None = None
    while True:
        try:
            facts = api.inspect_container(container)
        except docker.errors.NotFound:
            return None
        status, ended = facts["State"]["Status"], parse_time(facts["State"]["FinishedAt"])
        if status != "running" or facts["RestartCount"] > restarts:
            first = first or ended
        if status != "restarting" and facts["RestartCount"] > restarts:
            started = parse_time(facts["State"]["StartedAt"])
            if first is None or started is None or started < first:
                return first
            if reported := [end.at for end in run_ends(api, container, first, started) if end.at >= first]:
                return min(reported)
            return (first + started) / 2 if facts["RestartCount"] == restarts + 1 else first
        if status not in _LIVE_STATES or (status == "running" and time.monotonic() > deadline):
            return None
        time.sleep(_POLL_INTERVAL)


def poll_lines(  # noqa: PLR0913  what is read, and how often
    api: "docker.APIClient",
    container: str,
    tail: int | None,
    poll_lock: threading.Lock,
    *,
    interval: float = 1.0,
    times: LogTimes | None = None,
) -> Iterator[Line]:
    """Follow a log like `read_lines`, by short requests every `interval` seconds instead of a stream.

    For a connection with few channels, of which a followed stream occupies one for as long as a training. `poll_lock` is
    held during a request: the SDK needs a second channel during the first request, so many concurrent followers with one
    channel each would wait for each other.
    """
    seen = _SeenLines("" if tail is None else None)
    range_options: dict[str, Any] = {"tail": "all" if tail is None else max(1, tail)}
    show = tail != 0
    while True:
        with poll_lock:
            try:
                is_alive = (
                    api.inspect_container(container)["State"]["Status"] in _LIVE_STATES
                )  # before reading, so that the last lines are not missed
                output = api.logs(container, stream=True, timestamps=True, **range_options)
            except docker.errors.NotFound:  # removed meanwhile
                return
            for line in split_stamped_lines(output):
                if seen.is_new(line) and show and (times or LogTimes()).includes(timed := _with_time(line)):
                    yield timed
        if not is_alive or (times is not None and times.until is not None and time.time() >= times.until):
            return
        since = seen.since()
        range_options, show = {"tail": "all"} if since is None else {"since": since}, True
        time.sleep(interval)


class _SeenLines:
    """Recognizes repeated lines, each prefixed with its time, from the time `first` on; None for the first line's time.

    The engine selects lines by time, so requests overlap. The lines of the last two seconds that had any are remembered.
    """

    def __init__(self, first: str | None) -> None:
        self._first = first
        self._known: dict[str, set[str]] = {}

    def is_new(self, line: str) -> bool:
        """Add a line; return whether it is new."""
        stamp, second = line.partition(" ")[0], line[:_SECOND_LENGTH]
        self._first = stamp if self._first is None else self._first
        if stamp < self._first or line in self._known.get(second, ()):
            return False
        self._known.setdefault(second, set()).add(line)
        self._known = {second: self._known[second] for second in sorted(self._known)[-2:]}
        return True

    def since(self) -> float | None:
        """Return the start of the next request in seconds since the epoch; None for the whole log."""
        return parse_time(f"{min(self._known)}Z") if self._known else None

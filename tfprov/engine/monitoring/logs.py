"""The logs of several tasks at once, as they are printed."""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from tfprov.engine.concurrency import LOOK
from tfprov.engine.context import Context
from tfprov.engine.monitoring.failures import own_paths
from tfprov.engine.monitoring.kept_logs import Kept, kept_logs, lines_of
from tfprov.engine.monitoring.kept_logs import ended as ended_text
from tfprov.engine.observe import locate, needs, observe, observe_in_background
from tfprov.errors import HostError, Usage, combine_errors
from tfprov.hosts.log_lines import Line, LogTimes
from tfprov.model.state import Observation, Observed
from tfprov.results import LogRecord, LogStream

_DRAIN = 3.0
"""Seconds to read the other tasks' last lines after those of the chief."""
_BACKLOG = 30.0
"""Seconds to show the rest of the chief's log after its end: more than that scrolls by unread."""
_AGAIN = 2.0
"""Seconds before the next try to read from a lost host."""
_AT_ONCE = 10_000
"""Lines that are buffered before reading the tasks' logs pauses."""


@dataclass(frozen=True)
class LogOptions:
    """What is read of logs: `tail` lines of each, those of `times`; `follow` goes on until the tasks end.

    `unfinished`: lines that may still change are yielded, too.
    """

    follow: bool = False
    tail: int | None = None
    times: LogTimes | None = None
    unfinished: bool = False


def read_logs(context: Context, tasks: Sequence[str], options: LogOptions) -> LogStream:
    """Return the logs of `tasks`, or of all; the kept logs of removed tasks come first.

    Raises Usage for an unknown task; the stream raises the errors of hosts that cannot be read once all else was read.
    """
    observation = Observation({}) if tasks else observe(context, tolerant=True)
    running, removed = _named(context, tasks) if tasks else _all(context, observation)
    names = (*(observed.task for observed in running), *(task for _, files in removed for task in files))

    def records() -> Iterator[LogRecord]:
        for _, files in removed:
            for task, path in files.items():
                yield LogRecord(task, ended_text(task, path), is_remark=True)
                if options.times is not None and options.times.is_bounded:
                    yield LogRecord(task, f"{task}: kept logs have no times: nothing of it is shown", is_remark=True)
                    continue
                yield from (LogRecord(task, line) for line in lines_of(path, options.tail))
        if options.follow:
            lines = log_lines(context, running, tail=options.tail, times=options.times)
            yield from (_record(task, line) for task, line in lines if options.unfinished or not is_unfinished(line))
        else:
            for observed in running:
                runtime = context.runtimes[observed.host]
                for line in runtime.logs(observed.task, tail=options.tail, times=options.times):
                    yield _record(observed.task, line)
        if errors := [error for host, error in observation.unreachable.items() if needs(context, host)]:
            raise combine_errors(errors)

    return LogStream(names, records())


def is_unfinished(line: str) -> bool:
    """Whether a line may still change."""
    return isinstance(line, Line) and line.unfinished


def _record(task: str, line: str) -> LogRecord:
    printed = line.at if isinstance(line, Line) else None
    return LogRecord(task, str(line), printed=printed, unfinished=is_unfinished(line))


def _named(context: Context, tasks: Sequence[str]) -> tuple[list[Observed], list[Kept]]:
    """Return the containers of `tasks`, and the kept logs of those that were removed."""
    running, removed = [], []
    for task in dict.fromkeys(tasks):
        try:
            running.append(locate(context, task)[1])
        except Usage:
            if (kept := kept_logs(context.logs, task)) is None:
                raise
            removed.append(kept)
    return running, removed


def _all(context: Context, observation: Observation) -> tuple[list[Observed], list[Kept]]:
    """Return every container, and the kept logs of their run, or of the last run if there is no container."""
    running, kept = observation.containers(), kept_logs(context.logs)
    if kept is None or observation.unreachable or (running and kept[0].name not in {one.run for one in running}):
        return running, []
    present = {one.task for one in running}
    files = {task: path for task, path in kept[1].items() if task not in present}
    return running, [(kept[0], files)] if files else []


def log_lines(  # noqa: PLR0913  what is read, and what ends it
    context: Context,
    containers: Iterable[Observed],
    *,
    tail: int | None,
    times: LogTimes | None = None,
    stop: threading.Event | None = None,
    ended: Callable[[str], None] = lambda _task: None,
) -> Iterator[tuple[str, str]]:
    """Follow the logs of the tasks in `containers` at once; ends when all of them have ended.

    A thread iterates `containers`, which may wait for further ones.

    A lost host is tried until it is back; the output of its tasks meanwhile is left out. Once `stop` is set, lost hosts
    are not reported. `ended` is called with each task whose log has been yielded completely.
    """
    lines: queue.Queue[tuple[str, str | None] | Observed] = queue.Queue(maxsize=_AT_ONCE)
    stop = stop or threading.Event()
    is_over = threading.Event()
    lost: set[str] = set()

    def read(observed: Observed) -> None:
        try:
            with suppress(BrokenPipeError):  # the output was closed: `tfprov logs -f | head`
                for line in _lines(context, observed, (tail, times), lost, stop):
                    lines.put((observed.task, line))
                    if is_over.is_set():
                        return
        finally:
            lines.put((observed.task, None))

    def iterate() -> None:
        try:
            with suppress(OSError):  # a look may print, and the output be closed
                for observed in containers:
                    lines.put(observed)
                    if is_over.is_set():
                        return
        finally:
            lines.put(("", None))

    threading.Thread(target=iterate, daemon=True).start()
    left = 1
    try:
        while left:
            try:
                one = lines.get(timeout=LOOK)
            except queue.Empty:
                continue
            if isinstance(one, Observed):
                threading.Thread(target=read, args=(one,), daemon=True).start()
                left += 1
                continue
            task, line = one
            if line is not None:
                yield task, line
                continue
            left -= 1
            if task:
                ended(task)
    finally:
        stop.set()
        is_over.set()
        with suppress(queue.Empty):  # room for the threads that wait for it
            while left:
                lines.get_nowait()


def _lines(
    context: Context,
    observed: Observed,
    asked: tuple[int | None, LogTimes | None],
    lost: set[str],
    stop: threading.Event,
) -> Iterator[str]:
    """Yield the lines of one task; `lost` are the hosts whose interrupted logs were already reported."""
    runtime, host = context.runtimes[observed.host], observed.host
    tail, times = asked
    while not stop.is_set():
        try:
            for line in runtime.logs(observed.task, tail=tail, follow=True, times=times):
                lost.discard(host)
                yield line
        except HostError as error:
            if stop.is_set():
                return
            if host not in lost:
                lost.add(host)
                what = error.reason.partition(";")[0]
                context.report.note(f"{host}: {what}; what its tasks print meanwhile is in `tfprov logs`")
            tail = 0
            context.clock.wait(stop, _AGAIN)
        else:
            return


def _looks(context: Context, stop: threading.Event) -> Iterator[list[Observed]]:
    """Yield the containers of the wanted tasks at a first look, and those of hosts that are back at each later one.

    Ends with the last lost host that the verb needs, or once `stop` is set.
    """
    asked, wanted = context, [*context.wanted]
    while wanted:
        observation = observe_in_background(asked)
        seen = {c.task.name: context.observed(c.task.name, observation) for c in wanted}
        yield [observed for observed in seen.values() if observed is not None]
        lost = {host for host in observation.unreachable if needs(context, host)}
        wanted = [c for c in wanted if c.task.host in lost and seen[c.task.name] is None]
        if not wanted or context.clock.wait(stop, _AGAIN):
            return
        asked = replace(context, runtimes={c.task.host: context.runtimes[c.task.host] for c in wanted})


@contextmanager
def logs(context: Context, drain: float = _DRAIN, backlog: float = _BACKLOG) -> Iterator[None]:
    """Report the logs of all tasks, from their starts, until the block ends.

    Paths of code copies are replaced by those of the user's `code:`. If the block ends without an error, the chief's log is
    reported to its last line, for `backlog` seconds at most, and those of the other tasks for `drain` more seconds.
    """
    stop, looked, whole = threading.Event(), threading.Event(), threading.Event()
    chief, own = context.cluster.chief.name, dict[str, Callable[[str], str]]()

    def containers() -> Iterator[Observed]:
        for seen in _looks(context, stop):
            own.update((observed.task, own_paths(context, observed.task)) for observed in seen)
            looked.set()
            yield from seen

    def pump() -> None:
        try:
            for task, line in log_lines(context, containers(), tail=None, stop=stop, ended=ended):
                if stop.is_set():
                    return
                if is_unfinished(line):
                    context.report.redrawn(task, own[task](line))
                else:
                    context.report.log(task, own[task](line))
        except OSError:  # the output was closed: `tfprov run | head`
            return
        finally:
            looked.set()
            whole.set()

    def ended(task: str) -> None:
        if task == chief:
            whole.set()

    thread = threading.Thread(target=pump, daemon=True)
    thread.start()
    try:
        yield
        looked.wait(backlog)
        if chief in own:
            whole.wait(backlog)
        thread.join(drain)
    finally:
        stop.set()

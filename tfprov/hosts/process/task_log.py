"""The log of a task of the process runtime: two files, and two with the times of their lines."""

import time
from collections.abc import Callable, Iterator

from tfprov.hosts.log_file import follow as follow_file
from tfprov.hosts.log_file import last_lines, stamped_lines
from tfprov.hosts.log_lines import Line, LogTimes
from tfprov.hosts.process.task_dir import TaskDir


def read(
    directory: TaskDir, running: Callable[[], bool], tail: int | None, follow: bool, times: LogTimes | None
) -> Iterator[str]:
    """Return the lines of a log; see Runtime.logs."""
    if follow:
        return _follow(directory, running, tail, times)
    if times is None:
        return iter(last_lines([directory.older_log, directory.log], tail))
    return times.select(_stamped(directory), tail)


def _stamped(directory: TaskDir) -> Iterator[Line]:
    for log, times in ((directory.older_log, directory.older_times), (directory.log, directory.times)):
        if log.exists():
            yield from stamped_lines(log, times.read(log.stat().st_mtime).at)


def _follow(
    directory: TaskDir, running: Callable[[], bool], tail: int | None, times: LogTimes | None
) -> Iterator[Line]:
    if times is None:
        yield from follow_file(directory.log, tail, running)
        return
    known = directory.times.read(None)
    before = known.sizes[-1] if known.sizes else 0

    def printed_at(end: int) -> float | None:
        """What was printed before this began has a record, or none at all; the rest is printed now."""
        return known.at(end) if end <= before or not known.sizes else time.time()

    def goes_on() -> bool:
        return running() and (times.until is None or time.time() < times.until)

    yield from (
        line
        for line in follow_file(directory.log, tail, goes_on, printed_at=printed_at)
        if line.unfinished or times.includes(line)
    )

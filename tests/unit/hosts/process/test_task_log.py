"""Lines of the process runtime have times: a file beside the log has when the log had how many bytes."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tfprov.hosts.log_lines import Line, LogTimes
from tfprov.hosts.process.supervisor import LOG_LIMIT, Supervisor
from tfprov.hosts.process.task_dir import TaskDir
from tfprov.hosts.process.task_log import read


class Task:
    """A task directory with its supervisor; what a task prints has the time `now`."""

    def __init__(self, path: Path) -> None:
        self.directory = TaskDir(path)
        self.supervisor = Supervisor(self.directory)

    def prints(self, text: str, now: float) -> None:
        with self.directory.log.open("a") as log:
            log.write(text)
        os.utime(self.directory.log, (now, now))
        self.supervisor.limit_log()

    def lines(
        self, times: LogTimes, tail: int | None = None, *, follow: bool = False
    ) -> Sequence[tuple[str, float | None]]:
        lines = read(self.directory, lambda: False, tail, follow, times)
        return [(str(line), line.at) for line in lines if isinstance(line, Line)]


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Task(tmp_path)


def test_each_line_has_the_time_by_which_it_was_there(task: Task) -> None:
    task.prints("one\ntwo", 100.0)
    task.prints(" and more\nthree\n", 101.5)
    task.prints("four", 103.0)
    assert task.lines(LogTimes()) == [("one", 100.0), ("two and more", 101.5), ("three", 101.5), ("four", 103.0)]
    assert task.lines(LogTimes(since=101.5), tail=2) == [("three", 101.5), ("four", 103.0)]
    assert task.lines(LogTimes(since=101.0, until=103.0)) == [("two and more", 101.5), ("three", 101.5)]
    assert task.lines(LogTimes(until=103.0), tail=1) == [("three", 101.5)], "the last of those that are asked for"
    assert task.lines(LogTimes(since=101.0), follow=True)[0] == ("two and more", 101.5)


def test_a_log_of_an_earlier_version_is_readable_and_has_no_times(task: Task) -> None:
    task.directory.log.write_text("one\ntwo\n")
    assert task.lines(LogTimes()) == [("one", None), ("two", None)]
    assert task.lines(LogTimes(), follow=True) == [("one", None), ("two", None)]
    assert task.lines(LogTimes(since=1.0)) == [], "nothing says that it is of that time"


def test_what_the_supervisor_has_not_seen_yet_is_as_old_as_the_file(task: Task) -> None:
    task.prints("one\n", 100.0)
    with task.directory.log.open("a") as log:
        log.write("two\n")
    os.utime(task.directory.log, (107.0, 107.0))
    assert task.lines(LogTimes()) == [("one", 100.0), ("two", 107.0)]


def test_a_rotated_log_keeps_the_times_of_both_parts(task: Task) -> None:
    half = LOG_LIMIT // 2
    task.prints("a" * 99 + "\n", 50.0)
    task.prints(("b" * 99 + "\n") * (half // 100), 60.0)
    task.prints(("c" * 99 + "\n") * (half // 100 + 9) + "last\n", 70.0)
    assert task.directory.older_log.exists()
    task.prints("new\n", 80.0)
    assert task.lines(LogTimes(since=70.0))[-2:] == [("last", 70.0), ("new", 80.0)]
    letters = {(text[-1], at) for text, at in task.lines(LogTimes()) if len(text) == 99}
    assert letters == {("b", 60.0), ("c", 70.0)}


def test_a_damaged_file_of_times_costs_no_line(task: Task) -> None:
    task.prints("one\n", 100.0)
    task.directory.times.path.write_bytes(task.directory.times.path.read_bytes()[:-3])
    assert task.lines(LogTimes()) == [("one", None)]

"""Hosts that report changes are asked where something has happened; no change is missed, whatever becomes of the report."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tests.support.memory_lab import MemoryLab, follow_with_steps
from tfprov.engine.context import Context
from tfprov.engine.monitoring.changed_hosts import ChangedHosts
from tfprov.engine.monitoring.overview import LiveOverview, Overview
from tfprov.engine.monitoring.watch import Watch
from tfprov.errors import HostError, TaskFailed, Unreachable

CHIEF, PS, OTHER = "h2", "h1", "h3"
FULL_LOOK = 60
"""Seconds after which each host is asked, whatever its events report."""


class Stream:
    """The changes of a host, as an engine reports them."""

    def __init__(self) -> None:
        self.is_open, self.changed = True, False

    def happened(self) -> bool:
        changed, self.changed = self.changed, False
        return changed or not self.is_open

    def close(self) -> None:
        self.is_open = False


class Counted:
    """A host that counts how often it is asked, and how often to end restarts."""

    def __init__(self, runtime: Any) -> None:
        self._runtime, self.looks, self.ended = runtime, 0, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    def observe(self) -> Any:
        self.looks += 1
        return self._runtime.observe()

    def end_restarts(self, task: str) -> None:
        self.ended += 1
        self._runtime.end_restarts(task)


class Reporting:
    """A lab whose hosts report changes; `streams` has those that were opened, by host, `refused` hosts open none."""

    def __init__(self) -> None:
        self.lab = MemoryLab()
        self.streams: dict[str, list[Stream]] = {host: [] for host in self.lab.hosts}
        self.refused: set[str] = set()
        self.counted = {host: Counted(runtime) for host, runtime in self.lab.hosts.items()}
        changes = {host: partial(self._open, host) for host in self.lab.hosts}
        self.context: Context = replace(self.lab.context, runtimes=self.counted, changes=changes)
        self.watch = Watch(self.context)

    def _open(self, host: str) -> Stream:
        if host in self.refused:
            raise HostError(host, "its engine reports no events")
        self.streams[host].append(Stream())
        return self.streams[host][-1]

    def look(self, times: int = 1) -> Mapping[str, int]:
        """Look once a second, and return how often each host was asked."""
        before = {host: runtime.looks for host, runtime in self.counted.items()}
        for _ in range(times):
            self.lab.clock.sleep(1)
            self.seen = self.watch.look()
        return {host: runtime.looks - before[host] for host, runtime in self.counted.items()}

    def state(self, task: str) -> str:
        return next(str(one.state.value) for one in self.seen.containers() if one.task == task)


@pytest.fixture
def reporting() -> Reporting:
    """Return a lab whose hosts are followed, and quiet."""
    made = Reporting()
    made.look(10)
    assert [len(streams) for streams in (made.streams[PS], made.streams[OTHER], made.streams[CHIEF])] == [1, 1, 0]
    return made


def test_a_quiet_host_is_asked_once_a_minute_and_the_chief_s_at_every_look(reporting: Reporting) -> None:
    assert reporting.look(40) == {CHIEF: 40, PS: 0, OTHER: 0}
    assert reporting.look(20) == {CHIEF: 20, PS: 1, OTHER: 1}
    assert len(reporting.seen.containers()) == 6, "with the last state of each"


def test_a_change_is_seen_at_the_next_look_and_settles_at_one_more(reporting: Reporting) -> None:
    reporting.lab.hosts[OTHER].exits("worker/2", 1)
    assert reporting.look() == {CHIEF: 1, PS: 0, OTHER: 0}
    assert reporting.state("worker/2") == "running"
    reporting.streams[OTHER][0].changed = True
    assert reporting.look() == {CHIEF: 1, PS: 0, OTHER: 1}
    assert reporting.state("worker/2") == "exited"
    assert reporting.look(5) == {CHIEF: 5, PS: 0, OTHER: 1}


def test_a_change_that_no_event_reported_is_seen_within_a_minute(reporting: Reporting) -> None:
    reporting.lab.hosts[OTHER].exits("worker/2", 1)
    reporting.look(FULL_LOOK - 4)  # it was asked some seconds before
    assert reporting.state("worker/2") == "running"
    reporting.look()
    assert reporting.state("worker/2") == "exited"


def test_a_host_whose_stream_was_lost_is_asked_at_every_look_until_it_has_another(reporting: Reporting) -> None:
    reporting.streams[PS][0].is_open = False
    reporting.lab.hosts[PS].exits("ps/1", 1)
    assert reporting.look(10)[PS] == 10
    assert reporting.state("ps/1") == "exited"
    reporting.look(FULL_LOOK)
    assert len(reporting.streams[PS]) == 2, "and not one for each look"
    assert reporting.look(20)[PS] == 0


def test_a_host_that_does_not_answer_is_asked_again_and_reported(reporting: Reporting) -> None:
    reporting.lab.hosts[PS].failure = Unreachable(PS, "no answer")
    reporting.streams[PS][0].is_open = False
    assert reporting.look(3)[PS] == 3
    assert set(reporting.seen.unreachable) == {PS}
    assert any(note.startswith("h1 cannot be reached since") for note in reporting.lab.report.notes)
    reporting.lab.hosts[PS].failure = None
    reporting.look(2)
    assert not reporting.seen.unreachable


def test_a_quiet_host_that_does_not_answer_is_due_at_once(reporting: Reporting) -> None:
    hosts = ChangedHosts(reporting.context)
    while hosts.is_due(OTHER):
        hosts.before_look(OTHER)
    hosts.failed(OTHER)
    assert hosts.is_due(OTHER)


def test_a_host_that_reports_nothing_is_asked_at_every_look() -> None:
    made = Reporting()
    made.refused = {OTHER}
    made.look(10)
    assert made.look(50)[OTHER] == 50
    made.refused.clear()
    made.look(20)
    assert made.look(10)[OTHER] == 0, "it was tried again"


def test_the_live_view_asks_where_something_has_happened_and_changes_nothing() -> None:
    made = Reporting()
    view = LiveOverview(made.context, "lab")

    def read(times: int = 1) -> Mapping[str, int]:
        before = {host: runtime.looks for host, runtime in made.counted.items()}
        for _ in range(times):
            made.lab.clock.sleep(2)
            seen.append(view.read(10.0))
        return {host: runtime.looks - before[host] for host, runtime in made.counted.items()}

    def state(task: str) -> str:
        return next(row.state for row in seen[-1].status.rows if row.task == task)

    seen: list[Overview] = []
    read(10)
    assert read(5) == {CHIEF: 5, PS: 0, OTHER: 0}
    made.lab.hosts[OTHER].exits("worker/2", 1)
    made.streams[OTHER][0].changed = True
    assert read() == {CHIEF: 1, PS: 0, OTHER: 1}
    assert state("worker/2") == "failed"
    assert [host.ended for host in made.counted.values()] == [0, 0, 0]
    view.close()
    assert not any(stream.is_open for streams in made.streams.values() for stream in streams)


def test_a_host_that_is_lost_is_shown_by_the_live_view_and_asked_at_every_reading() -> None:
    made = Reporting()
    with closing(LiveOverview(made.context, "lab")) as view:
        for _ in range(10):
            made.lab.clock.sleep(2)
            view.read(10.0)
        made.lab.cut(OTHER)
        made.streams[OTHER][0].is_open = False
        before = made.counted[OTHER].looks
        assert [set(view.read(10.0).status.unreachable) for _ in range(3)] == [{OTHER}] * 3
        assert made.counted[OTHER].looks == before + 3
        made.lab.hosts[OTHER].failure = None
        assert not view.read(10.0).status.unreachable
    assert not made.lab.report.notes, "the screen is the view's"


def test_the_host_of_a_task_that_failed_twice_in_the_same_way_ends_its_restarts(reporting: Reporting) -> None:
    """Supervisors do so themselves; an engine starts the task again and again."""
    task, ended = reporting.lab.hosts[OTHER].places["worker/2"], []
    for restarts in (1, 2):
        words = "ModuleNotFoundError: No module named 'no_such'"
        task.observed = replace(task.observed, restarts=restarts, last_exit=1, last_words=words)
        reporting.streams[OTHER][0].changed = True
        reporting.look(2)
        ended.append([host.ended for host in reporting.counted.values()])
    assert ended == [[0, 0, 0], [0, 0, 1]]
    assert reporting.lab.hosts[OTHER].calls[-1] == "end-restarts worker/2"


def test_streams_end_with_the_watch(reporting: Reporting) -> None:
    reporting.watch.close()
    assert not any(stream.is_open for streams in reporting.streams.values() for stream in streams)


def test_a_stream_that_opens_after_the_end_is_closed_at_once() -> None:
    made = Reporting()
    hosts = ChangedHosts(made.context)

    def open_streams(host: str) -> list[bool]:
        for _ in range(5):
            hosts.before_look(host)
        return [stream.is_open for stream in made.streams[host]]

    assert open_streams(PS) == [True]
    hosts.close()
    assert [stream.is_open for stream in made.streams[PS]] == [False]
    assert open_streams(OTHER) == [False]


def test_a_training_ends_by_the_failure_of_a_quiet_host() -> None:
    made = Reporting()

    def fail() -> None:
        made.lab.hosts[PS].exits("ps/0", 1)
        made.streams[PS][0].changed = True

    with pytest.raises(TaskFailed, match=r"^ps/0: .*the training cannot go on without its variables"):
        follow_with_steps(made.context, *[lambda: None] * 20, fail)
    assert made.counted[PS].looks < 15
    assert not made.streams[PS][0].is_open

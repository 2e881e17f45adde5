"""How fast the tasks of a training are by their own word, who stands still, and where the variables are."""

import io
import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tests.support.event_files import event
from tests.support.memory_lab import INVENTORY, MemoryLab
from tests.support.waiting import LONG
from tfprov.cli.watch import status_lines
from tfprov.engine.concurrency import Clock
from tfprov.engine.monitoring.overview import LiveOverview
from tfprov.engine.monitoring.status import PlacedVariable, Placement, Row, placement, status
from tfprov.engine.monitoring.straggler_monitor import Straggler, StragglerMonitor, Stragglers
from tfprov.engine.monitoring.task_progress import Pace, last_step_back, parse, settled, slowest
from tfprov.engine.observe import observe
from tfprov.errors import HostError, TaskFailed, Unreachable
from tfprov.formats.tfrecord import write_record
from tfprov.hosts.memory import MemoryRuntime
from tfprov.model.state import Observed, State

HOST_OF = {"worker/0": "h2", "worker/1": "h2", "worker/2": "h3", "worker/3": "h3"}


def progress_json(task: str, **changes: Any) -> bytes:
    """Return a progress file as tfprov's runtime writes it."""
    known = {"task": task, "step": 400, "steps": 100, "rate": 10.0, "examples_rate": 640.0, "at": 5.0}
    return json.dumps({**known, "resumed": None, "lost": None, **changes}).encode()


def pace(steps: int, rate: float | None = 1.0, at: float = 5.0) -> Pace:
    return Pace(step=steps, steps=steps, rate=rate, examples_rate=None, at=at)


# --- what a task says ------------------------------------------------------------------------------------------------


def test_what_a_task_writes_is_read_with_every_field() -> None:
    parsed = parse(progress_json("worker/1", resumed=401, lost=448, examples_rate=None), "worker/1")
    assert parsed == Pace(400, 100, 10.0, None, 5.0, resumed=401, lost=448)
    assert parsed is not None
    assert parsed.step_back == (448, 401)
    others = [
        replace(parsed, lost=lost, resumed=resumed) for lost, resumed in ((401, 401), (None, 1), (1, None), (0, 1))
    ]
    assert [one.step_back for one in others] == [None] * 4
    versions = {"2.18.0": "2.18.0", "x" * 40: "x" * 40, "x" * 41: "", "2 18": "", 2: ""}
    read = [parse(progress_json("worker/1", tensorflow=version), "worker/1") for version in versions]
    assert [one and one.tensorflow for one in read] == list(versions.values())


def test_the_last_step_back_is_the_chiefs_or_the_newest() -> None:
    behind = replace(pace(1), lost=9, resumed=4)
    paces = {"worker/1": behind, "worker/2": replace(behind, at=6.0, lost=8), "worker/0": pace(1, at=7.0)}
    assert last_step_back(paces, "worker/0") == ("worker/2", 8, 4)
    assert last_step_back(paces, "worker/1") == ("worker/1", 9, 4)
    assert last_step_back({"worker/0": pace(1)}, "worker/0") is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"\xff",
        b"[" * 4096,
        progress_json("worker/0"),
        progress_json("worker/1", step="7"),
        progress_json("worker/1", steps=True),
        progress_json("worker/1", at=None),
        b'{"task": "worker/1"}',
        progress_json("worker/1").replace(b"5.0", b"NaN"),
    ],
    ids=["empty", "a list", "no text", "deep", "another's", "text", "bool", "no time", "half", "nan"],
)
def test_a_file_that_is_not_the_tasks_own_word_says_nothing(data: bytes) -> None:
    assert parse(data, "worker/1") is None


def test_the_slowest_is_compared_with_the_median() -> None:
    slow = slowest({"a": pace(1, 8.0), "b": pace(1, 2.0), "c": pace(1, 10.0), "d": pace(1, None)})
    assert slow is not None
    assert (slow.task, slow.rate, slow.median, slow.tasks) == ("b", 2.0, 8.0, 3)
    assert slowest({"a": pace(1, 8.0), "d": pace(1, None)}) is None


def test_a_task_without_recent_progress_is_the_slowest() -> None:
    slow = slowest({"a": pace(1, 99.0, at=100.0), "b": pace(1, 2.0, at=150.0)})
    assert slow is not None
    assert (slow.task, slow.rate) == ("a", 0.0)


def test_a_task_is_compared_once_it_has_a_history() -> None:
    rows = {(0, 5.0): False, (19, 29.0): False, (20, 3.0): True, (1, 30.0): True, (0, 30.0): True, (3, None): False}
    assert {case: settled(pace(case[0]), case[1]) for case in rows} == rows


# --- status ----------------------------------------------------------------------------------------------------------


def test_status_has_every_tasks_own_speed_the_slowest_and_the_lost_steps() -> None:
    memory_lab = MemoryLab()
    for task, rate in (("worker/0", 8.0), ("worker/1", 10.0), ("worker/2", 2.0)):
        memory_lab.hosts[HOST_OF[task]].saves(
            task, "progress.json", progress_json(task, rate=rate, resumed=401, lost=448)
        )
    report = status(memory_lab.context, now=10.0)
    rates = {row.task: row.pace and row.pace.rate for row in report.rows}
    assert rates == {
        "ps/0": None, "ps/1": None, "worker/0": 8.0, "worker/1": 10.0, "worker/2": 2.0, "worker/3": None
    }  # fmt: skip
    said_all = report.to_dict()
    assert said_all["slowest"] == {"task": "worker/2", "rate": 2.0, "median": 8.0, "tasks": 3}
    assert said_all["went_back"] == {"task": "worker/0", "lost": 448, "resumed": 401}
    assert said_all["examples_rate"] == 3 * 640.0
    assert said_all["progress"]["step"] == 400, "without an event file, how far the chief is by its own word"


def test_status_has_the_steps_of_the_training_and_the_time_that_is_left() -> None:
    memory_lab = MemoryLab(text=INVENTORY.replace("[python]", "[python, main.py], flags: {max_steps: 2000}"))
    written = io.BytesIO()
    for second in range(11):
        write_record(written, event(100.0 + second, 100 + 20 * second, {"loss": 1.0}))
    memory_lab.hosts["h2"].saves("worker/0", "events.out.tfevents.1.h2", written.getvalue())
    report = status(memory_lab.context, now=10.0)
    assert (report.to_dict()["steps"], report.to_dict()["eta"]) == (2000, 85.0)
    assert report.to_dict()["progress"] == {"step": 300, "wall_time": 110.0, "steps_per_second": 20.0, "loss": 1.0}
    assert any(
        line.startswith("worker/0: step 300 of 2,000 · 15.0% · 20.0 steps/s · ") for line in status_lines(report)
    )
    assert any(" · ETA 1m 25s (" in line for line in status_lines(report))
    memory_lab.hosts["h2"].exits("worker/0", 1)
    ended = status(memory_lab.context, now=10.0)
    assert (ended.to_dict()["steps"], ended.to_dict()["eta"]) == (2000, None)
    assert replace(ended, progress=None).to_dict()["progress"] is None
    assert not any("ETA" in line for line in status_lines(ended))


def test_the_status_of_a_cluster_that_is_not_there_is_plain_data() -> None:
    memory_lab = MemoryLab(text=INVENTORY.replace("tasks_per_host: 2", "tasks_per_host: 1"))
    for host in memory_lab.hosts.values():
        host.places.clear()
    memory_lab.cut("h3")
    memory_lab.hosts["h1"].puts(Observed("ps/7", "h1", State.RUNNING, {}, id="7", started_at=4.0))
    nothing: dict[str, Any] = {"id": "", "uptime": None, "restarts": 0, "exit_code": None, "detail": ""}
    row = {**nothing, "pace": None, "log": ()}
    assert status(memory_lab.context, now=10.0).to_dict() == {
        "cluster": "lab",
        "run": "",
        "chief": "worker/0",
        "tasks": [
            {**row, "task": "ps/0", "host": "h1", "state": "absent", "address": "10.0.0.1:2222"},
            {**row, "task": "worker/0", "host": "h2", "state": "absent", "address": "10.0.0.2:2222"},
            {**row, "task": "worker/1", "host": "h3", "state": "unreachable", "address": "10.0.0.3:2222"},
            {**row, "task": "ps/7", "host": "h1", "state": "running", "address": None, "id": "7", "uptime": 6.0,
             "detail": "not in the inventory"},
        ],
        "progress": None, "steps": None, "eta": None, "examples_rate": None, "slowest": None, "went_back": None,
        "unreachable": {"h3": "no answer"},
    }  # fmt: skip


def test_each_state_of_a_task_has_its_row() -> None:
    memory_lab = MemoryLab()
    one = Observed("", "", State.RUNNING, {}, id="7", started_at=4.0)
    ended = replace(one, state=State.EXITED, exit_code=1, finished_at=5.0)
    states = {
        "ps/0": (replace(one, restarting=True, restarts=1, last_exit=3), "restarting", "ended with exit code 3"),
        "ps/1": (replace(one, unpause="docker unpause x", started_at=11.0), "paused", ""),
        "worker/0": (replace(ended, exit_code=0), "finished", ""),
        "worker/1": (replace(ended, exit_code=143, stopped=True), "stopped", ""),
        "worker/2": (replace(ended, restarts=2), "failed", "exited with code 1 after 2 restarts"),
        "worker/3": (replace(ended, state=State.LOST, exit_code=None), "lost", ""),
    }
    expected = []
    for wanted in memory_lab.context.wanted:
        task, host = wanted.task.name, wanted.task.host
        seen, state, detail = states[task]
        memory_lab.hosts[host].puts(replace(seen, task=task, host=host))
        runs = state == "paused"
        expected.append(
            Row(task, host, state, wanted.task.endpoint, "7" if runs else "", 0.0 if runs else None, seen.restarts,
                seen.exit_code, detail)
        )  # fmt: skip
    report = status(memory_lab.context, now=10.0)
    assert [replace(row, log=()) for row in report.rows] == expected
    memory_lab.hosts["h1"].puts(replace(one, task="ps/0", host="h1", restarting=True))
    assert status(memory_lab.context, now=10.0).rows[0].detail == "", "nobody knows how it ended"


class Machines:
    """Two hosts whose workers report every second, by clocks that are `ahead` of this machine's by so many seconds."""

    def __init__(self, ahead: Mapping[str, float]) -> None:
        self.lab, self.ahead, self.asked = MemoryLab(), ahead, 0
        self.lab.clock.time = 10_000.0
        for host, seconds in ahead.items():
            self.lab.hosts[host].answer = partial(self.date, seconds)

    def date(self, ahead: float, argv: Sequence[str]) -> tuple[int, str]:
        assert argv[0] == "date"
        self.asked += 1
        return 0, f"{self.lab.context.clock.wall() + ahead:.9f}\n"

    def reports(self, task: str, rate: float, ago: float = 0.0) -> None:
        host = HOST_OF[task]
        at = self.lab.context.clock.wall() + self.ahead[host] - ago
        self.lab.hosts[host].saves(task, "progress.json", progress_json(task, rate=rate, at=at))

    def slowest(self) -> str | None:
        slowest = status(self.lab.context, now=self.lab.context.clock.wall()).slowest
        return f"{slowest.task} {slowest.rate:g}" if slowest is not None else None


@pytest.mark.parametrize("ahead", [{"h2": 0.0, "h3": -300.0}, {"h2": 3600.0, "h3": 0.0}], ids=["behind", "ahead"])
def test_a_task_whose_host_has_another_time_is_not_silent(ahead: Mapping[str, float]) -> None:
    machines = Machines(ahead)
    for task, rate in (("worker/0", 8.0), ("worker/1", 2.0), ("worker/2", 10.0)):
        machines.reports(task, rate)
    assert machines.slowest() == "worker/1 2"
    machines.reports("worker/0", 8.0, ago=60.0)
    assert machines.slowest() == "worker/0 0"


def test_no_host_is_asked_for_its_time_while_no_task_is_silent() -> None:
    machines = Machines({"h2": 0.0, "h3": -20.0})
    machines.reports("worker/0", 8.0)
    machines.reports("worker/2", 10.0)
    assert (machines.slowest(), machines.asked) == ("worker/0 8", 0)


def test_a_host_without_a_clock_counts_as_one_of_this_time() -> None:
    machines = Machines({"h2": 0.0, "h3": -60.0})
    machines.reports("worker/0", 8.0)
    machines.reports("worker/2", 10.0)
    machines.lab.hosts["h3"].answer = lambda _: (127, "date: not here")
    assert machines.slowest() == "worker/2 0"


def test_a_live_view_asks_each_host_once_for_its_time() -> None:
    machines = Machines({"h2": 0.0, "h3": -60.0})
    machines.reports("worker/0", 8.0)
    machines.reports("worker/2", 10.0)
    with closing(LiveOverview(machines.lab.context, "lab")) as view:
        seen = [view.read(machines.lab.context.clock.wall()).status.slowest for _ in range(3)]
    assert [one and (one.task, one.rate) for one in seen] == [("worker/0", 8.0)] * 3
    assert machines.asked == 2


def test_a_restarted_task_is_not_the_slowest() -> None:
    memory_lab = MemoryLab()
    for host in memory_lab.hosts.values():
        for place in host.places.values():
            place.observed = replace(place.observed, started_at=1.0)
    for task, steps, rate in (("worker/0", 100, 8.0), ("worker/1", 100, 10.0), ("worker/2", 1, 0.0)):
        memory_lab.hosts[HOST_OF[task]].saves(task, "progress.json", progress_json(task, rate=rate, steps=steps))
    slowest_tasks = [status(memory_lab.context, now=now).slowest for now in (10.0, 31.0)]
    assert [one and one.task for one in slowest_tasks] == ["worker/0", "worker/2"]


def test_progress_from_before_a_restart_is_ignored() -> None:
    memory_lab = MemoryLab(text=INVENTORY.replace("restart: never", "restart: on-failure"))
    host = memory_lab.hosts["h2"]
    host.saves("worker/0", "progress.json", progress_json("worker/0"))
    host.now = 60.0
    host.exits("worker/0", 1)
    row = next(row for row in status(memory_lab.context, now=70.0).rows if row.task == "worker/0")
    assert (row.state, row.restarts, row.pace) == ("running", 1, None)


def test_a_task_that_fails_again_and_again_is_shown_with_the_end_of_its_log() -> None:
    memory_lab = MemoryLab(text=INVENTORY.replace("restart: never", "restart: on-failure, max_restarts: 2"))
    memory_lab.hosts["h3"].prints("worker/2", *(f"line {n}" for n in range(30)))
    for _ in range(3):
        memory_lab.hosts["h3"].exits("worker/2", 4)
    row = next(row for row in status(memory_lab.context, now=1.0).rows if row.task == "worker/2")
    assert (row.state, row.detail) == ("failed", "exited with code 4 after 2 restarts")
    assert row.log == tuple(f"line {n}" for n in range(10, 30))


def test_a_lost_host_costs_status_its_own_tasks_only() -> None:
    memory_lab = MemoryLab()
    memory_lab.hosts["h2"].saves("worker/0", "progress.json", progress_json("worker/0"))
    memory_lab.cut("h3")
    report = status(memory_lab.context, now=10.0)
    assert set(report.unreachable) == {"h3"}
    assert next(row.pace for row in report.rows if row.task == "worker/0") is not None


# --- stragglers ------------------------------------------------------------------------------------------------------


def judged(moves: dict[str, list[int]], every: float = 10.0, rate: float | None = 1.0) -> list[list[Straggler]]:
    """Return what each reading has, `every` seconds apart; -1 stands for a reading that failed."""
    judge = Stragglers(every)
    count = max(map(len, moves.values()))
    return [
        judge.update({task: pace(steps[n], rate) for task, steps in moves.items() if steps[n] >= 0}, n * every)
        for n in range(count)
    ]


def test_a_straggler_is_reported_once() -> None:
    findings = judged({"a": [5, 5, 5, 5, 5, 5], "b": [1, 2, 3, 4, 5, 6]})
    assert [[one.task for one in each] for each in findings] == [[], [], [], ["a"], [], []]
    assert findings[3] == [Straggler("a", 30.0, 1.0)]


def test_a_straggler_that_made_a_step_can_be_reported_again() -> None:
    findings = judged({"a": [5, 5, 5, 5, 6, 6, 6, 6], "b": [1, 2, 3, 4, 5, 6, 7, 8]})
    assert [n for n, each in enumerate(findings) if each] == [3, 7]


def test_where_nobody_steps_nobody_is_behind() -> None:
    assert not any(judged({"a": [5] * 20, "b": [7] * 20}))
    stopped_together = judged({"a": [1, *[2] * 20], "b": [1, *[2] * 20]})
    assert not any(stopped_together)


def test_others_must_have_stepped_in_the_later_half_of_the_standstill_and_lately() -> None:
    for last, reported in ((1, []), (2, [3])):
        moves = {"a": [5] * 6, "b": [min(n, last) for n in range(6)]}
        assert [n for n, each in enumerate(judged(moves)) if each] == reported, last
    for last, reported in ((6, []), (7, [10])):
        moves = {"a": [5] * 12, "b": [min(n, last) for n in range(12)]}
        assert [n for n, each in enumerate(judged(moves, rate=0.1)) if each] == reported, last
    assert judged({"a": [5] * 4, "b": list(range(4))}, rate=None)[3] == [Straggler("a", 30.0, 0.0)], "no rate is known"


def test_slow_steps_take_longer_to_stand_still() -> None:
    moves = {"a": [5] * 12, "b": list(range(12))}
    assert [n for n, each in enumerate(judged(moves, rate=0.1)) if each] == [10], "ten steps of ten seconds"


def test_the_first_step_after_a_start_may_take_longer() -> None:
    others = list(range(20))
    assert [n for n, each in enumerate(judged({"a": [0] * 20, "b": others})) if each] == [12]
    started_again = [7, 8, *[0] * 18]
    assert [n for n, each in enumerate(judged({"a": started_again, "b": others})) if each] == [14]


def test_the_time_in_which_a_task_could_not_be_read_does_not_count() -> None:
    moves = {"a": [5, 5, -1, -1, -1, -1, 5, 5, 5, 5], "b": list(range(10))}
    assert [n for n, each in enumerate(judged(moves)) if each] == [9]
    two_failed = {"a": [5, 5, -1, -1, 5, 5], "b": list(range(6))}
    assert [n for n, each in enumerate(judged(two_failed)) if each] == [4], "a reading or two may fail"


# --- looking out while a training is followed ------------------------------------------------------------------------


class Steps:
    """Moves the clock, and the workers on, reading by reading."""

    def __init__(self, memory_lab: MemoryLab, lookout: StragglerMonitor) -> None:
        self.lab, self.lookout = memory_lab, lookout
        self.steps = 0

    def __call__(self, *moving: str) -> None:
        self.steps += 1
        self.lab.clock.sleep(10)
        for task in moving:
            self.lab.hosts[HOST_OF[task]].saves(task, "progress.json", progress_json(task, steps=self.steps))
        for _ in range(2):  # one asks, the next takes the answers
            self.lookout.look(observe(self.lab.context, tolerant=True))


def test_a_straggler_is_named_and_its_stacks_are_taken_once() -> None:
    memory_lab = MemoryLab()
    with StragglerMonitor(memory_lab.context) as lookout:
        step = Steps(memory_lab, lookout)
        step(*HOST_OF)
        for _ in range(5):
            step("worker/0", "worker/2", "worker/3")
        assert memory_lab.report.notes
        for _ in range(3):
            step("worker/0", "worker/2", "worker/3")
    (note,) = memory_lab.report.notes
    assert note == (
        "worker/1 on h2 has made no step for 30 s while others do (a step takes 0.1 s); "
        "its stacks are in `tfprov logs worker/1`"
    )
    assert [call for host in memory_lab.hosts.values() for call in host.calls if "signal" in call] == [
        "signal worker/1 SIGUSR1"
    ]


def test_a_program_that_does_not_handle_the_signal_is_named_all_the_same() -> None:
    memory_lab = MemoryLab()
    memory_lab.hosts["h2"].handled.clear()
    with StragglerMonitor(memory_lab.context) as lookout:
        step = Steps(memory_lab, lookout)
        step(*HOST_OF)
        for _ in range(4):
            step("worker/0", "worker/2", "worker/3")
        assert memory_lab.report.notes
    assert memory_lab.report.notes[0].endswith("; its program handles no SIGUSR1, so its stacks cannot be had")


def test_a_straggler_whose_host_is_lost_is_named_all_the_same() -> None:
    memory_lab = MemoryLab()
    memory_lab.hosts["h2"].refuses["signal worker/1 SIGUSR1"] = "its engine does not answer"
    with StragglerMonitor(memory_lab.context) as lookout:
        step = Steps(memory_lab, lookout)
        step(*HOST_OF)
        for _ in range(4):
            step("worker/0", "worker/2", "worker/3")
    assert memory_lab.report.notes[0].endswith("; its stacks cannot be had: its engine does not answer")


def test_a_straggler_whose_host_answers_after_the_end_of_the_training_is_not_reported() -> None:
    class Slow(MemoryRuntime):
        def signal(self, task: str, name: str) -> bool:
            lookout.close()  # the training ends before the answer
            return super().signal(task, name)

    memory_lab = MemoryLab(hosts=[Slow("h2")])
    with StragglerMonitor(memory_lab.context) as lookout:
        step = Steps(memory_lab, lookout)
        step(*HOST_OF)
        for _ in range(4):
            step("worker/0", "worker/2", "worker/3")
    assert "signal worker/1 SIGUSR1" in memory_lab.hosts["h2"].calls
    assert memory_lab.report.notes == []


def test_the_files_of_tasks_are_read_once_in_ten_seconds_and_later_in_a_large_cluster() -> None:
    class Counting(MemoryRuntime):
        reads = 0

        def tail(self, task: str, name: str, size: int) -> bytes:
            self.reads += 1
            return super().tail(task, name, size)

    host = Counting("h3")
    memory_lab = MemoryLab(hosts=[host])
    many = replace(memory_lab.context, wanted=memory_lab.context.wanted * 20)
    for context, times in ((memory_lab.context, (0.0, 9.9, 10.0, 19.9, 20.0)), (many, (0.0, 11.9, 12.0, 23.9, 24.0))):
        lookout, host.reads, begin = StragglerMonitor(context), 0, memory_lab.clock.time
        seen = observe(context)
        reads = []
        for time in times:
            memory_lab.clock.time = begin + time
            lookout.look(seen)
            reads.append(host.reads)
        each = reads[0]
        assert each, times
        assert reads == [each, each, 2 * each, 2 * each, 3 * each], times


def test_lost_steps_are_reported_once() -> None:
    memory_lab = MemoryLab()
    with StragglerMonitor(memory_lab.context) as lookout:
        step = Steps(memory_lab, lookout)
        step("worker/0")
        memory_lab.hosts["h2"].saves("worker/0", "progress.json", progress_json("worker/0", resumed=401, lost=448))
        for _ in range(3):
            step()
    assert memory_lab.report.notes == ["the training went back 448 -> 401"]


def test_a_host_that_does_not_answer_holds_nobody_up() -> None:
    was_asked, let_go, ended = threading.Event(), threading.Event(), list[bool]()

    class Stuck(MemoryRuntime):
        def tail(self, task: str, name: str, size: int) -> bytes:
            was_asked.set()
            ended.append(let_go.wait(LONG))
            raise Unreachable(self.host, "no answer")

    memory_lab = MemoryLab()
    context = replace(memory_lab.context, runtimes={**memory_lab.hosts, "h3": Stuck("h3")}, clock=Clock())
    try:
        with StragglerMonitor(context) as lookout:
            for _ in range(5):
                lookout.look(observe(memory_lab.context))
                assert was_asked.wait(LONG)
        assert ended == [], "it has not answered yet"
    finally:
        let_go.set()


# --- where the variables are -----------------------------------------------------------------------------------------

PLACED = {
    "variables": [
        {"name": "W", "device": "/job:ps/task:1", "shape": [784, 10], "bytes": 31360},
        {"name": "b", "device": "/job:ps/replica:0/task:0/device:CPU:0", "shape": [10], "bytes": 40},
        {"name": "global_step", "device": "/job:ps/task:0", "shape": [], "bytes": 8},
        {"name": "here", "device": "", "shape": [None], "bytes": 4},
        {"name": "open", "device": "", "shape": None, "bytes": 0},
    ]
}


def test_the_placement_has_the_task_of_each_variable() -> None:
    memory_lab = MemoryLab()
    memory_lab.hosts["h2"].saves("worker/0", "placement.json", json.dumps(PLACED).encode())
    variables = placement(memory_lab.context)
    in_order = Placement(
        tuple(PlacedVariable(task, task, "", (), 1) for task in ("ps/10", "worker/0", "ps/9", "chief"))
    )
    assert list(in_order.shares) == ["chief", "ps/9", "ps/10", "worker/0"]
    assert {task: (share.variables, share.bytes) for task, share in variables.shares.items()} == {
        "": (2, 4), "ps/0": (2, 48), "ps/1": (1, 31360)
    }  # fmt: skip
    assert variables.to_dict() == {
        "variables": [
            {"name": "W", "task": "ps/1", "device": "/job:ps/task:1", "shape": (784, 10), "bytes": 31360},
            {
                "name": "b",
                "task": "ps/0",
                "device": "/job:ps/replica:0/task:0/device:CPU:0",
                "shape": (10,),
                "bytes": 40,
            },
            {"name": "global_step", "task": "ps/0", "device": "/job:ps/task:0", "shape": (), "bytes": 8},
            {"name": "here", "task": "", "device": "", "shape": (None,), "bytes": 4},
            {"name": "open", "task": "", "device": "", "shape": None, "bytes": 0},
        ],
        "tasks": {
            "": {"variables": 2, "bytes": 4},
            "ps/0": {"variables": 2, "bytes": 48},
            "ps/1": {"variables": 1, "bytes": 31360},
        },
    }


def test_a_model_that_is_not_ready_has_no_placement_and_a_foreign_file_is_none() -> None:
    memory_lab = MemoryLab()
    with pytest.raises(TaskFailed) as unwritten:
        placement(memory_lab.context)
    assert str(unwritten.value) == (
        "worker/0: has not written placement.json yet; its program says where the variables are once its model is ready, "
        "if it uses tfprov.runtime"
    )
    memory_lab.hosts["h2"].saves("worker/0", "placement.json", b'{"else": 1}')
    with pytest.raises(HostError) as foreign:
        placement(memory_lab.context)
    assert str(foreign.value) == "h2: the placement.json of worker/0 is not one of tfprov's runtime: 'variables'"

"""When a cluster has come up, the error when it does not, and what following a training bears."""

import re
import signal
import sys
import threading
from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import cast

import pytest

from tests.support.memory_cluster import make_context
from tests.support.memory_lab import INVENTORY, MemoryLab
from tests.support.reporters import RecordingReporter
from tests.support.waiting import LONG, until
from tfprov.engine.concurrency import Clock
from tfprov.engine.context import Context
from tfprov.engine.monitoring.follow import follow
from tfprov.engine.monitoring.logs import log_lines, logs
from tfprov.engine.monitoring.readiness import Peers, Probe, Probes, awaited, needs_port, wait_serving
from tfprov.engine.observe import observe
from tfprov.errors import TakenDown, TaskFailed, TfprovError, Unreachable
from tfprov.hosts.log_lines import LogTimes
from tfprov.hosts.memory import MemoryRuntime
from tfprov.model.cluster import Task
from tfprov.model.state import Container, HostState, Observed, State

# --- joined ----------------------------------------------------------------------------------------------------------


def needed(memory_lab: MemoryLab, task: str, context: Context | None = None) -> set[tuple[str, str]]:
    context = context or memory_lab.context
    container = context.container(task)
    assert container is not None
    finished = {(one.task, one.host) for one in observe(memory_lab.context).containers() if one.finished}
    return {(probe.host, probe.task.name) for probe in Peers(context).of(container, finished)}


def test_a_worker_needs_the_ps_and_with_tf_config_everyone_else() -> None:
    assert needed(MemoryLab("flags"), "worker/1") == {("h2", "ps/0"), ("h2", "ps/1")}
    others = {"ps/0", "ps/1", "worker/0", "worker/2", "worker/3"}
    assert needed(MemoryLab("tf_config"), "worker/1") == {("h2", task) for task in others}
    assert needed(MemoryLab("tf_config"), "ps/0") == set()
    context = MemoryLab("tf_config").context
    unwired = replace(context.wanted[2], spec={})
    assert [probe.task.name for probe in Peers(context).of(unwired, set())] == ["ps/0", "ps/1"]


def test_nobody_waits_for_what_is_left_out_has_finished_or_need_not_listen() -> None:
    memory_lab = MemoryLab("tf_config")
    memory_lab.hosts["h3"].exits("worker/3")
    assert ("h2", "worker/3") not in needed(memory_lab, "worker/0")
    assert needed(memory_lab, "worker/0", memory_lab.context.limited(["h2"])) == {("h2", "worker/1")}
    started = MemoryLab(
        "tf_config", INVENTORY.replace("vars: {tfprov: {tasks_per_host: 2}}}", "vars: {tfprov: {ready: start}}}", 1)
    )
    assert needed(started, "worker/0") == {("h2", "worker/1"), ("h2", "worker/2"), ("h2", "worker/3")}


class Counting(MemoryRuntime):
    """Counts who is asked for from it."""

    asked: list[str]

    def is_serving(self, task: Task) -> bool:
        self.asked.append(task.name)
        return super().is_serving(task)


def counted(memory_lab: MemoryLab) -> dict[str, Counting]:
    actual = {}
    for name, host in memory_lab.hosts.items():
        actual[name] = Counting(name)
        actual[name].__dict__ |= host.__dict__
        actual[name].asked = []
    memory_lab.hosts.update(actual)
    return actual


def test_workers_of_one_host_share_a_probe() -> None:
    memory_lab = MemoryLab()
    hosts = counted(memory_lab)
    wait_serving(memory_lab.context, 10)
    assert {name: sorted(host.asked) for name, host in hosts.items()} == {
        "h1": ["ps/0", "ps/1"],
        "h2": ["ps/0", "ps/1", "worker/0", "worker/1"],
        "h3": ["ps/0", "ps/1", "worker/2", "worker/3"],
    }


def test_peers_of_a_ps_that_does_not_serve_are_not_probed() -> None:
    memory_lab = MemoryLab()
    hosts = counted(memory_lab)
    memory_lab.hosts["h1"].silent.add("ps/1")
    memory_lab.fails()
    assert not {"ps/1"} & {*hosts["h2"].asked, *hosts["h3"].asked}


def test_what_is_waited_for_is_reported_while_it_is() -> None:
    memory_lab = MemoryLab()
    memory_lab.hosts["h1"].silent |= {"ps/0", "ps/1"}
    memory_lab.hosts["h3"].silent |= {"worker/2", "worker/3"}
    memory_lab.fails()
    names = "ps/0, ps/1, worker/2 and 1 more"
    assert memory_lab.report.awaited[-2:] == [f"waiting for {names} to import TensorFlow and serve", ""]
    memory_lab.report.awaited.clear()
    for host in memory_lab.hosts.values():
        host.silent.clear()
    memory_lab.hosts["h3"].walled.add("ps/1")
    memory_lab.fails()
    assert memory_lab.report.awaited[-2:] == ["waiting for worker/2 to reach ps/1", ""]


def test_a_peer_that_cannot_be_reached_is_named_with_its_address() -> None:
    memory_lab = MemoryLab()
    memory_lab.hosts["h3"].walled.add("ps/1")
    assert str(memory_lab.fails()) == (
        "worker/2: cannot reach ps/1 at 10.0.0.1:2223 from h3 after 2 s; does a firewall stand between them?"
    )


def test_a_ps_that_does_not_serve_is_named_and_not_the_workers_that_wait_for_it() -> None:
    memory_lab = MemoryLab()
    memory_lab.hosts["h1"].silent.add("ps/1")
    memory_lab.hosts["h1"].prints("ps/1", "still importing")
    assert str(memory_lab.fails()) == (
        "ps/1: does not serve on 10.0.0.1:2223 after 2 s; a program that serves on no port needs `ready: start`, "
        "and one that takes longer to serve a larger `start_timeout`\n  ps/1 | still importing"
    )


def test_a_worker_with_less_time_than_its_ps_names_the_ps() -> None:
    memory_lab = MemoryLab()
    memory_lab.hosts["h1"].silent.add("ps/1")
    wanted = tuple(replace(c, start_timeout=60 if c.task.job == "ps" else 2) for c in memory_lab.context.wanted)
    with pytest.raises(
        TaskFailed,
        match=r"^ps/1: does not serve on 10\.0\.0\.1:2223 after 2 s; a program that serves on no port needs "
        r"`ready: start`, and one that takes longer to serve a larger `start_timeout`$",
    ):
        wait_serving(replace(memory_lab.context, wanted=wanted))


def test_tensorflow_says_itself_whom_it_waits_for() -> None:
    memory_lab = MemoryLab()
    memory_lab.hosts["h2"].silent.add("worker/0")
    line = "I ... CreateSession still waiting for response from worker: /job:ps/replica:0/task:1"
    memory_lab.hosts["h2"].prints("worker/0", line, "x", line, line.replace("task:1", "task:0"))
    assert "after 2 s (TensorFlow there waits for ps/1, ps/0)" in str(memory_lab.fails())


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        ([], []),
        (["CreateSession still waiting for response from worker: /job:ps/replica:0/task:10"], ["ps/10"]),
        (["waiting for response from worker: /job:ps/replica:0/task:1"], []),
        (["CreateSession still waiting for response from worker: nobody"], []),
    ],
)
def test_only_tensorflows_own_line_counts(lines: list[str], names: list[str]) -> None:
    assert awaited(lines) == names


def test_a_task_that_ends_badly_is_reported_at_once_with_its_last_lines() -> None:
    memory_lab = MemoryLab()
    memory_lab.hosts["h1"].silent.add("ps/0")
    memory_lab.hosts["h3"].prints("worker/3", *(f"line {n}" for n in range(30)))
    memory_lab.hosts["h3"].exits("worker/3", 5)
    error = memory_lab.fails(timeout=600)
    assert error.task == "worker/3"
    assert len(error.log) == 20
    assert str(error).endswith("worker/3 | line 29")


def test_a_task_that_nobody_started_is_reported_at_once() -> None:
    memory_lab = MemoryLab()
    del memory_lab.hosts["h3"].places["worker/3"]
    assert str(memory_lab.fails(600)) == "worker/3: is not there on h3; start it with `tfprov up`"
    assert memory_lab.clock.time < 1


def test_a_training_that_is_over_is_waited_for_no_longer() -> None:
    memory_lab = MemoryLab()
    memory_lab.hosts["h3"].silent.add("worker/2")
    assert memory_lab.fails().task == "worker/2", "as long as the chief trains"
    memory_lab.hosts["h2"].exits("worker/0")
    memory_lab.clock.time = 0.0
    wait_serving(memory_lab.context, 600)
    assert memory_lab.clock.time < 10


def test_a_host_that_is_lost_for_a_moment_does_not_end_the_start() -> None:
    memory_lab = MemoryLab()
    memory_lab.cut("h3")
    memory_lab.clock.at(20, lambda: setattr(memory_lab.hosts["h3"], "failure", None))
    wait_serving(memory_lab.context, 60, patience=30)
    assert 20 <= memory_lab.clock.time < 25, "it went on as soon as the host was back, and not before"
    assert "worker/3 serves on 10.0.0.3:2223" in memory_lab.report.notes


def test_a_host_that_stays_lost_ends_it_with_its_own_error() -> None:
    memory_lab = MemoryLab()
    memory_lab.cut("h3")
    with pytest.raises(Unreachable, match="h3: no answer"):
        wait_serving(memory_lab.context, 60, patience=30)
    assert 30 <= memory_lab.clock.time < 35


def test_a_start_bears_half_a_minute_without_a_host_and_a_training_five() -> None:
    lost_at_once = MemoryLab()
    lost_at_once.cut("h3")
    with pytest.raises(Unreachable):
        wait_serving(lost_at_once.context, 6000)
    assert 30 < lost_at_once.clock.time <= 30.5
    lost_meanwhile = MemoryLab()
    lost_meanwhile.cut("h2")
    with pytest.raises(Unreachable):
        follow(lost_meanwhile.context, 6000, with_logs=False)
    assert 300 < lost_meanwhile.clock.time <= 301


def test_one_looks_again_soon_and_then_twice_a_second() -> None:
    memory_lab, slept = MemoryLab(), []
    memory_lab.hosts["h3"].silent.add("worker/3")
    sleep = memory_lab.clock.sleep

    def noted(seconds: float) -> None:
        slept.append(round(seconds, 4))
        sleep(seconds)

    memory_lab.clock.sleep = noted  # type: ignore[method-assign]
    memory_lab.fails(timeout=4)
    assert slept[:4] == [0.1, 0.12, 0.144, 0.1728]
    assert slept[-2:] == [0.5, 0.5]


def test_a_task_that_served_and_has_gone_since_ends_the_start() -> None:
    memory_lab = MemoryLab()
    memory_lab.hosts["h3"].silent.add("worker/3")

    def goes() -> None:
        if "ps/0 serves" in memory_lab.report.notes[-1]:
            memory_lab.hosts["h1"].exits("ps/0", 1)

    memory_lab.report.on_note = goes
    with pytest.raises(TaskFailed, match="ps/0: exited with code 1"):
        wait_serving(memory_lab.context, 60)


def test_a_limit_waits_for_its_own_hosts_only() -> None:
    memory_lab = MemoryLab()
    memory_lab.hosts["h1"].silent.add("ps/0")
    memory_lab.hosts["h2"].walled.add("ps/1")
    hosts = counted(memory_lab)
    wait_serving(memory_lab.context.limited(["h2", "h3"]), 60)
    assert {name: sorted(set(host.asked)) for name, host in hosts.items()} == {
        "h1": [],
        "h2": ["worker/0", "worker/1"],
        "h3": ["worker/2", "worker/3"],
    }
    assert memory_lab.fails(60).task == "ps/0", "without the limit it is waited for"


class Counted(tuple[Container, ...]):
    """Wanted containers that count how often somebody goes through all of them."""

    times = 0

    def __iter__(self) -> Iterator[Container]:
        self.times += 1
        return super().__iter__()


def test_a_look_does_not_go_through_all_tasks_for_each_of_them() -> None:
    context = MemoryLab("flags", INVENTORY.replace("tasks_per_host: 2", "tasks_per_host: 40")).context
    wanted = Counted(context.wanted)
    wait_serving(replace(context, wanted=wanted))
    assert len(wanted) == 120
    assert wanted.times < 20


def test_a_question_that_takes_long_holds_up_no_other() -> None:
    was_asked = threading.Event()

    class Slow(MemoryRuntime):
        def is_serving(self, task: Task) -> bool:
            was_asked.wait(600)
            return True

    memory_lab = MemoryLab()
    tasks = [container.task for container in memory_lab.context.wanted]
    with Probes(replace(memory_lab.context, runtimes={**memory_lab.hosts, "h3": Slow("h3")}, clock=Clock())) as probes:
        assert not probes.answered(Probe("h3", tasks[0]))
        until(lambda: probes.answered(Probe("h2", tasks[0])))
        assert not probes.answered(Probe("h3", tasks[0]))
        was_asked.set()
        until(lambda: probes.answered(Probe("h3", tasks[0])))


def test_a_host_that_fails_to_ask_has_no_answer() -> None:
    memory_lab = MemoryLab()
    memory_lab.cut("h2")
    with Probes(memory_lab.context) as probes:
        probe = Probe("h2", memory_lab.context.wanted[0].task)
        assert not probes.answered(probe)
        assert not probes.answered(probe)
        memory_lab.hosts["h2"].failure = None
        assert not probes.answered(probe), "it is not asked again at once"
        memory_lab.clock.sleep(1)
        assert [probes.answered(probe) for _ in range(2)] == [False, True]


def test_no_probe_starts_after_the_wait() -> None:
    context = replace(MemoryLab().context, clock=Clock())
    with Probes(context) as probes:
        pass
    with pytest.raises(RuntimeError, match="after shutdown"):
        probes.answered(Probe("h1", context.wanted[0].task))


def test_probes_without_an_answer_slow_down_to_one_per_second() -> None:
    memory_lab = MemoryLab()
    hosts = counted(memory_lab)
    memory_lab.hosts["h1"].silent.add("ps/0")
    probe = Probe("h1", memory_lab.context.wanted[0].task)
    with Probes(memory_lab.context) as probes:
        for _ in range(1000):
            assert not probes.answered(probe)
            memory_lab.clock.sleep(0.01)
        requests = len(hosts["h1"].asked)
        for _ in range(1000):
            assert not probes.answered(probe)
            memory_lab.clock.sleep(0.01)
    assert 10 < requests < 17
    assert 8 < len(hosts["h1"].asked) - requests <= 10


# --- following -------------------------------------------------------------------------------------------------------


def test_following_goes_on_while_a_host_is_lost_and_ends_with_the_chief() -> None:
    memory_lab = MemoryLab()
    memory_lab.cut("h3")
    memory_lab.report.on_note = lambda: memory_lab.hosts["h2"].exits("worker/0")
    follow(memory_lab.context, 60, with_logs=False)
    note, end = memory_lab.report.notes
    assert re.fullmatch(r"h3 cannot be reached since \d\d:\d\d:\d\d: no answer", note)
    assert end == "worker/0 is done, and worker/1 still runs; `end: {wait: 60}` would wait for that"


def test_the_first_step_is_waited_for_until_the_chief_has_done_one() -> None:
    memory_lab = MemoryLab()
    memory_lab.hosts["h2"].exits("worker/0")
    follow(memory_lab.context)
    first, end = "waiting for the first step of worker/0", "waiting for worker/1, worker/2, worker/3 to end"
    assert memory_lab.report.awaited == [first, "", end, ""]


def test_a_fault_that_no_restart_repairs_is_reported_with_the_chiefs_failure() -> None:
    memory_lab = MemoryLab()
    memory_lab.hosts["h2"].saves("worker/0", "checkpoint", b'model_checkpoint_path: "/x/model.ckpt-5"')
    for name in ("model.ckpt-5.index", "model.ckpt-5.data-00000-of-00001"):
        memory_lab.hosts["h1"].saves("ps/0", name, b"weights")
    memory_lab.hosts["h2"].exits("worker/0", 1)
    with pytest.raises(
        TaskFailed,
        match=r"^worker/0: exited with code 1: its checkpoint model\.ckpt-5 lies with ps/0, where it cannot "
        r"restore it; gather it and start with `--resume`, or save with tfprov\.runtime, or with a "
        r"Saver\(sharded=False\) on the chief$",
    ):
        follow(memory_lab.context, 60, with_logs=False)


def test_a_lost_chief_is_waited_for_and_is_reported_when_it_is_back() -> None:
    memory_lab = MemoryLab()
    memory_lab.cut("h2")

    def back() -> None:
        memory_lab.report.on_note = lambda: None
        memory_lab.hosts["h2"].failure = None
        memory_lab.hosts["h2"].exits("worker/0", 3)

    memory_lab.report.on_note = back
    with pytest.raises(TaskFailed, match="worker/0: exited with code 3"):
        follow(memory_lab.context, 60, with_logs=False)
    assert memory_lab.report.notes[0].startswith("h2 cannot be reached since ")
    assert memory_lab.report.notes[1].startswith("h2 is back after ")


def test_a_chief_that_stays_lost_ends_it() -> None:
    memory_lab = MemoryLab()
    memory_lab.cut("h2")
    with pytest.raises(Unreachable, match="h2: no answer"):
        follow(memory_lab.context, 600, with_logs=False, patience=30)
    assert 30 <= memory_lab.clock.time < 35


def test_a_cluster_that_was_taken_down_meanwhile_is_gone() -> None:
    memory_lab = MemoryLab()
    memory_lab.hosts["h2"].stop("worker/0", 1)
    memory_lab.hosts["h2"].remove("worker/0")
    with pytest.raises(TfprovError, match="worker/0 is gone: somebody removed it; start it again with `tfprov up`"):
        follow(memory_lab.context, 60, with_logs=False)
    for host in memory_lab.hosts.values():
        host.places.clear()
    with pytest.raises(
        TakenDown,
        match=r"^worker/0 is gone: the cluster was taken down meanwhile; `tfprov runs` has how its training ended$",
    ):
        follow(memory_lab.context, 60, with_logs=False)


def test_a_log_that_nobody_reads_any_more_ends_nothing() -> None:
    class Closed(RecordingReporter):
        def log(self, task: str, line: str) -> None:
            raise BrokenPipeError

        def note(self, text: str) -> None:
            raise BrokenPipeError

    memory_lab = MemoryLab()
    memory_lab.hosts["h1"].prints("ps/0", "a line")
    context = replace(memory_lab.context, report=Closed())
    with logs(context):
        pass
    interrupted = Interrupted("h2")
    interrupted.__dict__ |= memory_lab.hosts["h2"].__dict__
    context = replace(context, runtimes={**memory_lab.hosts, "h2": interrupted})
    containers = [c for c in observe(context).containers() if c.task == "worker/0"]
    assert list(log_lines(context, containers, tail=None)) == []


def test_logs_that_are_not_read_to_their_end_leave_no_thread() -> None:
    class Endless(MemoryRuntime):
        def logs(
            self, task: str, *, tail: int | None = None, follow: bool = False, times: LogTimes | None = None
        ) -> Iterator[str]:
            while True:
                read.append(task)
                yield "a line"

    memory_lab, before = MemoryLab(), set(threading.enumerate())
    read: list[str] = []
    containers = [c for c in observe(memory_lab.context).containers() if c.host == "h2"]
    context = replace(memory_lab.context, runtimes={"h2": Endless("h2")})
    lines = cast("Generator[tuple[str, str]]", log_lines(context, containers, tail=None))
    next(lines)
    until(lambda: len(read) > 10_000, "the threads wait for room")
    lines.close()
    until(lambda: before.issuperset(threading.enumerate()), "they have ended")


def test_a_signal_that_comes_just_before_the_main_thread_sleeps_ends_the_logs() -> None:
    main, noticed, is_noticed = threading.get_ident(), threading.Event(), list[bool]()
    places: list[tuple[str, int]] = []

    def sleeps() -> bool:
        frame = sys._current_frames()[main]  # noqa: SLF001
        places.append((frame.f_code.co_name, frame.f_lasti))
        return places[-3:] == [("wait", frame.f_lasti)] * 3

    class Silent(MemoryRuntime):
        def logs(self, *_arguments: object, **_options: object) -> Iterator[str]:
            until(sleeps, "the main thread")
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)  # which does not wake the main thread
            is_noticed.append(noticed.wait(LONG))
            yield from ()

    memory_lab = MemoryLab()
    containers = [c for c in observe(memory_lab.context).containers() if c.task == "worker/0"]
    context = replace(memory_lab.context, runtimes={"h2": Silent("h2")})
    with pytest.raises(KeyboardInterrupt):
        list(log_lines(context, containers, tail=None))
    noticed.set()
    until(lambda: is_noticed)
    assert is_noticed == [True], "before the log goes on"


def test_a_chief_that_has_ended_is_heard_to_its_end() -> None:
    class Slow(RecordingReporter):
        """Takes longer for what is printed than the other tasks are waited for."""

        def log(self, task: str, line: str) -> None:
            threading.Event().wait(0.01)
            super().log(task, line)

    memory_lab, report = MemoryLab(), Slow()
    memory_lab.hosts["h2"].prints("worker/0", *(f"line {n}" for n in range(10)))
    memory_lab.hosts["h2"].exits("worker/0", 0)
    with logs(replace(memory_lab.context, report=report), drain=0):
        pass
    assert [line for task, line in report.lines if task == "worker/0"] == [f"line {n}" for n in range(10)]


def test_a_host_that_has_been_left_is_not_reported_as_lost() -> None:
    memory_lab, stop = MemoryLab(), threading.Event()
    interrupted = Interrupted("h2")
    interrupted.__dict__ |= memory_lab.hosts["h2"].__dict__
    interrupted.prints("worker/0", "one")
    context = replace(memory_lab.context, runtimes={**memory_lab.hosts, "h2": interrupted})
    containers = [c for c in observe(context).containers() if c.task == "worker/0"]
    stop.set()
    assert list(log_lines(context, containers, tail=None, stop=stop)) == []
    assert memory_lab.report.notes == []


class Interrupted(MemoryRuntime):
    """Its connection is lost in the middle of a log, once."""

    lost = False

    def logs(
        self, task: str, *, tail: int | None = None, follow: bool = False, times: LogTimes | None = None
    ) -> Iterator[str]:
        yield from super().logs(task, tail=tail, follow=follow, times=times)
        if not self.lost:
            self.lost = True
            raise Unreachable(self.host, "connection lost, outcome unknown: `logs`", "look at the host")
        yield "and on"


def test_a_log_goes_on_when_its_host_is_back_and_says_what_is_missing() -> None:
    memory_lab = MemoryLab()
    interrupted = Interrupted("h2")
    interrupted.__dict__ |= memory_lab.hosts["h2"].__dict__
    interrupted.prints("worker/0", "one", "two")
    context = replace(memory_lab.context, runtimes={**memory_lab.hosts, "h2": interrupted})
    containers = [c for c in observe(context).containers() if c.task == "worker/0"]
    assert [line for _, line in log_lines(context, containers, tail=None)] == ["one", "two", "and on"]
    assert memory_lab.report.notes == [
        "h2: connection lost, outcome unknown: `logs`; what its tasks print meanwhile is in `tfprov logs`"
    ]


class AwayAtFirst(MemoryRuntime):
    """Does not answer the first `away` looks, and counts them."""

    away, looks = 0, 0

    def observe(self) -> HostState:
        self.looks += 1
        if self.looks <= self.away:
            raise Unreachable(self.host, "no answer")
        return super().observe()


def test_a_host_that_was_away_at_the_first_look_has_its_logs_from_their_start_once_it_is_back() -> None:
    h2, h3 = AwayAtFirst("h2"), AwayAtFirst("h3")
    memory_lab = MemoryLab(hosts=[h2, h3])
    h2.prints("worker/0", "one", "two")
    h2.prints("worker/1", "a line of another task")
    h3.prints("worker/2", "a line of another host")
    h2.away, h2.looks, h3.looks = 2, 0, 0
    before = set(threading.enumerate())
    with logs(memory_lab.context):
        until(lambda: before.issuperset(threading.enumerate()), "every log has ended")
    assert sorted(memory_lab.report.lines) == [
        ("worker/0", "one"),
        ("worker/0", "two"),
        ("worker/1", "a line of another task"),
        ("worker/2", "a line of another host"),
    ]
    assert (h2.looks, h3.looks) == (3, 1), "only the lost host is asked again"


def test_the_end_of_a_training_does_not_wait_for_a_chief_whose_log_is_not_read() -> None:
    begun, has_ended, in_time = threading.Event(), threading.Event(), list[bool]()

    class Endless(MemoryRuntime):
        def logs(self, *_arguments: object, **_options: object) -> Iterator[str]:
            begun.set()
            in_time.append(has_ended.wait(LONG / 2))
            yield from ()

    memory_lab = MemoryLab(hosts=[Endless("h1")])
    memory_lab.cut("h2")
    with logs(memory_lab.context, drain=0, backlog=LONG):
        assert begun.wait(LONG)
    has_ended.set()
    until(lambda: in_time)
    assert in_time[0], "the log of the ps ends long before the wait for that of the chief"


@pytest.mark.parametrize(
    ("more", "task", "waits"),
    [
        ("", "worker/0", False),
        ("tensorboard: {hosts: {h2: }}\n", "worker/0", False),
        ("tensorboard: {hosts: {h2: }}\n", "tensorboard/0", True),
        ("ps: {hosts: {h1: }}\n", "worker/0", True),
        ("ps: {hosts: {h1: }, vars: {tfprov: {ready: start}}}\n", "ps/0", False),
    ],
)
def test_a_task_that_trains_alone_listens_nowhere_but_others_do(more: str, task: str, waits: bool) -> None:
    text = "all: {vars: {tfprov: {cluster: lab, command: [python]}}}\nworker: {hosts: {h2: }}\n" + more
    context = make_context(text)
    container = context.container(task)
    assert container is not None
    assert needs_port(context, container) is waits


def test_a_failed_container_of_a_task_on_another_host_fails_no_start() -> None:
    memory_lab = MemoryLab()
    memory_lab.hosts["h1"].puts(Observed("worker/3", "h1", State.EXITED, {}, exit_code=1))
    wait_serving(memory_lab.context, 60)
    assert "worker/3 serves on 10.0.0.3:2223" in memory_lab.report.notes

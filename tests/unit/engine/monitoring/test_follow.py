"""What following a training makes of tasks that their restart policy starts again, and of those over their limit."""

import io
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

import pytest

from tests.support.event_files import event
from tests.support.memory_lab import AGAIN, INVENTORY, MemoryLab, ScriptedMonitor, follow_with_steps
from tests.support.reporters import texts
from tests.support.waiting import LONG
from tfprov.engine.context import Context
from tfprov.engine.events import TaskChanged, TrainingProgress
from tfprov.engine.monitoring.follow import check_deadline, follow
from tfprov.engine.monitoring.readiness import wait_serving
from tfprov.engine.monitoring.watch import Restarts
from tfprov.engine.observe import observe
from tfprov.errors import DeadlineExceeded, TakenDown, TaskFailed, TfprovError, Unreachable
from tfprov.formats.tfrecord import write_record
from tfprov.hosts.memory import MemoryRuntime
from tfprov.hosts.usage import Usage
from tfprov.model.state import HostState, Observed, State


def with_strategy(context: Context, strategy: str) -> Context:
    wanted = tuple(replace(c, env={**c.env, "TFPROV_STRATEGY": strategy}) for c in context.wanted)
    return replace(context, wanted=wanted)


def seen(restarts: int, state: State = State.RUNNING, code: int | None = None) -> list[Observed]:
    return [Observed("worker/1", "h", state, {}, restarts=restarts, last_exit=code)]


def test_each_restart_is_reported_once_and_none_of_before() -> None:
    restarts = Restarts(lambda _task: 3)
    assert texts(restarts.update(seen(1, code=1))) == []
    assert texts(restarts.update(seen(2, code=137))) == [
        "worker/1 ended with exit code 137 and was started again (2 of 3)"
    ]
    assert texts(restarts.update(seen(2, code=137))) == []
    assert texts(restarts.update([])) == []
    assert texts(restarts.update(seen(3))) == ["worker/1 ended and was started again (3 of 3)"]
    assert texts(restarts.update(seen(3, State.EXITED))) == []
    assert texts(restarts.update(seen(0))) == [], "started anew by `up`"


def test_tasks_that_are_started_again_at_the_same_time_end_nothing() -> None:
    memory_lab = MemoryLab(text=AGAIN)

    def fall() -> None:
        memory_lab.hosts["h1"].exits("ps/0", 1)
        memory_lab.hosts["h2"].exits("worker/0", 137)
        memory_lab.hosts["h3"].exits("worker/2", 1)

    context = with_strategy(memory_lab.context, "multi_worker_mirrored")
    follow_with_steps(context, fall, lambda: memory_lab.hosts["h2"].exits("worker/0", 0))
    assert sorted(memory_lab.report.notes) == [
        "ps/0 ended with exit code 1 and was started again (1 of 2)",
        "worker/0 ended with exit code 137 and was started again (1 of 2)",
        "worker/0 is done, and worker/1, worker/2, worker/3 still run; `end: {wait: 60}` would wait for that",
        "worker/2 ended with exit code 1 and was started again (1 of 2)",
    ]


def over_its_limit(memory_lab: MemoryLab, host: str, task: str, code: int) -> None:
    for _ in range(3):
        memory_lab.hosts[host].exits(task, code)


@pytest.mark.parametrize(
    ("host", "task", "expected"),
    [
        ("h2", "worker/0", "worker/0: exited with code 5 after 2 restarts"),
        ("h1", "ps/1", "ps/1: exited with code 5 after 2 restarts: the training cannot go on without its variables"),
    ],
)
def test_a_task_that_fails_repeatedly_ends_the_run_with_its_last_lines(host: str, task: str, expected: str) -> None:
    memory_lab = MemoryLab(text=AGAIN)
    memory_lab.hosts[host].prints(task, *(f"line {n}" for n in range(30)))
    with pytest.raises(TaskFailed) as caught:
        follow_with_steps(memory_lab.context, lambda: over_its_limit(memory_lab, host, task, 5))
    assert str(caught.value).splitlines() == [expected, *(f"  {task} | line {n}" for n in range(10, 30))]
    assert caught.value.code == (5 if task == "worker/0" else 1)


def test_a_worker_over_its_limit_is_reported_with_its_last_lines_and_the_others_go_on() -> None:
    memory_lab = MemoryLab(text=AGAIN)
    memory_lab.hosts["h3"].prints("worker/3", "the reason")
    follow_with_steps(
        memory_lab.context,
        lambda: over_its_limit(memory_lab, "h3", "worker/3", 4),
        lambda: memory_lab.hosts["h2"].exits("worker/0", 0),
    )
    assert memory_lab.report.notes[-2] == (
        "worker/3: exited with code 4 after 2 restarts\n  worker/3 | the reason\nthe training goes on without worker/3"
    )


@pytest.mark.parametrize(("host", "task"), [("h2", "worker/0"), ("h1", "ps/1")])
def test_a_task_without_which_nothing_goes_on_ends_the_run_also_outside_of_the_limit(host: str, task: str) -> None:
    memory_lab = MemoryLab()
    with pytest.raises(TaskFailed, match=f"^{task}: exited with code 5"):
        follow_with_steps(memory_lab.context.limited({"h3"}), lambda: memory_lab.hosts[host].exits(task, 5))


def test_a_worker_that_fails_outside_of_the_limit_is_left_to_its_own_command() -> None:
    memory_lab = MemoryLab()
    follow_with_steps(
        memory_lab.context.limited({"h2"}),
        lambda: memory_lab.hosts["h3"].exits("worker/3", 5),
        lambda: memory_lab.hosts["h2"].exits("worker/0", 0),
    )
    assert not [note for note in memory_lab.report.notes if "worker/3" in note and "exited" in note]


def test_a_chief_that_another_command_restarts_is_followed_on() -> None:
    memory_lab = MemoryLab()
    host = memory_lab.hosts["h2"]
    place = host.places["worker/0"]
    running = place.observed
    follow_with_steps(
        memory_lab.context,
        lambda: host.stop("worker/0", 10),
        *(lambda: None for _ in range(20)),
        lambda: setattr(place, "observed", running),
        *(lambda: None for _ in range(20)),
        lambda: host.stop("worker/0", 10),
        lambda: setattr(place, "observed", running),
        lambda: host.exits("worker/0", 0),
    )


class Replaced:
    """A task that another command starts again, from the fifth second on."""

    def __init__(self, memory_lab: MemoryLab, task: str) -> None:
        self.lab, self.task, self.at = memory_lab, task, memory_lab.clock.time + 5
        self.host = memory_lab.hosts["h1" if task.startswith("ps") else "h2"]
        self.place = self.host.places[task]
        self.running = self.place.observed

    def lasts(self, seconds: float, change: Callable[[], object]) -> None:
        """Schedule a change of the task after those before it; the next one comes after `seconds`."""
        self.lab.clock.at(self.at, change)
        self.at += seconds

    def stop(self) -> None:
        self.host.stop(self.task, 10)

    def remove(self) -> None:
        self.host.places.pop(self.task, None)

    def create(self) -> None:
        self.place.observed = replace(self.running, state=State.CREATED, started_at=None, id="new")
        self.host.places[self.task] = self.place

    def start(self) -> None:
        self.place.observed = replace(self.running, id="new")
        self.host.places[self.task] = self.place


@pytest.mark.parametrize("task", ["worker/0", "ps/0"])
def test_a_task_that_another_command_starts_again_may_be_absent_for_a_moment_and_created_for_long(task: str) -> None:
    memory_lab = MemoryLab()
    replaced = Replaced(memory_lab, task)
    replaced.lasts(10, replaced.stop)
    replaced.lasts(10, replaced.remove)
    replaced.lasts(600, replaced.create)
    replaced.lasts(10, replaced.start)
    replaced.lasts(10, lambda: memory_lab.hosts["h2"].exits("worker/0", 0))
    begin = memory_lab.clock.time
    follow(memory_lab.context, with_logs=False)
    assert memory_lab.clock.time - begin == 635 + 1, "to the end of its chief, with a look at the other workers"
    assert [note for note in memory_lab.report.notes if "still run" not in note] == []


@pytest.mark.parametrize("task", ["worker/0", "ps/0"])
def test_a_task_that_is_created_again_and_not_started_within_an_hour_ends_the_run(task: str) -> None:
    memory_lab = MemoryLab()
    replaced = Replaced(memory_lab, task)
    replaced.lasts(5, replaced.stop)
    replaced.lasts(5, replaced.create)
    begin = memory_lab.clock.time
    memory_lab.clock.at(begin + 15, lambda: memory_lab.clock.sleep(3580))
    with pytest.raises(TaskFailed, match=f"^{task}: created but never started"):
        follow(memory_lab.context, with_logs=False)
    assert memory_lab.clock.time - begin == 10 + 3600


def test_a_chief_that_was_created_before_it_is_followed_and_never_ran_has_failed() -> None:
    memory_lab = MemoryLab()
    Replaced(memory_lab, "worker/0").create()
    begin = memory_lab.clock.time
    with pytest.raises(TaskFailed, match=r"^worker/0: created but never started"):
        follow(memory_lab.context, with_logs=False)
    assert memory_lab.clock.time == begin


def test_a_chief_that_stays_absent_among_other_tasks_was_removed() -> None:
    memory_lab = MemoryLab()
    replaced = Replaced(memory_lab, "worker/0")
    replaced.lasts(0, replaced.remove)
    begin = memory_lab.clock.time
    with pytest.raises(TfprovError, match="worker/0 is gone: somebody removed it; start it again with `tfprov up`"):
        follow(memory_lab.context, with_logs=False)
    assert memory_lab.clock.time - begin == 4 + 30


def test_a_cluster_of_which_nothing_is_left_was_taken_down_at_once() -> None:
    memory_lab = MemoryLab()
    begin = memory_lab.clock.time
    for host in memory_lab.hosts.values():
        memory_lab.clock.at(begin + 5, host.places.clear)
    with pytest.raises(TakenDown, match="worker/0 is gone: the cluster was taken down meanwhile"):
        follow(memory_lab.context, with_logs=False)
    assert memory_lab.clock.time - begin == 5


def test_a_chief_that_another_command_stops_was_taken_down() -> None:
    memory_lab = MemoryLab()
    with pytest.raises(TakenDown) as caught:
        follow_with_steps(memory_lab.context, lambda: memory_lab.hosts["h2"].stop("worker/0", 10))
    assert str(caught.value) == "another command has stopped worker/0; `tfprov runs` has how its training ended"
    with pytest.raises(TaskFailed, match=r"^worker/0: stopped$"):
        follow_with_steps(memory_lab.context)


@pytest.mark.parametrize("strategy", ["multi_worker_mirrored", "in_graph"])
def test_a_worker_over_its_limit_ends_it_where_every_step_needs_every_worker(strategy: str) -> None:
    memory_lab = MemoryLab(text=AGAIN)
    with pytest.raises(TaskFailed) as caught:
        follow_with_steps(
            with_strategy(memory_lab.context, strategy), lambda: over_its_limit(memory_lab, "h3", "worker/3", 4)
        )
    assert str(caught.value) == "worker/3: exited with code 4 after 2 restarts: the training cannot go on without it"


def test_a_host_that_a_gather_could_not_reach_and_that_is_back_is_taken_down_with_the_others() -> None:
    memory_lab = MemoryLab()
    follow_with_steps(
        memory_lab.context,
        lambda: memory_lab.context.unresponsive.update(h1=Unreachable("h1", "no answer")),  # as its lock records it
        lambda: memory_lab.hosts["h2"].exits("worker/0", 0),
    )
    assert "h1" in observe(replace(memory_lab.context, tolerant=True)).hosts


@pytest.mark.parametrize(("seconds", "reported"), [(30, True), (29, False)])
def test_a_ps_that_has_ended_is_reported_once_if_the_training_goes_on_waiting(seconds: int, *, reported: bool) -> None:
    memory_lab = MemoryLab()
    host = memory_lab.hosts["h1"]
    place = host.places["ps/1"]
    other = memory_lab.hosts["h3"].places["worker/3"]
    for one in (place, other):
        one.observed = replace(one.observed, started_at=host.now - 60)  # importing TensorFlow takes a while
    follow_with_steps(
        memory_lab.context,
        lambda: memory_lab.hosts["h3"].exits("worker/3", 0),
        lambda: host.exits("ps/1", 0),
        *(lambda: None for _ in range(seconds)),
        lambda: memory_lab.hosts["h2"].exits("worker/0", 0),
    )
    line = "ps/1 on h1 has ended with exit code 0, and worker/0 still runs: a ps has to serve until the training ends"
    assert [note for note in memory_lab.report.notes if "has ended with exit code 0" in note] == [line] * reported


@pytest.mark.parametrize(("seconds", "reported"), [(27, True), (26, False)])
def test_a_task_that_somebody_has_removed_is_reported_and_one_that_is_replaced_is_not(
    seconds: int, *, reported: bool
) -> None:
    memory_lab = MemoryLab()
    places = memory_lab.hosts["h1"].places
    replaced = places["ps/0"]
    follow_with_steps(
        memory_lab.context,
        places.clear,
        lambda: places.update({"ps/0": replaced}),
        *(lambda: None for _ in range(seconds)),  # and those before and behind it
        lambda: memory_lab.hosts["h2"].exits("worker/0", 0),
    )
    gone = [note for note in memory_lab.report.notes if "not there any more" in note]
    assert gone == ["ps/1 on h1 is not there any more: somebody has removed it"] * reported


def test_a_chief_that_hangs_behind_its_last_step_is_reported_while_it_is_followed() -> None:
    memory_lab = MemoryLab(text=INVENTORY.replace("[python]", "[python], flags: {max_steps: 70}"))
    host = memory_lab.hosts["h2"]
    written = io.BytesIO()
    for step in (0, 70):
        write_record(written, event(float(step), step, {"loss": 0.5}))
    host.saves("worker/0", "events.out.tfevents.1", written.getvalue())
    follow_with_steps(memory_lab.context, *[lambda: None] * 40, lambda: host.exits("worker/0", 0))
    assert memory_lab.report.notes[0] == (
        "worker/0 is at its last step, 70, for 30 s and has not ended: a thread or a child of its program may still run"
    )


def saves_steps(host: MemoryRuntime, *steps: int) -> None:
    """The chief has an event file with these steps."""
    written = io.BytesIO()
    for step in steps:
        write_record(written, event(float(step), step, {"loss": 0.5}))
    host.saves("worker/0", "events.out.tfevents.1", written.getvalue())


@pytest.mark.parametrize("flag", ["num_steps", "max_steps"])
def test_a_training_that_goes_on_after_the_steps_of_a_flag_has_no_last_step_and_its_stall_is_reported(
    flag: str,
) -> None:
    memory_lab = MemoryLab(text=INVENTORY.replace("[python]", f"[python], flags: {{{flag}: 35}}"))
    host, begin = memory_lab.hosts["h2"], memory_lab.clock.time
    for one in memory_lab.hosts.values():
        one.used = {container.task.name: Usage(cpu=0.0) for container in memory_lab.context.wanted}
    saves_steps(host, 0, 20)
    memory_lab.clock.at(begin + 10, lambda: saves_steps(host, 0, 40))
    memory_lab.clock.at(begin + 20, lambda: saves_steps(host, 0, 60))
    memory_lab.clock.at(begin + 800, lambda: host.exits("worker/0", 0))
    follow(memory_lab.context, with_logs=False)
    shown = [(e.progress.step, e.steps) for e in memory_lab.report.events if isinstance(e, TrainingProgress)]
    assert list(dict.fromkeys(shown)) == [(20, 35), (40, 35), (60, None)]
    stalled, end = memory_lab.report.notes
    assert stalled.startswith("the training has made no step for 600 s, in which no task has used its CPU")
    assert end.startswith("worker/0 is done, and worker/1")


def test_a_stall_is_reported_after_a_chief_that_hangs_at_its_last_step_beside_others_that_are_not_done() -> None:
    memory_lab = MemoryLab(text=INVENTORY.replace("[python]", "[python], flags: {max_steps: 70}"))
    host, begin = memory_lab.hosts["h2"], memory_lab.clock.time
    for one in memory_lab.hosts.values():
        one.used = {container.task.name: Usage(cpu=0.0) for container in memory_lab.context.wanted}
    saves_steps(host, 0, 70)
    memory_lab.clock.at(begin + 800, lambda: host.exits("worker/0", 0))
    follow(memory_lab.context, with_logs=False)
    hangs, stalled, _end = memory_lab.report.notes
    assert hangs.startswith("worker/0 is at its last step, 70, for 30 s and has not ended")
    assert stalled.startswith("the training has made no step for 600 s, in which no task has used its CPU")


class LastLook(MemoryRuntime):
    """A host whose ps is lost just after the chief has finished, between the answers of their hosts to one look."""

    def observe(self) -> HostState:
        if self.now >= 200.0 and self.places["ps/0"].runs:
            self.neighbours["h2"].exits("worker/0", 0)
            self.exits("ps/0", 137)
        return super().observe()


def test_a_ps_that_is_lost_once_the_chief_has_finished_does_not_fail_the_run() -> None:
    h1 = LastLook("h1")
    memory_lab = MemoryLab(hosts=[MemoryRuntime("h2"), h1])
    follow_with_steps(memory_lab.context, lambda: setattr(h1, "now", 200.0))
    assert memory_lab.report.notes[0] == ("ps/0: killed by SIGKILL (exit code 137)\nworker/0 has finished without ps/0")


def test_a_worker_that_fails_once_the_chief_has_finished_does_not_fail_the_start() -> None:
    memory_lab = MemoryLab()
    memory_lab.hosts["h3"].silent.add("worker/2")
    memory_lab.hosts["h2"].exits("worker/0", 0)
    memory_lab.hosts["h3"].exits("worker/2", 1)
    wait_serving(memory_lab.context)


def test_a_run_ends_behind_its_deadline_and_not_at_it() -> None:
    memory_lab = MemoryLab()
    context = replace(memory_lab.context, deadline=100.0)
    memory_lab.clock.time = 100.0
    check_deadline(context)
    check_deadline(replace(context, deadline=None))
    memory_lab.clock.time = 100.1
    with pytest.raises(DeadlineExceeded) as caught:
        follow_with_steps(context)
    assert str(caught.value) == "the `deadline` of this run is over before worker/0 is done"


class Counting(AbstractContextManager["Counting"]):
    """Counts the looks, and ends with the training."""

    looks, ended = 0, False

    def look(self) -> None:
        self.looks += 1

    def __exit__(self, *_: object) -> None:
        self.ended = True


@pytest.mark.parametrize("with_logs", [True, False])
def test_a_training_is_followed_with_its_logs_its_last_progress_and_what_is_done_meanwhile(*, with_logs: bool) -> None:
    memory_lab, counting = MemoryLab(), Counting()
    host = memory_lab.hosts["h2"]
    host.prints("worker/0", "hello")

    def end() -> None:
        written = io.BytesIO()
        for step in (0, 70):
            write_record(written, event(float(step), step, {"loss": 0.5}))
        host.saves("worker/0", "events.out.tfevents.1", written.getvalue())
        for task in ("worker/0", "worker/1"):
            host.exits(task, 0)
        for task in ("worker/2", "worker/3"):
            memory_lab.hosts["h3"].exits(task, 0)

    memory_lab.clock.at(memory_lab.clock.time + 3, end)
    follow(memory_lab.context, 60, with_logs=with_logs, periodic=counting)
    report = memory_lab.report
    assert report.lines == [("worker/0", "hello")] * with_logs
    assert [one.progress.step for one in report.events if isinstance(one, TrainingProgress)][-1] == 70
    assert (counting.looks, counting.ended) == (3, True)
    assert report.awaited == ["waiting for the first step of worker/0", ""]


def test_a_training_that_is_not_done_in_time_is_reported_with_the_time() -> None:
    memory_lab = MemoryLab()
    begin = memory_lab.clock.time
    with pytest.raises(TaskFailed) as caught:
        follow(memory_lab.context, 5.0)
    assert str(caught.value) == "worker/0: is not done after 5 s"
    assert memory_lab.clock.time - begin == 6.0, "at the first look behind it"


class SlowForOthers(MemoryRuntime):
    """Answers threads other than the main one late: once `released` is set, with what ran when they asked."""

    def __init__(self, host: str) -> None:
        super().__init__(host)
        self.asked, self.released = threading.Event(), threading.Event()

    def observe(self) -> HostState:
        """See Runtime."""
        state = super().observe()
        if threading.current_thread() is not threading.main_thread():
            self.asked.set()
            assert self.released.wait(LONG)
        return state


def test_a_late_answer_to_the_logs_replaces_no_newer_state_of_a_task() -> None:
    host = SlowForOthers("h2")
    host.released.set()
    memory_lab = MemoryLab(hosts=[host])
    host.asked.clear()
    host.released.clear()

    def end() -> None:
        assert host.asked.wait(LONG)
        host.exits("worker/0", 0)

    follow(memory_lab.context, 60, monitor=ScriptedMonitor(memory_lab.context, end, host.released.set))
    events = [one for one in memory_lab.report.events if isinstance(one, TaskChanged)]
    states = [one.observed.state for one in events if one.observed.task == "worker/0"]
    assert states == [State.RUNNING, State.EXITED]

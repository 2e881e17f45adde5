"""All or nothing: what is left after a start that failed, and what is never taken with it."""

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.interrupts import interrupt_waiting_main, press_ctrl_c
from tests.support.inventory_strategies import HostState, situations
from tests.support.leftover_tasks import build
from tests.support.memory_cluster import Runtimes, make_context
from tests.support.reporters import RecordingReporter
from tests.support.waiting import until
from tfprov.engine.context import Context
from tfprov.engine.events import ActionDone, ActionSkipped, ActionStarted, Callback, Event
from tfprov.engine.execute import SecondInterrupt, execute
from tfprov.engine.observe import observe, plan, taken
from tfprov.engine.rollback import clean, plan_rollback, take_back
from tfprov.errors import HangUp, HostError, TaskFailed, TfprovError, Unreachable
from tfprov.formats.checkpoint import checkpoints
from tfprov.hosts.base import File
from tfprov.hosts.memory import MemoryRuntime
from tfprov.model.plan import ActionKind
from tfprov.model.state import Observed, State
from tfprov.paths import shipped_directory
from tfprov.playbook.parse import read_playbook
from tfprov.playbook.player import PlayOptions
from tfprov.playbook.run import play

INVENTORY = """
all: {vars: {tfprov: {cluster: lab, command: [python], start_timeout: 60, restart: never}}}
ps: {hosts: {h1: }}
worker: {hosts: {h2: , h3: }}
"""
REPORTED = (ActionStarted, ActionDone, ActionSkipped)
WHOLE = ("model.ckpt-5.index", "model.ckpt-5.data-00000-of-00001")


class MemoryLab:
    def __init__(self, directory: Path) -> None:
        self.hosts: Runtimes = {}
        self.report = RecordingReporter()
        self.directory = directory
        self.context = self.read(INVENTORY)

    def read(self, text: str) -> Context:
        made = make_context(text, (), self.hosts)
        return replace(made, home=self.directory, target=self.directory / "lab", report=self.report)

    def up(self, context: Context | None = None, **options: object) -> None:
        plays = read_playbook(shipped_directory("playbooks") / "up.yml")
        play(context or self.context, plays, PlayOptions("up", **options))  # type: ignore[arg-type]

    def give_up_soon(self, task: str) -> None:
        """Let a task never answer, and all wait two seconds for that."""
        for host in self.hosts.values():
            host.silent.add(task)
        wanted = tuple(replace(container, start_timeout=2) for container in self.context.wanted)
        self.context = replace(self.context, wanted=wanted)

    def there(self) -> dict[str, str]:
        return {container.task: container.state.value for container in observe(self.context).containers()}


@pytest.fixture
def memory_lab(tmp_path: Path) -> MemoryLab:
    return MemoryLab(tmp_path)


def test_a_start_that_fails_on_one_host_leaves_nothing_on_the_others(memory_lab: MemoryLab) -> None:
    memory_lab.hosts["h3"].refuses["start worker/1"] = "port 2222 for worker/1 is taken by nc (pid 7)"
    with pytest.raises(HostError, match=r"^h3: port 2222 for worker/1 is taken by nc \(pid 7\)$"):
        memory_lab.up()
    assert memory_lab.there() == {}
    assert memory_lab.report.notes == ["nothing was left half-started: stopped ps/0, worker/0"]


def test_what_is_in_the_way_of_a_start_is_reported_before_anything_is_stopped_or_started(memory_lab: MemoryLab) -> None:
    memory_lab.up()
    for host in memory_lab.hosts.values():
        host.calls.clear()
    memory_lab.hosts["h2"].taken["worker/0"] = "port 2222 for worker/0 is taken by nc (pid 7)"
    memory_lab.hosts["h3"].taken["worker/1"] = "the container tfprov-lab-worker-1 (0123456789ab) is not ours"
    edited = memory_lab.read(INVENTORY.replace("restart: never", "flags: {lr: 1}"))
    with pytest.raises(TfprovError) as raised:
        memory_lab.up(edited)
    assert str(raised.value).splitlines() == [
        "h2: port 2222 for worker/0 is taken by nc (pid 7); stop it",
        "h3: the container tfprov-lab-worker-1 (0123456789ab) is not ours; stop it",
    ]
    assert [call for host in memory_lab.hosts.values() for call in host.calls] == []
    assert set(memory_lab.there().values()) == {"running"}
    seen = observe(edited)
    assert [str(error).partition(":")[0] for error in taken(edited, plan(edited, seen), seen)] == ["h2", "h3"]
    memory_lab.hosts["h2"].failure = Unreachable("h2", "gone")
    with pytest.raises(Unreachable):
        taken(edited, plan(edited, seen), seen)
    assert [error.host for error in taken(edited, plan(edited, seen), seen, tolerant=True)] == ["h3"]
    memory_lab.hosts["h2"].failure = None
    memory_lab.up(edited, partial=True)
    assert "start worker/0" in memory_lab.hosts["h2"].calls, "with --partial, each host tells of its own start"


@pytest.mark.parametrize("what", ["too slow", "ended"])
def test_so_does_one_that_does_not_come_up(memory_lab: MemoryLab, what: str) -> None:
    if what == "too slow":
        memory_lab.give_up_soon("worker/1")
    else:
        memory_lab.hosts["h3"].unstartable["worker/1"] = "no such program"
    with pytest.raises(TaskFailed, match="worker/1: "):
        memory_lab.up()
    assert memory_lab.there() == {}


def test_a_partial_start_undoes_nothing_that_did_start(memory_lab: MemoryLab) -> None:
    memory_lab.hosts["h3"].refuses["start worker/1"] = "no"
    with pytest.raises(HostError):
        memory_lab.up(partial=True)
    assert memory_lab.there() == {"ps/0": "running", "worker/0": "running"}


def test_what_was_there_before_is_stopped_and_keeps_its_files(memory_lab: MemoryLab) -> None:
    memory_lab.up()
    memory_lab.hosts["h2"].saves("worker/0", "notes.txt", b"mine")
    memory_lab.hosts["h3"].refuses["start worker/2"] = "no"
    more = memory_lab.read(INVENTORY.replace("h3: }", "h3: {tfprov: {tasks_per_host: 2}}}"))
    with pytest.raises(HostError):
        memory_lab.up(more)
    assert memory_lab.there() == {"ps/0": "exited", "worker/0": "exited", "worker/1": "exited"}
    assert "notes.txt" in memory_lab.hosts["h2"].files("worker/0")


def test_what_runs_as_it_should_goes_on(memory_lab: MemoryLab) -> None:
    memory_lab.up()
    memory_lab.hosts["h3"].exits("worker/1", 3)
    memory_lab.hosts["h3"].unstartable["worker/1"] = "broken"
    with pytest.raises(TaskFailed):
        memory_lab.up()
    assert memory_lab.there() == {"ps/0": "running", "worker/0": "running", "worker/1": "exited"}


class Saving(MemoryRuntime):
    """Its tasks save `names` when they are stopped, as a chief does."""

    names: Sequence[str] = ()

    def stop(self, task: str, grace: float) -> None:
        super().stop(task, grace)
        for name in self.names:
            self.saves(task, name, b"weights")


@pytest.mark.parametrize("names", [WHOLE, ("model.keras",), tuple(f"ckpts/{name}" for name in WHOLE)])
def test_what_is_saved_while_it_is_stopped_stays(tmp_path: Path, names: Sequence[str]) -> None:
    memory_lab = MemoryLab(tmp_path)
    saving = Saving("h2")
    saving.names = names
    memory_lab.hosts["h2"] = saving
    memory_lab.context = memory_lab.read(INVENTORY)
    memory_lab.give_up_soon("worker/1")
    with pytest.raises(TaskFailed):
        memory_lab.up()
    assert memory_lab.there() == {"worker/0": "exited"}
    assert set(names) <= set(saving.files("worker/0"))
    assert "kept, because of the checkpoints or models there: worker/0" in memory_lab.report.notes


def test_what_cannot_be_looked_into_is_kept(memory_lab: MemoryLab) -> None:
    class Shut(MemoryRuntime):
        def files(self, task: str) -> Mapping[str, File]:
            raise HostError(self.host, "permission denied")

    memory_lab.hosts["h3"] = Shut("h3")
    memory_lab.context = memory_lab.read(INVENTORY)
    memory_lab.give_up_soon("worker/1")
    with pytest.raises(TaskFailed):
        memory_lab.up()
    assert memory_lab.there() == {"worker/1": "exited"}


def test_what_somebody_else_started_meanwhile_is_theirs(memory_lab: MemoryLab) -> None:
    before = observe(memory_lab.context)
    for task, host in (("worker/1", "h3"), ("worker/8", "h3")):
        memory_lab.hosts[host].puts(Observed(task, host, State.RUNNING, {}, id="1"))
    planned = plan_rollback("lab", before, observe(memory_lab.context), {("worker/1", "h3")})
    assert [action.id for action in planned.actions] == ["stop worker/1 on h3", "remove worker/1 on h3"]
    assert {action.causes for action in planned.actions} == {("the cluster did not come up",)}


def test_a_host_that_is_lost_meanwhile_is_named(memory_lab: MemoryLab) -> None:
    class Leaving(MemoryRuntime):
        def start(self, *arguments: object) -> None:
            super().start(*arguments)  # type: ignore[arg-type]
            self.failure = Unreachable(self.host, "connection lost")
            raise self.failure

    memory_lab.hosts["h3"] = Leaving("h3")
    memory_lab.context = memory_lab.read(INVENTORY)
    with pytest.raises(Unreachable, match="h3: connection lost"):
        memory_lab.up()
    memory_lab.hosts["h3"].failure = None
    assert memory_lab.there() == {"worker/1": "running"}
    assert "h3 cannot be reached: what was started there stays" in memory_lab.report.notes


def test_all_hosts_that_are_lost_meanwhile_are_named(memory_lab: MemoryLab) -> None:
    before = observe(memory_lab.context)
    for name in ("h2", "h3"):
        memory_lab.hosts[name].failure = Unreachable(name, "connection lost")
    take_back(memory_lab.context, before)
    assert memory_lab.report.notes[-1] == "h2, h3 cannot be reached: what was started there stays"


def test_ctrl_c_takes_nothing_back(memory_lab: MemoryLab) -> None:
    class Interrupting(MemoryRuntime):
        def start(self, *arguments: object) -> None:
            press_ctrl_c(memory_lab.report)

    memory_lab.hosts["h3"] = Interrupting("h3")
    memory_lab.context = memory_lab.read(INVENTORY)
    with pytest.raises(KeyboardInterrupt):
        memory_lab.up()
    assert memory_lab.there() == {"ps/0": "running", "worker/0": "running"}


def test_after_ctrl_c_no_action_begins_that_waits_for_a_thread(memory_lab: MemoryLab) -> None:
    class Interrupting(MemoryRuntime):
        def start(self, *arguments: object) -> None:
            super().start(*arguments)  # type: ignore[arg-type]
            press_ctrl_c(memory_lab.report)

    memory_lab.hosts["h1"] = Interrupting("h1")
    memory_lab.context = replace(memory_lab.read(INVENTORY), forks=1)
    with pytest.raises(KeyboardInterrupt):
        memory_lab.up()
    assert memory_lab.there() == {"ps/0": "running"}
    events = memory_lab.report.events
    begun = [event.action.subject for event in events if isinstance(event, ActionStarted)]
    skipped = [event.action.subject for event in events if isinstance(event, ActionSkipped)]
    assert (begun, skipped) == (["ps/0"], ["worker/0", "worker/1"])


@pytest.mark.parametrize("moment", [ActionStarted, ActionDone])
def test_ctrl_c_while_an_action_is_reported_changes_nothing_of_what_is_reported(
    memory_lab: MemoryLab, moment: type[ActionStarted | ActionDone]
) -> None:
    pressed: list[Event] = []

    def interrupt(event: Event) -> None:
        if isinstance(event, moment) and not pressed:
            pressed.append(event)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)  # in the main thread, it is raised here
        memory_lab.report.events.append(event)

    context = replace(memory_lab.context, report=Callback(interrupt), forks=1)
    plan_of_all = plan(context, observe(context))
    with pytest.raises(KeyboardInterrupt):
        execute(context, plan_of_all, "run-1")
    reported = {kind: [one.action.id for one in memory_lab.report.events if isinstance(one, kind)] for kind in REPORTED}
    assert reported[ActionStarted] == reported[ActionDone] != []
    assert reported[ActionDone] + reported[ActionSkipped] == [action.id for action in plan_of_all.actions]


def test_the_second_ctrl_c_waits_for_nothing(memory_lab: MemoryLab) -> None:
    released, finished = threading.Event(), threading.Event()

    class Hanging(MemoryRuntime):
        def start(self, *arguments: object) -> None:
            threading.Thread(target=interrupt_when_started).start()
            released.wait(60)
            finished.set()

    class Impatient(RecordingReporter):
        def note(self, text: str) -> None:
            super().note(text)
            if len(self.notes) == 1:
                threading.Thread(target=interrupt_waiting_main).start()

    def interrupt_when_started() -> None:
        events = memory_lab.report.events
        until(lambda: sum(isinstance(event, ActionStarted) for event in events) == 3, "everything has been started")
        interrupt_waiting_main()

    memory_lab.hosts["h3"] = Hanging("h3")
    memory_lab.report = Impatient()
    try:
        with pytest.raises(KeyboardInterrupt):
            memory_lab.up(memory_lab.read(INVENTORY))
        assert not finished.is_set()
        first, second = memory_lab.report.notes
        assert first == "interrupted: finishing what has begun (Ctrl-C again to leave at once)"
        assert second == (
            "left at once: ps/0, worker/0, worker/1 may still run; "
            "`tfprov status` shows them, `tfprov down` gathers and ends them"
        )
    finally:
        released.set()


def test_what_has_begun_ends_before_a_hang_up_is_raised(memory_lab: MemoryLab) -> None:
    finished, released = [], threading.Event()
    main = threading.main_thread().ident or 0

    def is_joined() -> bool:
        """Whether the main thread waits for the threads of a pool, or nobody does any more."""
        frames = traceback.walk_stack(sys._current_frames()[main])  # noqa: SLF001
        names = {frame.f_code.co_name for frame, _ in frames}
        return {"shutdown", "join"} <= names or released.is_set()

    class Slow(MemoryRuntime):
        def start(self, *arguments: object) -> None:
            signal.pthread_kill(main, signal.SIGHUP)
            until(is_joined, "the main thread waits for this one")
            finished.append(self.host)

    def hang_up(_number: int, _frame: FrameType | None) -> None:
        raise HangUp

    memory_lab.hosts["h1"] = Slow("h1")
    context = memory_lab.read(INVENTORY)
    plan_of_all = plan(context, observe(context))
    before = signal.signal(signal.SIGHUP, hang_up)
    try:
        with pytest.raises(HangUp):
            execute(context, plan_of_all, "run-1")
        assert finished == ["h1"]
    finally:
        signal.signal(signal.SIGHUP, before)
        released.set()


def test_an_unexpected_error_of_an_action_is_raised_also_a_timeout(memory_lab: MemoryLab) -> None:
    class Late(MemoryRuntime):
        def start(self, *arguments: object) -> None:
            raise TimeoutError("too late")

    memory_lab.hosts["h3"] = Late("h3")
    with pytest.raises(TimeoutError, match="too late"):
        execute(memory_lab.context, plan(memory_lab.context, observe(memory_lab.context)), "run-1")


def test_the_second_ctrl_c_leaves_also_while_the_first_is_acted_upon(memory_lab: MemoryLab) -> None:
    released, finished = threading.Event(), threading.Event()

    class Hanging(MemoryRuntime):
        def start(self, *arguments: object) -> None:
            press()
            released.wait(60)
            finished.set()

    def press() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def first(_number: int, frame: FrameType | None) -> None:
        if frame is not None and frame.f_code is second.__code__:  # an exception there would be the last one
            threading.Timer(0.01, press).start()
        else:
            raise KeyboardInterrupt

    def second(frame: FrameType, event: str, _argument: object) -> None:
        if event == "return" and frame.f_code.co_name == "set_result":  # no more actions begin
            sys.setprofile(None)
            raise KeyboardInterrupt

    memory_lab.hosts["h3"] = Hanging("h3")
    plan_of_all = plan(memory_lab.context, observe(memory_lab.context))
    before = signal.signal(signal.SIGINT, first)
    sys.setprofile(second)
    try:
        with pytest.raises(SecondInterrupt):
            execute(memory_lab.context, plan_of_all, "run-1")
        assert not finished.is_set()
    finally:
        sys.setprofile(None)
        signal.signal(signal.SIGINT, before)
        released.set()


def test_a_failure_of_another_step_takes_nothing_back(memory_lab: MemoryLab, tmp_path: Path) -> None:
    book = tmp_path / "book.yml"
    book.write_text("- {hosts: all, tasks: [start, command: x]}")
    memory_lab.hosts["h2"].answer = lambda _argv: (1, "")
    with pytest.raises(HostError, match=r"^h2: `x` ended with exit code 1$"):
        play(memory_lab.context, read_playbook(book), PlayOptions())
    assert memory_lab.there() == dict.fromkeys(["ps/0", "worker/0", "worker/1"], "running")


# --- laws ------------------------------------------------------------------------------------------------------------

_NAMES = st.lists(st.sampled_from([*WHOLE, "model.ckpt-7.data-00001-of-00002", "notes.txt"]), unique=True)


@examples(80)
@given(situations(), st.data())
def test_whatever_fails_nothing_new_runs_and_no_checkpoint_is_lost(
    situation: tuple[str, HostState], data: st.DataObject
) -> None:
    context, hosts = build(*situation)
    for host in hosts.values():
        for container in host.observe().containers:
            for name in data.draw(_NAMES):
                host.saves(container.task, name, b"x")
    before = observe(context)
    planned = plan(context, before)
    saving = data.draw(st.sets(st.sampled_from([action.subject for action in planned.actions] or ["none"])))
    starts = [action for action in planned.actions if action.kind in (ActionKind.START, ActionKind.STOP)]
    for broken in data.draw(st.lists(st.sampled_from(starts), max_size=2)) if starts else ():
        hosts[broken.host].refuses[f"{broken.kind} {broken.subject}"] = "no"
    execute(context, planned, "run")
    for host in hosts.values():
        for container in host.observe().containers:
            for name in WHOLE if container.task in saving else ():
                host.saves(container.task, name, b"x")
    started = observe(context)
    had = {(c.task, c.host): pieces(hosts, c) for c in started.containers()}
    clear(hosts)
    take_back(context, before)
    after = {(c.task, c.host): c for c in observe(context).containers()}
    was = {(c.task, c.host): c for c in before.containers()}
    for place, now in after.items():
        assert now.state is not State.RUNNING or (place in was and was[place].id == now.id)
        assert place in was or had[place], "a container that was not there before stays only for its checkpoints"
    for place, names in had.items():
        assert not names or set(names) <= set(pieces(hosts, after[place])), "a checkpoint is never removed"
    assert {place for place in was if place in had} <= set(after), "what was there before is never removed"


def clear(hosts: Runtimes) -> None:
    """Let nothing fail any more."""
    for host in hosts.values():
        host.refuses.clear()


def pieces(hosts: Runtimes, container: Observed) -> Sequence[str]:
    saved = checkpoints(hosts[container.host].files(container.task))
    return [name for checkpoint in saved for name in checkpoint.files]


@examples(50)
@given(situations(), st.data())
def test_whatever_cannot_be_taken_back_is_not_removed_while_it_runs(
    situation: tuple[str, HostState], data: st.DataObject
) -> None:
    context, hosts = build(*situation)
    before = observe(context)
    planned = plan(context, before)
    execute(context, planned, "run").check()
    starts = [action for action in planned.actions if action.kind == ActionKind.START]
    assume(starts)
    stubborn = data.draw(st.sampled_from(starts))
    hosts[stubborn.host].refuses[f"stop {stubborn.subject}"] = "no"
    take_back(context, before)
    states = {(c.task, c.host): c.state for c in observe(context).containers()}
    assert states[stubborn.subject, stubborn.host] is State.RUNNING
    assert f"remove {stubborn.subject}" not in hosts[stubborn.host].calls


class Meeting(MemoryRuntime):
    """A host whose cleaning waits for that of the others."""

    def __init__(self, host: str, all_there: threading.Barrier, failure: HostError | None = None) -> None:
        super().__init__(host)
        self._all_there, self._lost = all_there, failure

    def clean(self, keep: Collection[str] = (), *, discard: bool = False) -> None:
        self._all_there.wait(60)
        if self._lost is not None:
            raise self._lost
        super().clean(keep, discard=discard)


def test_hosts_are_cleaned_at_the_same_time_and_one_that_fails_is_named() -> None:
    all_there, lost = threading.Barrier(3), Unreachable("h2", "no answer")
    context = replace(
        make_context(INVENTORY, (), {}),
        runtimes={name: Meeting(name, all_there, lost if name == "h2" else None) for name in ("h1", "h2", "h3")},
    )
    assert clean(context, observe(context)) == [lost]

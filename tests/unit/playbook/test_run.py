"""In which order plays are played, and what a failure or Ctrl-C changes about it."""

import fcntl
import re
import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import cast

import pytest

from tests.support.clock import ManualClock
from tests.support.interrupts import interrupt_waiting_main
from tests.support.memory_cluster import make_context
from tests.support.memory_plays import MemoryPlays
from tfprov.engine.context import Context
from tfprov.engine.lock.cluster_lock import ClusterLock
from tfprov.errors import GatherError, HostError, InvalidInput, Locked, TfprovError, Unreachable, Usage
from tfprov.hosts.memory import MemoryRuntime
from tfprov.model.playbook import Play
from tfprov.model.state import Observed, State
from tfprov.playbook.parse import read_playbook
from tfprov.playbook.player import PlayOptions, hosts_of
from tfprov.playbook.run import play, read_tagged

INVENTORY = """
all: {vars: {tfprov: {cluster: lab, command: [python]}}}
ps: {hosts: {h1: }}
worker: {hosts: {h2: }}
"""


@pytest.fixture
def memory_lab(tmp_path: Path) -> MemoryPlays:
    return MemoryPlays(tmp_path, INVENTORY)


def test_steps_run_in_their_order_on_the_hosts_of_their_play(memory_lab: MemoryPlays) -> None:
    memory_lab.play("- {hosts: worker, tasks: [command: one, command: two]}\n- {hosts: all, tasks: [command: three]}")
    assert memory_lab.ran == ["one h2", "two h2", "three h1", "three h2"]


def test_a_gather_that_leaves_the_host_of_the_chief_out_does_not_call_it_gone(memory_lab: MemoryPlays) -> None:
    memory_lab.play("- {hosts: all, tasks: [start]}\n- {hosts: h1, tasks: [gather]}")
    assert memory_lab.report.notes == ["nothing to gather: worker/0 is on h2, which is left out here"]


@pytest.mark.parametrize("task", ["worker/7", "chief/0", "ps/01"])
def test_a_task_that_is_nowhere_cannot_be_stopped(memory_lab: MemoryPlays, task: str) -> None:
    error = rf"book.yml:1:39: error: no task `{task}` in cluster lab; its tasks are ps/0, worker/0$"
    with pytest.raises(InvalidInput, match=error):
        memory_lab.play(f"- {{hosts: ps, tasks: [command: never, stop: {{tasks: {task}}}]}}")
    assert memory_lab.ran == []
    memory_lab.play(f"- {{hosts: all, tasks: [{{stop: {{tasks: {task}}}, when: evaluator}}]}}")


def test_a_job_that_is_nowhere_cannot_be_stopped(memory_lab: MemoryPlays) -> None:
    error = r"book.yml:1:39: error: no task of `evaluator` in cluster lab; `when: evaluator` leaves the step out$"
    with pytest.raises(InvalidInput, match=error):
        memory_lab.play("- {hosts: ps, tasks: [command: never, stop: {tasks: evaluator}]}")
    assert memory_lab.ran == []
    memory_lab.play("- {hosts: all, tasks: [{stop: {tasks: evaluator}, when: evaluator}, stop: {tasks: chief}]}")
    memory_lab.hosts["h2"].puts(Observed("evaluator/0", "h2", State.RUNNING, {}, id="1", run="run-1"))
    memory_lab.play("- {hosts: all, tasks: [stop: {tasks: evaluator}]}")
    assert memory_lab.running() == [], "it left the inventory"


def test_a_task_that_left_the_inventory_can_be_stopped(memory_lab: MemoryPlays) -> None:
    stop = "- {hosts: all, tasks: [stop: {tasks: worker/7}]}"
    memory_lab.hosts["h2"].puts(Observed("worker/7", "h2", State.RUNNING, {}, id="1", run="run-1"))
    memory_lab.play(stop)
    assert memory_lab.running() == []
    memory_lab.hosts["h1"].failure = Unreachable("h1", "connection lost")
    memory_lab.hosts["h2"].remove("worker/7")
    with pytest.raises(Unreachable):
        memory_lab.play(stop)


@pytest.mark.parametrize(("verb", "waits"), [("gather", True), ("up", False)])
def test_the_end_of_a_training_waits_for_a_gather_in_another_terminal(
    memory_lab: MemoryPlays, verb: str, waits: bool
) -> None:
    clock = cast(ManualClock, memory_lab.context.clock)
    other = ClusterLock(memory_lab.context, verb)

    def ends() -> None:
        other.take()
        memory_lab.hosts["h2"].exits("worker/0", 0)

    clock.at(100, ends)
    clock.at(200, other.free)
    book = "- {hosts: all, tasks: [start, wait: {for: done}]}\n- {hosts: ps, always: true, tasks: [command: last]}"
    if waits:
        memory_lab.play(book)
        (note,) = [note for note in memory_lab.report.notes if "in use" in note]
        assert re.fullmatch(r"cluster lab is in use by `tfprov gather` of .*: waiting for its end", note)
        assert (memory_lab.ran, clock.now() >= 200) == (["last h1"], True)
    else:
        with pytest.raises(Locked):
            memory_lab.play(book)
        assert memory_lab.ran == []


def test_a_failure_ends_the_plays_but_not_those_that_are_always_played(memory_lab: MemoryPlays) -> None:
    with pytest.raises(HostError, match="h1: `fail` ended with exit code 1"):
        memory_lab.play(
            "- {hosts: ps, tasks: [command: fail, command: never]}\n- {hosts: ps, tasks: [command: never]}\n"
            "- {hosts: ps, always: true, tasks: [command: fail, command: last]}"
        )
    assert memory_lab.ran == ["fail h1", "fail h1", "last h1"]


def test_the_first_ctrl_c_still_plays_what_is_always_played_and_the_second_leaves_at_once(
    memory_lab: MemoryPlays,
) -> None:
    always = "- {hosts: ps, always: true, tasks: [command: clean, command: interrupt, command: never]}"
    with pytest.raises(KeyboardInterrupt):
        memory_lab.play("- {hosts: ps, tasks: [command: interrupt, command: never]}\n" + always)
    assert memory_lab.ran == ["interrupt h1", "clean h1", "interrupt h1"]


@pytest.mark.parametrize(("looks", "ran"), [(1, ["clean h1"]), (2, ["one h1", "clean h1"])])
def test_a_ctrl_c_between_two_plays_still_plays_what_is_always_played(
    memory_lab: MemoryPlays, monkeypatch: pytest.MonkeyPatch, looks: int, ran: list[str]
) -> None:
    calls = count(1)

    def interrupted(context: Context, one: Play) -> Context:
        if next(calls) == looks:
            raise KeyboardInterrupt
        return hosts_of(context, one)

    monkeypatch.setattr("tfprov.playbook.player.hosts_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        memory_lab.play("- {hosts: ps, tasks: [command: one]}\n- {hosts: ps, always: true, tasks: [command: clean]}")
    assert memory_lab.ran == ran
    assert memory_lab.report.notes == ["interrupted: Ctrl-C again leaves at once"]


def test_a_second_ctrl_c_waits_for_no_action_of_what_is_always_played(
    memory_lab: MemoryPlays, monkeypatch: pytest.MonkeyPatch
) -> None:
    released, finished = threading.Event(), threading.Event()

    def stop(*_: object) -> None:
        threading.Thread(target=interrupt_waiting_main).start()
        released.wait(60)
        finished.set()

    monkeypatch.setattr(memory_lab.hosts["h2"], "stop", stop)
    try:
        with pytest.raises(KeyboardInterrupt):
            memory_lab.play(
                "- {hosts: all, tasks: [start, command: interrupt]}\n- {hosts: all, always: true, tasks: [stop: {}]}"
            )
        assert not finished.is_set()
        assert "interrupted: Ctrl-C again leaves at once" in memory_lab.report.notes
        assert not any("finishing what has begun" in note for note in memory_lab.report.notes)
    finally:
        released.set()


def test_plays_and_steps_for_roles_that_are_not_there_are_left_out(memory_lab: MemoryPlays) -> None:
    memory_lab.play(
        "- {hosts: all, when: evaluator, tasks: [command: never]}\n"
        "- {hosts: evaluator, when: evaluator, tasks: [command: never]}\n"
        "- {hosts: ps, tasks: [{command: never, when: tensorboard}, {command: one, when: [ps, worker]}]}"
    )
    assert memory_lab.ran == ["one h1"]


class SavingHost(MemoryRuntime):
    """A host whose chief saves `files` when it is stopped: a model by default."""

    def __init__(self, host: str, files: Sequence[str] = ("final.keras",)) -> None:
        super().__init__(host)
        self.files_at_end = files

    def stop(self, task: str, grace: float) -> None:
        super().stop(task, grace)
        for name in self.files_at_end if task == "worker/0" else ():
            self.saves(task, name, b"content")


@pytest.mark.parametrize("steps", ["start, stop: {remove: true}", "start, stop: {}, stop: {remove: true}"])
def test_what_the_chief_saves_when_it_is_stopped_is_not_removed(tmp_path: Path, steps: str) -> None:
    lab = MemoryPlays(tmp_path, INVENTORY, [SavingHost("h2")])
    with pytest.raises(
        GatherError,
        match=r"^worker/0 on h2 is kept: final\.keras is not gathered; run `tfprov gather`, or remove it for "
        r"good with `tfprov down --discard`$",
    ):
        lab.play(f"- {{hosts: all, tasks: [{steps}]}}")
    assert list(lab.hosts["h2"].places) == ["worker/0"]
    assert lab.running() == []


EVENTS = [f"events.out.tfevents.{number}" for number in range(4)]
TAKEN_DOWN = "- {hosts: all, always: true, tasks: [stop: {}, gather: , stop: {remove: true}]}"


def down_without_a_disk(tmp_path: Path, host: MemoryRuntime) -> tuple[MemoryPlays, list[str]]:
    """Take a cluster down whose gather directory is a link to nothing; return it, and the lines of the error."""
    lab = MemoryPlays(tmp_path, INVENTORY, [host])
    lab.context.target.symlink_to(tmp_path / "nowhere" / "lab")
    lab.play("- {hosts: all, tasks: [start]}")
    with pytest.raises(TfprovError) as raised:
        lab.play(TAKEN_DOWN)
    first, *others = str(raised.value).splitlines()
    assert first.startswith(f"{lab.context.target} is a link to")
    return lab, others


def test_a_chief_whose_files_could_not_all_be_copied_is_kept(tmp_path: Path) -> None:
    lab, errors = down_without_a_disk(tmp_path, SavingHost("h2", EVENTS))
    assert "; ".join(errors) == (
        "worker/0 on h2 was kept: events.out.tfevents.0, events.out.tfevents.1, events.out.tfevents.2 and 1 more are not "
        "gathered; run `tfprov gather`, or remove it for good with `tfprov down --discard`"
    )
    assert list(lab.hosts["h2"].places) == ["worker/0"]
    assert lab.running() == []
    (tmp_path / "nowhere" / "lab").mkdir(parents=True)
    lab.play(TAKEN_DOWN)
    assert (list(lab.hosts["h2"].places), len(list(lab.context.target.glob("events.*")))) == ([], 4)


def test_a_chief_with_a_file_for_which_there_is_no_place_is_kept(tmp_path: Path) -> None:
    lab = MemoryPlays(tmp_path, INVENTORY, [SavingHost("h2", EVENTS)])
    lab.play("- {hosts: all, tasks: [start]}")
    lab.hosts["h2"].saves("worker/0", "a.csv", b"1")
    lab.play("- {hosts: all, tasks: [gather]}")
    (blocked := lab.context.target / "events.out.tfevents.2").mkdir()
    with pytest.raises(GatherError, match=r"^worker/0 on h2 was kept: events\.out\.tfevents\.2 is not gathered; run "):
        lab.play(TAKEN_DOWN)
    assert f"1 of 4 files beside the checkpoints could not be copied: {blocked} is a directory" in lab.report.notes
    assert list(lab.hosts["h2"].places) == ["worker/0"]
    blocked.rmdir()
    lab.play(TAKEN_DOWN)
    assert (list(lab.hosts["h2"].places), blocked.read_bytes()) == ([], b"content")


def test_the_files_of_a_former_chief_are_gathered_before_it_is_removed(tmp_path: Path) -> None:
    lab = MemoryPlays(tmp_path, INVENTORY, [SavingHost("h2", EVENTS)])
    lab.play("- {hosts: all, tasks: [start]}")
    edited = INVENTORY.replace("command: [python]", "command: [python], wiring: tf_config").replace("h2: ", "h3: ")
    lab = MemoryPlays(tmp_path, f"{edited}chief: {{hosts: {{h2: }}}}\n", lab.hosts.values())
    lab.play(TAKEN_DOWN)
    assert list(lab.hosts["h2"].places) == []
    assert len(list(lab.context.target.glob("events.*"))) == 4


@pytest.mark.parametrize(
    ("files", "what"),
    [
        (["final.keras", "loss.csv"], "is kept: final.keras is not gathered"),
        (
            ["model.ckpt-5.index", "model.ckpt-5.data-00000-of-00001", "loss.csv"],
            "was kept: its checkpoint model.ckpt-5 is not gathered",
        ),
    ],
    ids=["a model", "a checkpoint"],
)
def test_a_chief_with_a_model_that_could_not_be_copied_is_reported_once(
    tmp_path: Path, files: list[str], what: str
) -> None:
    _, errors = down_without_a_disk(tmp_path, SavingHost("h2", files))
    fix = "run `tfprov gather`, or remove it for good with `tfprov down --discard`"
    assert errors == [f"worker/0 on h2 {what}; {fix}"]


def test_a_chief_that_wrote_nothing_is_removed_after_a_gather_that_failed(memory_lab: MemoryPlays) -> None:
    memory_lab.context.target.mkdir()
    (memory_lab.context.target / "mine").touch()
    memory_lab.play("- {hosts: all, tasks: [start]}")
    with pytest.raises(GatherError, match="no gather put there"):
        memory_lab.play(TAKEN_DOWN)
    assert list(memory_lab.hosts["h2"].places) == []


def test_tags_choose_plays_and_steps(memory_lab: MemoryPlays) -> None:
    book = (
        "- {hosts: ps, tags: a, tasks: [command: one]}\n- {hosts: ps, tasks: [{command: two, tags: b}, command: never]}"
    )
    memory_lab.play(book, tags=frozenset("ab"))
    assert memory_lab.ran == ["one h1", "two h1"]


def test_a_tag_that_nothing_has_is_refused_with_those_that_there_are(memory_lab: MemoryPlays) -> None:
    book = memory_lab.book
    book.write_text("- {hosts: ps, tags: b, tasks: [command: one, {command: two, tags: [c, a]}]}")
    assert len(read_tagged(str(book), ["x", "a"])) == 1
    with pytest.raises(Usage) as caught:
        read_tagged(str(book), ["y", "x"])
    assert str(caught.value) == f"nothing in {book} has the tag `x, y`; its tags are a, b, c"


def test_a_check_changes_nothing(memory_lab: MemoryPlays) -> None:
    memory_lab.play("- {hosts: all, tasks: [start, command: never, stop: {remove: true}]}", check=True)
    assert memory_lab.ran == []
    assert all(host.calls == [] for host in memory_lab.hosts.values())


def test_a_pattern_that_matches_nothing_is_reported_before_anything_is_done(memory_lab: MemoryPlays) -> None:
    with pytest.raises(
        InvalidInput,
        match=r"/book\.yml:2:3: error: no host or group matches `nosuch`; see `hosts:` and `children:` in the "
        r"inventory$",
    ):
        memory_lab.play("- {hosts: all, tasks: [command: never]}\n- {hosts: nosuch, tasks: [command: never]}")
    assert memory_lab.ran == []


class Noted(ClusterLock):
    """Notes whether it need not be had on a host that is out of reach, each time it is taken."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, "play")
        self.tolerant: list[bool] = []

    def take(self, *, tolerant: bool = False, patient: bool = False) -> None:
        self.tolerant.append(tolerant)
        super().take(tolerant=tolerant, patient=patient)


def test_what_was_started_is_taken_back_also_when_the_host_of_the_lock_is_lost(memory_lab: MemoryPlays) -> None:
    memory_lab.lock = lock = Noted(memory_lab.context)
    memory_lab.hosts["h2"].refuses["start worker/0"] = "its disk is full"
    with pytest.raises(HostError, match=r"^h2: its disk is full$"):
        memory_lab.play("- {hosts: all, tasks: [start]}")
    assert lock.tolerant == [False, True]
    memory_lab.lock = lock = Noted(memory_lab.context)
    memory_lab.play("- {hosts: ps, always: true, tasks: [command: clean]}")
    assert lock.tolerant == [True]


class Watched(MemoryRuntime):
    """Notes whether somebody holds the cluster's lock whenever a task is removed."""

    def __init__(self, host: str, home: Path) -> None:
        super().__init__(host)
        self.home = home
        self.locked: list[bool] = []

    def remove(self, task: str) -> None:
        with (self.home / "lock").open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.locked.append(False)
            except BlockingIOError:
                self.locked.append(True)
        super().remove(task)


def test_what_was_started_is_taken_back_under_the_lock_although_a_wait_had_freed_it(tmp_path: Path) -> None:
    watched = [Watched("h1", tmp_path), Watched("h2", tmp_path)]
    hosts: dict[str, MemoryRuntime] = {host.host: host for host in watched}
    text = INVENTORY.replace("h2: ", "h2: , h3: ")
    context = replace(make_context(text, ["tfprov.restart=never"], hosts), home=tmp_path, target=tmp_path / "lab")
    clock = ManualClock()
    clock.at(0.5, lambda: hosts["h2"].loses("worker/0"))  # while the training that is done waits for the other worker

    def finish(argv: Sequence[str]) -> tuple[int, str]:
        hosts["h1"].exits("ps/0", 3)
        hosts["h2"].exits("worker/0", 0)
        return 0, ""

    hosts["h2"].answer = finish
    book = tmp_path / "book.yml"
    book.write_text("- {hosts: all, tasks: [start: , command: finish, wait: {for: done}, wait: {for: serving}]}")
    with pytest.raises(TfprovError, match="ps/0"):
        play(replace(context, clock=clock), read_playbook(book), PlayOptions())
    assert [host.calls for host in hosts.values()] == [
        ["start ps/0", "remove ps/0"],
        ["start worker/0", "remove worker/0"],
        ["start worker/1", "stop worker/1", "remove worker/1"],
    ]
    assert [host.locked for host in watched] == [[True], [True]]

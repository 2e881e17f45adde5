"""`checkpoints: {every: …}`: when the next gather begins, and what a failure says."""

import threading
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.clock import ManualClock
from tests.support.memory_plays import MemoryPlays
from tests.support.waiting import LONG
from tfprov.engine.checkpoints.verify import Verification
from tfprov.engine.lock.cluster_lock import ClusterLock
from tfprov.errors import GatherError, Unreachable
from tfprov.playbook.scheduled_gather import ScheduledGather

INVENTORY = """
all: {vars: {tfprov: {cluster: lab, command: [python]}}}
ps: {hosts: {h1: }}
worker: {hosts: {h2: }}
"""


class Lab(MemoryPlays):
    """A started cluster, of which a clock in the hands of a test gathers every 10 s."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, INVENTORY)
        self.clock = ManualClock()
        self.play("- {hosts: all, tasks: [start]}")
        self.report.events.clear()
        self.damaged, self.has_bug = False, False
        self.context = replace(self.context, clock=self.clock, verify=self.verify)
        self.gathers = ScheduledGather(self.context, 10.0)

    def verify(self, prefixes: Sequence[Path]) -> dict[str, Verification]:
        if self.has_bug:
            raise ZeroDivisionError("division by zero")
        if self.damaged:
            raise GatherError("model.ckpt-1.index is damaged", "save again")
        return {}

    def saves(self, step: int) -> None:
        for extension in ("data-00000-of-00001", "index"):
            self.hosts["h2"].saves("worker/0", f"model.ckpt-{step}.{extension}", b"bytes")
        self.hosts["h2"].saves("worker/0", "checkpoint", f'model_checkpoint_path: "model.ckpt-{step}"\n'.encode())

    def looks(self, *times: float) -> list[str]:
        """Look at these times; return what is gathered then."""
        for time in times:
            self.clock.time = time
            self.gathers.look()
        return sorted(path.stem for path in self.context.target.glob("*.index"))


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def test_a_gather_begins_each_time_the_interval_has_passed(lab: Lab) -> None:
    lab.saves(1)
    assert lab.looks(9.9) == []
    assert lab.looks(10) == ["model.ckpt-1"]
    lab.saves(2)
    assert lab.looks(11, 19.9) == ["model.ckpt-1"]
    assert lab.looks(20) == ["model.ckpt-1", "model.ckpt-2"]
    assert [note.partition(":")[0] for note in lab.report.notes] == [f"gathered into {lab.context.target}"] * 2
    assert lab.looks(30) == ["model.ckpt-1", "model.ckpt-2"]
    assert len(lab.report.notes) == 2, "nothing is new"


def test_without_an_interval_nothing_is_gathered(lab: Lab) -> None:
    lab.gathers = ScheduledGather(lab.context, 0.0)
    lab.saves(1)
    assert lab.looks(10, 100, 1000) == []


def test_a_failure_is_reported_once_until_a_gather_succeeds(lab: Lab) -> None:
    failed = "nothing was gathered this time: model.ckpt-1.index is damaged; save again; it is tried again"
    lab.saves(1)
    lab.damaged = True
    assert lab.looks(10, 20) == []
    assert lab.report.notes == [failed]
    lab.damaged = False
    assert lab.looks(30) == ["model.ckpt-1"]
    lab.saves(2)
    lab.damaged = True
    lab.looks(40, 50)
    assert lab.report.notes.count(failed) == 2


def test_an_error_that_nobody_expects_is_reported_and_the_next_gather_is_tried(lab: Lab) -> None:
    lab.saves(1)
    lab.has_bug = True
    assert lab.looks(10, 20) == []
    assert lab.report.notes == [
        "nothing was gathered this time: ZeroDivisionError: division by zero; it is tried again"
    ]
    lab.has_bug = False
    assert lab.looks(30) == ["model.ckpt-1"]


def test_a_chief_out_of_reach_is_awaited_in_silence(lab: Lab) -> None:
    lab.saves(1)
    lab.hosts["h2"].failure = Unreachable("h2", "no answer")
    assert lab.looks(10) == []
    assert lab.report.notes == []


def test_while_another_verb_changes_the_cluster_the_next_gather_is_awaited_in_silence(lab: Lab) -> None:
    lab.saves(1)
    with ClusterLock(lab.context, "down"):
        assert lab.looks(10) == []
    assert lab.report.notes == []
    assert lab.looks(20) == ["model.ckpt-1"]


def test_after_ctrl_c_nobody_waits_for_a_gather(lab: Lab) -> None:
    """A host may be silent; the next gather goes on with what was copied."""
    begun, answers, ended = threading.Event(), threading.Event(), list[bool]()

    def verify(_prefixes: Sequence[Path]) -> dict[str, Verification]:
        begun.set()
        ended.append(answers.wait(LONG))
        return {}

    class Threaded(ManualClock):
        def pool(self, workers: int) -> Executor:
            return ThreadPoolExecutor(workers)

    lab.saves(1)
    clock = Threaded()
    gathers = ScheduledGather(replace(lab.context, clock=clock, verify=verify), 10.0)

    def interrupted() -> None:
        with gathers:
            clock.time = 10
            gathers.look()
            assert begun.wait(LONG)
            raise KeyboardInterrupt

    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert ended == [], "the gather goes on"
    finally:
        answers.set()

"""What a supervisor refuses, finishes and starts, and what a `run` whose terminal is closed leaves for it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tfprov
from tests.support.clock import ManualClock
from tests.support.interrupts import press_ctrl_c
from tests.support.memory_plays import MemoryPlays
from tests.support.user_directory import enter
from tfprov.engine.context import Context
from tfprov.engine.observe import observe
from tfprov.errors import HangUp, HostError, Unreachable, Usage
from tfprov.history.reader import RunHistory
from tfprov.history.summary import RunSummary
from tfprov.hosts.memory import MemoryHosts
from tfprov.model.state import State
from tfprov.playbook import verbs
from tfprov.playbook.run import LeftRun
from tfprov.playbook.supervise import SupervisedRun, supervise

INVENTORY = """\
all:
  vars:
    tfprov: {cluster: lab, restart: never, code: code, command: [python, linear.py], checkpoints: none}
  children:
    ps: {hosts: {h1: {ansible_connection: local}}}
    worker: {hosts: {"h[2:3]": {ansible_connection: local}}}
"""
BARE = """\
all: {vars: {tfprov: {cluster: lab, strategy: standalone}}}
ps: {hosts: {h1: {ansible_connection: local}}}
worker: {hosts: {h2: {ansible_connection: local}}}
"""
ALL = {"ps/0", "worker/0", "worker/1"}


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    enter(tmp_path, monkeypatch, INVENTORY)
    return tmp_path


@pytest.fixture
def hosts() -> MemoryHosts:
    return MemoryHosts()


@pytest.fixture
def cluster(hosts: MemoryHosts) -> Iterator[tfprov.Cluster]:
    with tfprov.Cluster.load("inventory.yml", factory=hosts) as loaded:
        yield loaded


def the_run() -> RunSummary:
    (one,) = RunHistory().summaries()
    return one


def running(context: Context) -> set[str]:
    return {one.task for one in observe(context).containers() if one.state is State.RUNNING}


def until_the_chief_ends(hosts: MemoryHosts) -> ManualClock:
    """Return a clock on which the chief ends after 10 seconds."""
    clock = ManualClock()
    clock.at(10.0, lambda: hosts["h2"].exits("worker/0", 0))
    return clock


def hangs_up(*_: Any) -> None:
    raise HangUp


def left_by(run: Callable[[], object]) -> LeftRun:
    with pytest.raises(LeftRun) as caught:
        run()
    return caught.value


def test_servers_that_never_end_are_not_taken_down_by_a_supervisor(hosts: MemoryHosts, directory: Path) -> None:
    (directory / "inventory.yml").write_text(BARE)
    with tfprov.Cluster.load("inventory.yml", factory=hosts) as cluster:
        cluster.up()
        with pytest.raises(Usage, match="servers that never end"):
            supervise(cluster.prepare(), the_run().run, SupervisedRun())
        assert running(cluster.prepare()) == {"ps/0", "worker/0"}
    assert the_run().outcome == "up"


@pytest.mark.parametrize("options", [SupervisedRun(), SupervisedRun(may_start=True), SupervisedRun(drain=True)])
def test_a_supervisor_leaves_the_cluster_of_another_run_alone(
    cluster: tfprov.Cluster, hosts: MemoryHosts, options: SupervisedRun
) -> None:
    cluster.up()
    newer, older = the_run().run, "20200101T000000Z-aaaaaa"
    follows = f"`tfprov attach {newer[-6:]}` follows that one"
    with pytest.raises(Usage, match=f"run {older} is over: the cluster has run {newer}; {follows}"):
        supervise(replace(cluster.prepare(), clock=until_the_chief_ends(hosts)), older, options)
    assert running(cluster.prepare()) == ALL
    assert (the_run().run, the_run().outcome) == (newer, "up")


def test_the_cluster_of_an_up_is_not_taken_down_once_its_training_has_ended(
    cluster: tfprov.Cluster, hosts: MemoryHosts
) -> None:
    cluster.up()
    run = the_run().run
    hosts["h2"].exits("worker/0", 0)
    with pytest.raises(Usage, match=r"worker/0 has ended, .*; `tfprov gather` .*`tfprov down`"):
        supervise(cluster.prepare(), run, SupervisedRun(only_running=True))
    assert running(cluster.prepare()) == ALL - {"worker/0"}
    supervise(cluster.prepare(), run, SupervisedRun())  # the one of a `run` takes it down
    assert the_run().outcome == "succeeded"


def test_a_supervisor_waits_for_the_host_of_the_chief(cluster: tfprov.Cluster, hosts: MemoryHosts) -> None:
    cluster.up()
    hosts["h2"].failure = Unreachable("h2", "no route")
    clock = until_the_chief_ends(hosts)
    clock.at(7.0, lambda: setattr(hosts["h2"], "failure", None))
    supervise(replace(cluster.prepare(), clock=clock), the_run().run, SupervisedRun())
    assert the_run().outcome == "succeeded"


def test_a_supervisor_leaves_a_training_whose_chief_it_cannot_ask(cluster: tfprov.Cluster, hosts: MemoryHosts) -> None:
    cluster.up()
    hosts["h2"].failure = Unreachable("h2", "no route")
    clock = ManualClock()
    with pytest.raises(Unreachable, match="no route"):
        supervise(replace(cluster.prepare(), clock=clock), the_run().run, SupervisedRun())
    assert 300 <= clock.now() < 310
    hosts["h2"].failure = None
    assert running(cluster.prepare()) == ALL


def test_a_supervisor_takes_down_what_it_can_reach(cluster: tfprov.Cluster, hosts: MemoryHosts) -> None:
    cluster.up()
    hosts["h2"].failure = Unreachable("h2", "no route")
    with pytest.raises(Unreachable, match="no route"):
        supervise(replace(cluster.prepare(), clock=ManualClock()), the_run().run, SupervisedRun(drain=True))
    hosts["h2"].failure = None
    assert running(cluster.prepare()) == {"worker/0"}


def test_a_supervisor_keeps_what_did_start_as_run_was_to(cluster: tfprov.Cluster, hosts: MemoryHosts) -> None:
    context = cluster.prepare()
    hosts["h3"].taken["worker/1"] = "port 2222 is in use"
    run = left_by(lambda: run_that_hangs_up(context, hosts)).run
    clock = until_the_chief_ends(hosts)
    supervise(replace(context, clock=clock), run, SupervisedRun(may_start=True, partial=True))
    assert "start worker/0" in hosts["h2"].calls
    assert "start worker/1" in hosts["h3"].calls
    assert the_run().outcome == "succeeded"


def test_a_supervisor_resumes_as_run_was_to(cluster: tfprov.Cluster, hosts: MemoryHosts) -> None:
    context = replace(cluster.prepare(), clock=until_the_chief_ends(hosts))
    run = left_by(lambda: run_that_hangs_up(context, hosts)).run
    with pytest.raises(Usage, match="no checkpoint"):
        supervise(context, run, SupervisedRun(may_start=True, resume=True))
    assert "start worker/0" not in hosts["h2"].calls


def run_that_hangs_up(context: Context, hosts: MemoryHosts) -> None:
    """Run, and close the terminal while the code is delivered to h1."""
    known = hosts["h1"].deliver
    hosts["h1"].deliver = hangs_up  # type: ignore[assignment, method-assign]
    try:
        verbs.run(context, partial=True, discard=False)
    finally:
        hosts["h1"].deliver = known  # type: ignore[method-assign]


def test_a_terminal_that_is_closed_while_the_code_is_delivered_leaves_a_run_that_goes_on(
    cluster: tfprov.Cluster, hosts: MemoryHosts
) -> None:
    context = cluster.prepare()
    left = left_by(lambda: run_that_hangs_up(context, hosts))
    assert (left.run, left.drains) == (the_run().run, False)
    clock = until_the_chief_ends(hosts)
    supervise(replace(context, clock=clock), left.run, SupervisedRun(may_start=True))
    assert (the_run().run, the_run().outcome) == (left.run, "succeeded")


def test_a_terminal_that_is_closed_after_ctrl_c_leaves_a_cluster_that_is_only_taken_down(
    cluster: tfprov.Cluster, hosts: MemoryHosts
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    clock = ManualClock()
    clock.at(10.0, interrupt)
    context = replace(cluster.prepare(), clock=clock)
    stop, hosts["h1"].stop = hosts["h1"].stop, hangs_up  # type: ignore[assignment, method-assign]
    left = left_by(lambda: verbs.run(context, partial=False, discard=False))
    assert (left.run, left.drains, the_run().outcome) == (the_run().run, True, "up")
    hosts["h1"].stop = stop  # type: ignore[method-assign]
    starts = [host.calls.count(f"start {task}") for host in hosts.values() for task in ALL]
    supervise(cluster.prepare(), left.run, SupervisedRun(drain=True))
    assert list(observe(cluster.prepare()).containers()) == []
    assert [host.calls.count(f"start {task}") for host in hosts.values() for task in ALL] == starts
    assert (the_run().run, the_run().outcome) == (left.run, "stopped")


def test_a_terminal_that_is_closed_while_a_failed_start_is_taken_back_leaves_nothing_to_start(
    cluster: tfprov.Cluster, hosts: MemoryHosts
) -> None:
    def fails(*_: Any) -> None:
        raise HostError("h3", "no space left")

    context = cluster.prepare()
    hosts["h3"].start, hosts["h2"].remove = fails, hangs_up  # type: ignore[assignment, method-assign]
    assert left_by(lambda: verbs.run(context, partial=False, discard=False)).drains


def test_a_terminal_that_is_closed_while_ctrl_c_lets_an_action_finish_leaves_nothing_to_start(tmp_path: Path) -> None:
    plays = MemoryPlays(tmp_path, INVENTORY)

    def start(*_: Any) -> None:
        press_ctrl_c(plays.report)
        raise HangUp

    plays.hosts["h1"].start = start  # type: ignore[assignment, method-assign]
    assert left_by(lambda: plays.play("- {hosts: all, tasks: [start]}")).drains

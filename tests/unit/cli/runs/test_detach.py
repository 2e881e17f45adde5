"""The handover of a `run` whose terminal is closed: with which order its supervisor is started."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

import tfprov
from tests.support.run_history import record_run, scripted
from tests.support.user_directory import enter
from tfprov.cli.play import down_command, run_command
from tfprov.cli.runs.detach import RunHandover
from tfprov.engine.events import Awaiting, Event, RunStarted
from tfprov.errors import HangUp, Usage
from tfprov.history.run_dir import RunDir
from tfprov.hosts.memory import MemoryHosts
from tfprov.playbook.run import LeftRun
from tfprov.supervision.launch import Launched
from tfprov.supervision.order import SupervisorOrder

INVENTORY = """\
all: {vars: {ansible_connection: local, tfprov: {cluster: lab, code: code, command: [python, linear.py]}}}
worker: {hosts: {h1: }}
"""
BARE = """\
all: {vars: {ansible_connection: local, tfprov: {cluster: lab, strategy: standalone}}}
ps: {hosts: {localhost: }}
worker: {hosts: {localhost: }}
"""
OPTIONS = {"sources": ("inventory.yml",), "partial": True, "resume": True, "discard": True}


class Handover:
    """A handover whose supervisor is not started; `orders` has what it would get, by the run."""

    def __init__(self, cluster: tfprov.Cluster, options: Mapping[str, Any]) -> None:
        self.cluster, self.orders = cluster, {}  # type: tfprov.Cluster, dict[str, SupervisorOrder]
        self.handover = RunHandover(options, lambda _event: None, self.start)

    def start(self, directory: RunDir, order: SupervisorOrder) -> Launched:
        self.orders[directory.id] = order
        return cast("Launched", None)

    def left(self, hang_up: HangUp, *events: Event) -> bool | None:
        for event in events:
            self.handover.handle(event)
        return self.handover.hang_up(self.cluster, hang_up)


@pytest.fixture
def handover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Handover]:
    enter(tmp_path, monkeypatch, INVENTORY)
    with tfprov.Cluster.load("inventory.yml", factory=MemoryHosts()) as cluster:
        yield Handover(cluster, OPTIONS)


def recorded(handover: Handover) -> str:
    return record_run(handover.cluster.definition.home / "runs", 1, scripted()).id


def test_the_supervisor_gets_the_options_of_run(handover: Handover) -> None:
    run = recorded(handover)
    assert handover.left(HangUp(), RunStarted(run)) is True
    order = handover.orders[run]
    assert (order.partial, order.resume, order.discard) == (True, True, True)
    assert (order.may_start, order.drain) == (True, False)


def test_a_cluster_that_is_up_is_not_started(handover: Handover) -> None:
    run = recorded(handover)
    assert handover.left(LeftRun(run), RunStarted(run), Awaiting("waiting for the first step of worker/0")) is True
    assert (handover.orders[run].may_start, handover.orders[run].drain) == (False, False)


def test_a_cluster_that_was_being_taken_down_is_taken_down_and_not_started(handover: Handover) -> None:
    run = recorded(handover)
    assert handover.left(LeftRun(run, drains=True), RunStarted(run)) is True
    assert (handover.orders[run].may_start, handover.orders[run].drain) == (False, True)


def test_a_run_of_which_no_task_has_started_goes_on_by_its_record(handover: Handover) -> None:
    run = recorded(handover)
    assert handover.left(LeftRun(run)) is True
    assert handover.orders[run].may_start


def test_where_nothing_was_begun_there_is_no_supervisor(handover: Handover) -> None:
    assert handover.left(HangUp()) is None
    assert handover.left(LeftRun("20260101T000100Z-aaaaaa")) is None, "its record was removed, as nothing was in it"
    assert handover.orders == {}


def test_a_detached_run_of_servers_that_never_end_is_refused_before_they_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter(tmp_path, monkeypatch, BARE)
    started = (tmp_path / "home").rglob("tasks")
    done = CliRunner().invoke(run_command, ["--detach"])
    try:
        assert isinstance(done.exception, Usage)
        assert "servers that never end" in str(done.exception)
        assert next(started, None) is None
    finally:
        CliRunner().invoke(down_command, ["--discard"])  # what is left of them if they were started

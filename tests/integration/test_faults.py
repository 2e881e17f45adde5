"""Faults of the lab's hosts while a cluster trains on them: docs/reliability.md says which test shows which fault."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.lab_cluster import LabCluster, open_lab_cluster, standin
from tests.support.testhosts import Lab
from tests.support.waiting import until

IMPATIENT: dict[str, Any] = {"ansible_timeout": 5}
"""While a host is away: every verb looks for it as long as a connection may take."""


@pytest.fixture
def two(lab: Lab, tiny_archive: Path, tmp_path: Path) -> Iterator[LabCluster]:
    """A ps and the chief on two hosts, training for a long time."""
    for made in open_lab_cluster(lab, tmp_path):
        one, other, *_ = lab.hosts
        made.write({"ps": [one], "worker": [other]}, standin(tiny_archive))
        yield made


def test_hosts_that_allow_one_session_on_a_connection_train_as_others_do(two: LabCluster, tiny_archive: Path) -> None:
    one, other, *_ = two.lab.hosts
    for host in (one, other):
        host.sshd_option("MaxSessions 1")
    two.write({"ps": [one], "worker": [other]}, standin(tiny_archive, train_steps=20))
    assert "done: step=20" in two("run")
    assert (two.directory / "checkpoints" / "lab" / "checkpoint").exists()
    assert not any(two.containers().values())


def ids(made: LabCluster) -> int:
    return sum(map(len, made.containers().values()))


def states(made: LabCluster) -> dict[str, str]:
    return {task: facts["state"] for task, facts in made.tasks().items()}


def test_an_engine_restart_during_a_training_is_reported_and_repaired(two: LabCluster) -> None:
    host = two.lab.hosts[1]
    two("up")
    host.service("engine", "kill")
    printed = two("status", code=1)
    assert re.search(r"^error: node2: its Docker engine does not run; start it there", printed, re.MULTILINE), printed
    assert re.search(r"^ps/0 +running ", printed, re.MULTILINE), printed
    host.service("engine", "start")
    host.wait()
    two("up")
    assert states(two) == {"ps/0": "running", "worker/0": "running"}
    assert "nothing to do" in two("up")
    assert ids(two) == 2
    two("down")
    assert not any(two.containers().values())


def test_a_host_that_returns_at_another_address_is_reported_and_repaired(two: LabCluster, tiny_archive: Path) -> None:
    one, other, *_ = two.lab.hosts
    two("up")
    until(lambda: "saved" in two("logs", "worker/0"), "the chief has saved")
    before, known = other.address, two.lab.bed.known_hosts
    try:
        two.write({"ps": [one], "worker": [other]}, standin(tiny_archive), **IMPATIENT)
        other.move(str(two.lab.subnet[200]))
        printed = two("status", code=4)
        assert re.search(rf"^error: node2: .*{re.escape(before)}", printed, re.MULTILINE), printed
        known.write_text(f"{known.read_text()}{other.address} {other.public_key}\n")
        two.write({"ps": [one], "worker": [other]}, standin(tiny_archive))
        planned = two("plan")
        assert f"{before}:2222 -> {other.address}:2222" in planned, planned
        two("up")
        assert states(two) == {"ps/0": "running", "worker/0": "running"}
        assert "nothing to do" in two("up")
        assert ids(two) == 2
        two("down")
        assert (two.directory / "checkpoints" / "lab" / "checkpoint").exists()
    finally:
        other.address = before


def test_plan_without_a_lost_ps_host_names_the_restarts_and_their_step(two: LabCluster, tiny_archive: Path) -> None:
    one, other, third, _ = two.lab.hosts
    two("up")
    until(lambda: "step 12" in two("logs", "worker/0"), "some steps")
    one.stop()
    two.write({"ps": [one], "worker": [other]}, standin(tiny_archive), **IMPATIENT)
    assert re.search(r"^ps/0 +unreachable ", two("status", code=4), re.MULTILINE)
    two.write({"ps": [third], "worker": [other]}, standin(tiny_archive), **IMPATIENT)
    planned = two("plan")
    assert re.search(r"start +ps/0 +on node3 ", planned), planned
    assert re.search(r"(start|restart) +worker/0 +on node2 ", planned), planned
    assert re.search(r"goes on from step \d+", planned), planned
    assert "node1" in planned, planned
    two("up")
    assert states(two) == {"ps/0": "running", "worker/0": "running"}
    assert [len(made) for made in two.containers((other, third)).values()] == [1, 1]


def test_a_slow_host_is_waited_for(two: LabCluster, tiny_archive: Path) -> None:
    one, other, third, _ = two.lab.hosts
    two.write({"ps": [one], "worker": [other, third]}, standin(tiny_archive))
    third.forget_images()
    with third.slowed("256kbit"):
        printed = two("up")
        assert "node3" in printed
        assert states(two) == {"ps/0": "running", "worker/0": "running", "worker/1": "running"}
        two("down")


@pytest.mark.parametrize("pairs", [2, pytest.param(30, marks=pytest.mark.matrix)])
def test_racing_controllers_leave_one_cluster_or_none(
    two: LabCluster, tiny_archive: Path, tmp_path: Path, pairs: int
) -> None:
    one, other, *_ = two.lab.hosts
    (tmp_path / "other").mkdir()
    second = LabCluster(two.lab, tmp_path / "other")
    second.write({"ps": [one], "worker": [other]}, standin(tiny_archive))
    try:
        for number in range(pairs):
            racing = [two.start("up"), second.start(*(("down", "--discard") if number % 2 else ("up",)))]
            for process in racing:
                printed = process.communicate()[0]
                assert process.returncode in (0, 3), printed
                assert process.returncode == 0 or "is in use by `tfprov " in printed, printed
            assert all(len(made) <= 1 for made in two.containers().values())
    finally:
        second.end()
    two("up")
    assert states(two) == {"ps/0": "running", "worker/0": "running"}
    two("down", "--discard")
    assert not any(two.containers().values())


@pytest.mark.parametrize("times", [4, pytest.param(200, marks=pytest.mark.matrix)])
def test_repeated_commands_leave_nothing_on_a_host(two: LabCluster, times: int) -> None:
    host = two.lab.hosts[1]
    two("up")
    for _ in range(times):
        assert "running" in two("status")
    until(lambda: not re.search(r"sshd: trainer|dial-stdio", host.run("ps", "-eo", "args")), "all sessions have ended")
    two("down", "--discard")

"""Hosts at fault while a cluster trains on them, in the lab: docs/reliability.md says which test shows which fault."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.remote import Cluster, cluster, standin
from tests.support.testhosts import Lab


@pytest.fixture
def two(lab: Lab, tiny_archive: Path, tmp_path: Path) -> Iterator[Cluster]:
    """A ps and the chief on two hosts, training for a long time."""
    for made in cluster(lab, tmp_path):
        one, other, *_ = lab.hosts
        made.write({"ps": [one], "worker": [other]}, standin(tiny_archive))
        yield made


def test_hosts_that_allow_one_session_on_a_connection_train_as_others_do(two: Cluster, tiny_archive: Path) -> None:
    one, other, *_ = two.lab.hosts
    for host in (one, other):
        host.sshd_option("MaxSessions 1")
    two.write({"ps": [one], "worker": [other]}, standin(tiny_archive, train_steps=20))
    assert "done: step=20" in two("run")
    assert (two.directory / "checkpoints" / "lab" / "checkpoint").exists()
    assert not any(two.containers().values())

"""Probes of large clusters: how long temporary containers are there, and how many targets a program gets."""

import json
from itertools import chain
from typing import cast

import pytest

from tests.support.hostile import ID, answered, engine, framed, recorded
from tfprov.engine.checks.reachability_probes import Aim, ProbeSource, Probing
from tfprov.hosts.docker.reachability_probe import Endpoint, probe
from tfprov.hosts.machine import Machine
from tfprov.model.cluster import Task


def probing(hosts: int, tasks_per_host: int, forks: int = 32, running: int = 0) -> Probing:
    """Return a round in a cluster of `hosts`, each of which tries its own tasks; `running` tasks have no stand-in."""
    tasks = {
        name: [
            Task("worker", at * tasks_per_host + slot, "worker", name, name, 2222 + slot)
            for slot in range(tasks_per_host)
        ]
        for at, name in enumerate(f"h{number}" for number in range(hosts))
    }
    aims = [Aim(task, "image", runs=number < running) for number, task in enumerate(chain(*tasks.values()))]
    tried = {name: {task.name for task in own} for name, own in tasks.items()}
    sources = {name: ProbeSource(cast(Machine, None), "image") for name in tasks}
    return Probing("lab", sources, aims, tried, forks, alone=False)


def test_stand_ins_of_a_small_cluster_end_after_two_minutes() -> None:
    assert probing(0, 1).lifetime == probing(3, 4).lifetime == probing(32, 8).lifetime == 120


@pytest.mark.parametrize(("hosts", "tasks_per_host", "seconds"), [(1000, 8, 1800), (1000, 1, 700)])
def test_stand_ins_of_a_large_cluster_are_there_until_its_last_host_has_tried(
    hosts: int, tasks_per_host: int, seconds: int
) -> None:
    assert seconds < probing(hosts, tasks_per_host).lifetime < 1.2 * seconds
    assert probing(hosts, tasks_per_host, forks=128).lifetime < seconds / 2
    assert probing(hosts, tasks_per_host, running=hosts * tasks_per_host).lifetime < seconds


def test_the_targets_of_a_large_cluster_are_tried_in_parts_that_fit_into_an_argument() -> None:
    parts = iter([["ok"] * 256, ["refused"] * 256, ["silent"] * 88])

    def answer(_method: str, path: str) -> bytes:
        if path.endswith("/start"):
            return answered(framed(1, json.dumps(next(parts)).encode())).replace(b"Content-Length", b"X-Was")
        return recorded(path)

    greeting = f"tfprov-check {'0' * 16} worker/"
    targets = [Endpoint(f"{'long.' * 50}h{number}", 2222, f"{greeting}{number}") for number in range(600)]
    assert probe(engine(answer), ID, targets) == ["ok"] * 256 + ["refused"] * 256 + ["silent"] * 88
    assert probe(engine(answer), ID, []) == []
    assert len(json.dumps([[one.address, one.port, one.greeting] for one in targets[:256]])) < 128 * 1024

"""tfprov.engine.checks.connections: which addresses are tried from which host."""

from dataclasses import replace

import pytest

from tfprov.engine.checks.connections import WHOLE, connections
from tfprov.engine.checks.reachability import OK, Cell, Reason, is_whole, summary
from tfprov.model.cluster import Cluster, Task


def cluster_of(**jobs: int) -> Cluster:
    """Return a cluster with that many tasks of each job, each on a host of its own: `worker-3` has `worker/3`."""
    return Cluster(
        "c",
        tuple(
            Task(job, index, job, f"{job}-{index}", f"10.{number}.0.{index}", 2222)
            for number, (job, count) in enumerate(jobs.items())
            for index in range(count)
        ),
    )


def tried(cluster: Cluster, strategy: str) -> set[tuple[str, str]]:
    """Return the pairs of a task, which stands for its host, and a task to try from there."""
    hosts = [task.host for task in cluster.tasks]
    names_of = connections(cluster, hosts, [task.name for task in cluster.tasks], strategy)
    assert list(names_of) == hosts
    return {(host.replace("-", "/"), name) for host, names in names_of.items() for name in names}


@pytest.mark.parametrize("strategy", ["", "between_graph", "parameter_server", "multi_worker_mirrored"])
def test_a_small_cluster_is_tried_whole(strategy: str) -> None:
    assert len(tried(cluster_of(ps=1, worker=19), strategy)) == 20 * 20 == WHOLE
    assert len(tried(cluster_of(ps=1, worker=20), strategy)) < WHOLE


@pytest.mark.parametrize("strategy", ["between_graph", "parameter_server", "in_graph", "standalone"])
def test_every_task_tries_every_ps_and_is_tried_from_there(strategy: str) -> None:
    pairs = tried(cluster_of(chief=1, ps=3, worker=250), strategy)
    for ps in range(3):
        for other in ("chief/0", "worker/0", "worker/120", "worker/249"):
            assert {(f"ps/{ps}", other), (other, f"ps/{ps}")} <= pairs


@pytest.mark.parametrize("strategy", ["parameter_server", "in_graph", "standalone"])
def test_a_chief_that_drives_the_workers_tries_them_all(strategy: str) -> None:
    cluster = cluster_of(chief=1, ps=3, worker=250)
    assert {("chief/0", f"worker/{n}") for n in range(250)} <= tried(cluster, strategy)
    assert ("chief/0", "worker/120") not in tried(cluster, "between_graph")


def test_workers_that_average_try_their_leader_the_next_rank_and_their_parent() -> None:
    pairs = tried(cluster_of(worker=256), "multi_worker_mirrored")
    for pair in [("worker/200", "worker/0"), ("worker/255", "worker/0"), ("worker/200", "worker/201"),
                 ("worker/200", "worker/99"), ("worker/200", "worker/200")]:  # fmt: skip
        assert {pair, pair[::-1]} <= pairs
    assert ("worker/200", "worker/57") not in pairs


def test_neighbours_and_own_tasks_are_tried_whatever_the_strategy_uses() -> None:
    pairs = tried(cluster_of(ps=1, worker=255), "between_graph")
    for n in range(254):
        assert {(f"worker/{n}", f"worker/{n + 1}"), (f"worker/{n + 1}", f"worker/{n}"), (f"worker/{n}",) * 2} <= pairs
    assert len(pairs) < 6 * 256, "grows with the hosts, not with their square"


def test_the_tasks_of_a_data_service_are_tried_from_everywhere() -> None:
    pairs = tried(cluster_of(worker=40, dispatcher=1, data_worker=2), "between_graph")
    assert {(f"worker/{n}", it) for n in range(40) for it in ("dispatcher/0", "data_worker/1")} <= pairs
    assert ("dispatcher/0", "data_worker/1") in pairs


def test_what_is_outside_of_the_cluster_is_tried_from_every_host() -> None:
    cluster = cluster_of(ps=1, worker=30)
    hosts = [task.host for task in cluster.tasks]
    names = [*(task.name for task in cluster.tasks), "data_service/0"]
    assert all("data_service/0" in it for it in connections(cluster, hosts, names, "between_graph").values())


def test_a_host_that_is_not_examined_and_a_task_that_is_not_tried_are_left_out() -> None:
    cluster = cluster_of(ps=1, worker=60)
    some = connections(cluster, [f"worker-{n}" for n in range(30)], [f"worker/{n}" for n in range(30)], "")
    assert set().union(*some.values()) == {f"worker/{n}" for n in range(30)}


def test_a_sentence_takes_the_tables_place() -> None:
    one, two = Task("ps", 0, "ps", "a", "10.0.0.1", 2222), Task("worker", 0, "worker", "b", "10.0.0.2", 2222)
    cells = [Cell("a", one, OK), Cell("b", one, "refused"), Cell("b", two, "-", Reason("locked"))]
    assert not is_whole(cells)
    assert is_whole(cells[:2])
    assert summary(cells) == (
        "addresses of 2 tasks from 2 hosts: 1 of 3 pairs connect; only those of the strategy and of neighbours were tried"
    )
    many = [Cell(f"h{n}", replace(one, index=n), OK) for n in range(1500)]
    assert summary([*many, *cells]) == (
        "addresses of 1,501 tasks from 1,502 hosts: 1,501 of 1,503 pairs connect; "
        "only those of the strategy and of neighbours were tried"
    )


def test_a_reason_names_the_host_with_the_problem() -> None:
    assert (str(Reason("no image", "h1")), str(Reason("locked"))) == ("h1: no image", "locked")

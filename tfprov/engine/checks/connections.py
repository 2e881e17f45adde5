"""Which addresses `check` tries from which host. Pure.

Every address from every host are n² pairs, and each needs a connection. In a large cluster only those are tried that its
strategy uses, and a ring beside them: a host that others cannot reach fails for its neighbours, too.
"""

from collections.abc import Collection, Mapping, Sequence

from tfprov.model.cluster import Cluster, Task

WHOLE = 400
"""The number of pairs up to which all are tried: 20 hosts with a task each take a few seconds."""

CHIEF_DRIVEN = ("in_graph", "parameter_server", "multi_worker_mirrored", "standalone")
"""Strategies in which every task talks to the chief: it runs the steps, or it is the leader of the collectives."""


def every(hosts: Sequence[str], tasks: Collection[str]) -> Mapping[str, set[str]]:
    """Return all of `tasks` for each of `hosts`."""
    return {host: set(tasks) for host in hosts}


def connections(
    cluster: Cluster, hosts: Sequence[str], tasks: Collection[str], strategy: str
) -> Mapping[str, set[str]]:
    """Return the names of those of `tasks` to try from each of `hosts`, which are in the inventory's order.

    All of them up to WHOLE pairs. Else a host tries its own tasks, those of its neighbours in the ring of all hosts, and
    those that its tasks connect to; all hosts try what is outside of the cluster.
    """
    if len(hosts) * len(tasks) <= WHOLE:
        return every(hosts, tasks)
    there = [task for name in tasks if (task := cluster.find(name)) is not None]
    outside = set(tasks) - {task.name for task in there}  # the dispatcher of another cluster
    on: dict[str, list[Task]] = {}
    for task in there:
        on.setdefault(task.host, []).append(task)
    tried: dict[str, set[str]] = {host: {task.name for task in on.get(host, ())} | outside for host in hosts}
    for host, following in zip(hosts, [*hosts[1:], *hosts[:1]], strict=True):
        tried[host] |= {task.name for task in on.get(following, ())}
        tried[following] |= {task.name for task in on.get(host, ())}
    for one, other in _pairs(cluster, there, strategy):
        for source, target in ((one, other), (other, one)):
            if source.host in tried:
                tried[source.host].add(target.name)
    return tried


def _pairs(cluster: Cluster, tasks: Sequence[Task], strategy: str) -> list[tuple[Task, Task]]:
    """Return the tasks that connect to each other, in one direction or in both."""
    ranked = sorted((task for task in tasks if task.name in cluster.ranks), key=lambda task: cluster.ranks[task.name])
    hubs = [task for task in tasks if task.job == "ps" or task.feeds]
    if strategy in CHIEF_DRIVEN:
        hubs += ranked[:1]
    return [(hub, task) for hub in hubs for task in tasks if task.job != "ps" or hub.job != "ps"] + (
        _collective(ranked) if strategy == "multi_worker_mirrored" else []
    )


def _collective(ranked: Sequence[Task]) -> list[tuple[Task, Task]]:
    """Return the ring over the ranks, which reduces gradients, and the binary tree, which broadcasts variables."""
    ring = zip(ranked, [*ranked[1:], *ranked[:1]], strict=True)
    return [*ring, *((ranked[(n - 1) // 2], task) for n, task in enumerate(ranked) if n)]

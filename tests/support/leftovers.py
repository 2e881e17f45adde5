"""Clusters of which something is left on hosts in memory."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tests.support.clusters import Left
from tests.support.world import MemoryStore, Runtimes, as_left, leave, world
from tfprov.engine.context import Context
from tfprov.hosts.base import NO_FILES, OnProgress, ignore_progress
from tfprov.hosts.memory import MemoryRuntime
from tfprov.model.state import Container, State


class Watched(MemoryRuntime):
    """A host in memory that knows its neighbours: no task may ever run twice, and no port be taken twice."""

    def __init__(self, host: str, all_hosts: Runtimes) -> None:
        super().__init__(host)
        self.all_hosts = all_hosts

    def start(
        self,
        container: Container,
        run: str,
        restore: Mapping[str, Path] = NO_FILES,
        on_progress: OnProgress = ignore_progress,
    ) -> None:
        for runtime in self.all_hosts.values():
            for other in runtime.observe().containers:
                if other.state is State.RUNNING:
                    assert other.task != container.task.name, f"{other.task} would run twice"
                    taken = other.spec["endpoint"] == container.task.endpoint
                    assert not taken, f"{container.task.name} needs the port of {other.task}"
        super().start(container, run, restore)


def build(inventory: str, left: Left | None = None) -> tuple[Context, Runtimes]:
    hosts: Runtimes = {}
    hosts |= {name: Watched(name, hosts) for name in ("h1", "h2", "h3", "h4", "h9")}
    store = MemoryStore()
    if left is not None:
        was = world(left.inventory, (), hosts, store)
        for container, state in zip(was.wanted, left.states, strict=False):
            if state != "gone":
                leave(was, hosts, container.task.host, container, state)
        for task, host, state in left.strays:
            stray = as_left(was.wanted[0], host, state)
            spec = {**stray.spec, "endpoint": f"{host}:1"}
            hosts[host].puts(replace(stray, task=task, spec=spec))
    return world(inventory, (), hosts, store), hosts

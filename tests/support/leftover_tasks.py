"""Clusters with leftover tasks on hosts in memory."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tests.support.inventory_strategies import HostState
from tests.support.memory_cluster import (
    MemoryStore,
    ReadInventory,
    Runtimes,
    add_container,
    make_context,
    observed_container,
)
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


class Builder:
    """Builds the same situation again and again, of inventories that are read once."""

    def __init__(self, inventory: str, left: HostState | None = None) -> None:
        self._inventory, self._left = ReadInventory.of(inventory), left
        same = left is not None and left.inventory == inventory
        self._earlier = self._inventory if left is None or same else ReadInventory.of(left.inventory)

    def __call__(self) -> tuple[Context, Runtimes]:
        """Return a context of its own, and the hosts with their tasks."""
        return _build(self._inventory, self._earlier, self._left)


def build(inventory: str, left: HostState | None = None) -> tuple[Context, Runtimes]:
    return Builder(inventory, left)()


def _build(inventory: ReadInventory, earlier: ReadInventory, left: HostState | None) -> tuple[Context, Runtimes]:
    hosts: Runtimes = {}
    hosts |= {name: Watched(name, hosts) for name in ("h1", "h2", "h3", "h4", "h9")}
    store = MemoryStore()
    if left is not None:
        was = make_context(earlier, (), hosts, store)
        for container, state in zip(was.wanted, left.states, strict=False):
            if state != "gone":
                add_container(was, hosts, container.task.host, container, state)
        for task, host, state in left.strays:
            stray = observed_container(was.wanted[0], host, state)
            spec = {**stray.spec, "endpoint": f"{host}:1"}
            hosts[host].puts(replace(stray, task=task, spec=spec))
    return make_context(inventory, (), hosts, store), hosts

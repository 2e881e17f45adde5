"""What every verb works with: the wanted cluster, the way to its hosts, and where things are kept."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tfprov.delivery.code import Code
from tfprov.delivery.store import CodeStore
from tfprov.engine.report import Quiet, Reporter
from tfprov.errors import Usage
from tfprov.hosts.base import Runtime
from tfprov.model.cluster import Cluster
from tfprov.model.inventory import Inventory
from tfprov.model.state import Container, Observation, Observed

DEFAULT_FORKS = 32
"""Hosts worked on at the same time; Ansible's default is 5, which leaves most of a cluster waiting."""


@dataclass(frozen=True)
class Context:
    """One cluster, as its inventory wants it. `home` is its directory on the controller, `target` where gathers go."""

    inventory: Inventory
    cluster: Cluster
    wanted: tuple[Container, ...]
    runtimes: Mapping[str, Runtime]
    packed: Mapping[str, Code]
    store: CodeStore
    home: Path
    target: Path
    report: Reporter = field(default_factory=Quiet)
    forks: int = DEFAULT_FORKS
    hosts: frozenset[str] | None = None
    """The hosts that may be changed (`--limit`, a play's `hosts:`); None for all, also those not in the inventory."""

    def limited(self, hosts: Iterable[str]) -> "Context":
        """Return this context with only those of its hosts that are among `hosts`."""
        allowed = frozenset(hosts)
        return replace(self, hosts=allowed if self.hosts is None else allowed & self.hosts)

    def allows(self, host: str) -> bool:
        """Whether `host` may be changed."""
        return self.hosts is None or host in self.hosts

    def container(self, task: str) -> Container | None:
        """Return the wanted container of the task called `task`, or None."""
        return next((container for container in self.wanted if container.task.name == task), None)

    def observed(self, task: str, seen: Observation) -> Observed | None:
        """Return the container of `task`: where it should be, or else where it is; None when it is nowhere."""
        wanted = self.container(task)
        found = [container for container in seen.containers() if container.task == task]
        return next((c for c in found if wanted and c.host == wanted.task.host), found[0] if found else None)

    def chief(self, seen: Observation) -> Observed | None:
        """Return the container of the chief, or None."""
        return self.observed(self.cluster.chief.name, seen)

    def runtime_of(self, task: str, seen: Observation) -> tuple[Runtime, Observed]:
        """Return where `task` is, and its container; Usage when the cluster has no such task or it is not there."""
        observed = self.observed(task, seen)
        if observed is None:
            names = ", ".join(container.task.name for container in self.wanted)
            what = (
                f"{task} is not there" if self.container(task) else f"no task `{task}` in cluster {self.cluster.name}"
            )
            raise Usage(what, "start it with `tfprov up`" if self.container(task) else f"its tasks are {names}")
        return self.runtimes[observed.host], observed

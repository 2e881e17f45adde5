"""The context of a verb: the desired cluster, a runtime for each host, and the controller's directories."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tfprov.engine.artifacts import Artifact, Fetched, Ready, never_code
from tfprov.engine.checkpoints.verify import Verify, verify
from tfprov.engine.concurrency import MIN_FORKS, Clock
from tfprov.engine.events import Quiet
from tfprov.engine.host_registry import HostRegistry
from tfprov.engine.reporter import Reporter
from tfprov.errors import HostError, InvalidInput, Usage, Warn, ignore_warning
from tfprov.filesystems.remote_dir import OpenRemote, open_remote
from tfprov.hosts.base import Changes, Runtime
from tfprov.images.code import Code
from tfprov.model.cluster import Cluster
from tfprov.model.inventory import Inventory
from tfprov.model.state import Container, Observation, Observed
from tfprov.paths import state_home
from tfprov.settings.connection import ConnectionSettings
from tfprov.settings.load import SourceList, load
from tfprov.settings.role_settings import RoleSettings, resolve_path
from tfprov.vault.decrypt import Vault

if TYPE_CHECKING:  # it imports the SSH library and the docker SDK
    from tfprov.hosts.machine import Machine


@dataclass(frozen=True)
class Definition:
    """A cluster as its inventory defines it: the sources with what they contain, before any host is involved."""

    sources: SourceList
    extra: tuple[str, ...]
    vault: Vault | None
    inventory: Inventory
    roles: tuple[RoleSettings, ...]

    @classmethod
    def load(
        cls,
        sources: SourceList,
        extra: Sequence[str] = (),
        vault: Vault | None = None,
        warn: Warn = ignore_warning,
        lookup_dirs: Sequence[str] = (),
    ) -> "Definition":
        """Read and check the inventory in `sources`; InvalidInput carries every problem. See settings.load.load.

        What cannot be read of an `env_file` is reported by `check_files`.
        """
        inventory, roles = load(sources, extra, vault, warn, lookup_dirs, needs_files=False)
        return cls(sources, tuple(extra), vault, inventory, roles)

    def check_files(self) -> None:
        """Raise InvalidInput for every `env_file` that cannot be read: no task may start without its variables."""
        if problems := [problem for role in self.roles for problem in role.unread]:
            raise InvalidInput(problems)

    @property
    def name(self) -> str:
        """Return the cluster's name."""
        return self.roles[0].values.cluster

    @property
    def home(self) -> Path:
        """Return the cluster's directory on the controller."""
        return state_home() / "clusters" / self.name

    @property
    def has_remote_checkpoints(self) -> bool:
        """Whether checkpoints go to a remote directory: a gather reads that, and needs no host."""
        return any(role.values.checkpoints.remote is not None for role in self.roles)

    @property
    def never_code(self) -> frozenset[Path]:
        """Return the files that are never part of `code:`, such as the inventory's own and vault password files."""
        return never_code(self.sources, self.roles, self.vault, self.extra)


@dataclass(frozen=True)
class Context:
    """A cluster with its hosts. `home` is its directory on the controller, `target` the gather directory."""

    inventory: Inventory
    cluster: Cluster
    wanted: tuple[Container, ...]
    runtimes: Mapping[str, Runtime]
    artifacts: Mapping[str, Artifact]
    home: Path
    target: Path
    data: Mapping[str, Fetched] = field(default_factory=dict)
    """The data sets that hosts fetch, by their names as artifacts."""
    report: Reporter = field(default_factory=Quiet)
    clock: Clock = field(default_factory=Clock)
    """The clock of the run."""
    verify: Verify = verify
    """Reads the tensors of a gathered checkpoint."""
    open_remote: OpenRemote = open_remote
    """Opens the chief's remote directory."""
    forks: int = MIN_FORKS
    fold: bool = False
    """Whether many actions of a plan that are alike have one line."""
    hosts: frozenset[str] | None = None
    """The hosts that may be changed (`--limit`, a play's `hosts:`); None for all, also those not in the inventory."""
    changes: Mapping[str, Callable[[], Changes]] = field(default_factory=dict)
    """Begins to report the changes on a host, for hosts that can; it raises HostError. Others are looked at."""
    machines: "Mapping[str, Machine]" = field(default_factory=dict)
    """Every host with a Docker engine; none under the process runtime."""
    left: frozenset[str] = frozenset()
    """Hosts that left the inventory and may still have tasks of the cluster."""
    registry: HostRegistry | None = None
    """The record of hosts that received something; `connections` are the connection settings of the inventory's hosts."""
    connections: Mapping[str, ConnectionSettings] = field(default_factory=dict)
    former: Mapping[str, ConnectionSettings] = field(default_factory=dict)
    """Those under which the record has hosts of the inventory that are elsewhere now; their names are in `left`."""
    resume: bool = False
    """Whether a training that starts resumes from the newest gathered checkpoint."""
    codes: Mapping[str, Code] = field(default_factory=dict)
    """The packed code of all tasks, by its digest."""
    is_whole: bool = True
    """Whether the code and the data of every task are there, as for a start."""
    roles: tuple[RoleSettings, ...] = ()
    """The settings of every role on every host, to be kept with the logs."""
    logs: Path | None = None
    """The directory for the logs of removed tasks; None keeps no logs."""
    history: Path | None = None
    """The directory of the cluster's runs on the controller; None records none."""
    deadline: float | None = None
    """When the run is ended, in the seconds of `clock.now()`; None for no limit."""
    new_run: str = ""
    """The id of a run that starts anew; empty for one that is made at its start."""
    before_remove: Callable[[str, str], None] | None = None
    """Called with a task and its host just before the task is removed, or started in the place of an earlier container."""
    saves: bool = True
    """Whether the program is expected to save checkpoints (`checkpoints: none` says that it is not)."""
    followed: bool = False
    """Whether the training was followed to its end by the same play, which then answers for a missing checkpoint."""
    interrupted: bool = False
    """Whether Ctrl-C has come already: the next one waits for nothing."""
    partial: bool = False
    """Whether started tasks stay if others cannot be started (`--partial`)."""
    tolerant: bool = False
    """Whether to continue without unreachable hosts, as `down` does."""
    code: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """The `code:` directory of each role on each host, as a path of the controller."""
    noted: set[tuple[str, str]] = field(default_factory=set)
    """Tasks, with their hosts, already reported as ended at once. Mutated during the run."""
    uncopied: set[tuple[str, str]] = field(default_factory=set)
    """Tasks, with their hosts, whose last gather in this play has failed. Mutated during the run."""
    seen: Observation | None = None
    """A fresh observation for a step that would observe first; None if the step has to observe."""
    known: Observation | None = None
    """While a batch of hosts is played, the last observation of the others, which are not asked; None asks all hosts."""
    unresponsive: dict[str, HostError] = field(default_factory=dict)
    """Unresponsive hosts, each reported once. Mutated during the run."""

    def limited(self, hosts: Iterable[str]) -> "Context":
        """Return this context with only those of its hosts that are among `hosts`."""
        allowed = frozenset(hosts)
        return replace(self, hosts=allowed if self.hosts is None else allowed & self.hosts)

    def allows(self, host: str) -> bool:
        """Whether `host` may be changed."""
        return self.hosts is None or host in self.hosts

    def asks(self, host: str) -> bool:
        """Whether an observation asks `host`. A batch needs its own hosts, and the chief's: its end ends the training."""
        return self.known is None or self.allows(host) or host == self.cluster.chief.host

    def completed(self, observation: Observation) -> Observation:
        """Return `observation` with the last states of the hosts that are not asked."""
        if self.known is None:
            return observation
        hosts = {host: state for host, state in self.known.hosts.items() if not self.asks(host)}
        lost = {host: error for host, error in self.known.unreachable.items() if not self.asks(host)}
        return Observation(hosts | dict(observation.hosts), observation.built, lost | dict(observation.unreachable))

    def wants(self, host: str) -> frozenset[str]:
        """Return the data sets to keep on `host`: those of all hosts, as several hosts can be one machine."""
        return frozenset() if host in self.left else frozenset(self.data)

    def ready(self) -> Ready:
        """Return the artifacts that need no build before their delivery."""
        return Ready(self.artifacts)

    def remember(self) -> None:
        """Record the hosts that are about to receive something, and former ones that answer, whose record they replace."""
        if self.registry is not None:
            former = {host: way for host, way in self.former.items() if host not in self.unresponsive}
            self.registry.add({**former, **{host: way for host, way in self.connections.items() if self.allows(host)}})

    def forget_empty(self, observation: Observation) -> None:
        """Forget the hosts on which `observation` shows no container of the cluster."""
        if self.registry is not None:
            self.registry.drop(state.host for state in observation.hosts.values() if not state.containers)

    def close(self) -> None:
        """End all connections."""
        for machine in self.machines.values():
            machine.close()

    def container(self, task: str) -> Container | None:
        """Return the wanted container of the task called `task`, or None."""
        return self._by_task.get(task)

    @cached_property
    def _by_task(self) -> Mapping[str, Container]:
        """The first container of each task: a look through all of them for each of them grows with their square."""
        return {container.task.name: container for container in reversed(self.wanted)}

    def observed(self, task: str, observation: Observation) -> Observed | None:
        """Return the container of `task`, on its assigned host if it is there; None if it is nowhere."""
        wanted = self.container(task)
        containers = [container for container in observation.containers() if container.task == task]
        return next(
            (c for c in containers if wanted and c.host == wanted.task.host), containers[0] if containers else None
        )

    def chief(self, observation: Observation) -> Observed | None:
        """Return the container of the chief, or None."""
        return self.observed(self.cluster.chief.name, observation)

    def runtime_of(self, task: str, observation: Observation) -> tuple[Runtime, Observed]:
        """Return the runtime of the host that has `task`, and its container.

        Raises Usage if the cluster has no such task or no container for it, and the error of its host if it did not answer.
        """
        observed = self.observed(task, observation)
        wanted = self.container(task)
        if observed is None and wanted is not None and wanted.task.host in observation.unreachable:
            raise observation.unreachable[wanted.task.host]
        if observed is None:
            names = ", ".join(container.task.name for container in self.wanted)
            what = f"{task} is not there" if wanted else f"no task `{task}` in cluster {self.cluster.name}"
            raise Usage(what, "start it with `tfprov up`" if wanted else f"its tasks are {names}")
        return self.runtimes[observed.host], observed


def gather_directory(cluster: Cluster, roles: Sequence[RoleSettings]) -> Path:
    """Return the gather directory, from the chief's `checkpoints.to`."""
    return resolve_path(chief_of(cluster, roles), "checkpoints", "to") / cluster.name


def chief_of(cluster: Cluster, roles: Sequence[RoleSettings]) -> RoleSettings:
    """Return the settings of the chief's role on its host."""
    return next(role for role in roles if (role.role, role.host) == (cluster.chief.role, cluster.chief.host))


Assemble = Callable[[bool | None, bool], Context]
"""Assembles a context; `connect` and `starts` as in tfprov.engine.assemble.Options."""


class KeptContext:
    """The context that `assemble` returns, for several verbs of one program, such as the cells of a notebook; close it."""

    def __init__(self, assemble: Assemble) -> None:
        self._assemble = assemble
        self._context: Context | None = None
        self._is_used = False
        self._earlier: list[Context] = []

    def prepare(self, *, connect: bool | None, starts: bool) -> Context:
        """Return the context, for the next verb."""
        if self._context is None or (starts and not self._context.is_whole):
            self.close()
            self._context = self._assemble(connect, starts)
        return self._context

    def use(self, *, connect: bool | None = False, starts: bool = False) -> Context:
        """Return the context, for a verb that is called now.

        For one that `starts` tasks, the files are read anew that may have been edited since an earlier verb: the code, and
        those of the image.
        """
        if starts and self._is_used and self._context is not None:
            now = self._assemble(False, True)
            if now.wanted == self._context.wanted and self._context.is_whole:
                now.close()
            else:  # what an earlier verb has returned, such as a log or a tunnel, may still use its connections
                self._earlier.append(self._context)
                self._context = now
        context = self.prepare(connect=connect, starts=starts)
        self._is_used = True
        return replace(context, noted=set(), uncopied=set(), unresponsive={})  # a host may be back

    def close(self) -> None:
        """Close all connections. The next verb connects again."""
        for context in (*self._earlier, self._context):
            if context is not None:
                context.close()
        self._earlier, self._context, self._is_used = [], None, False

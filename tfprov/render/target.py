"""Targets to render for, and the tasks that their templates loop over."""

import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from tfprov.errors import Problem, Usage, printable, suggest
from tfprov.images.code import Code
from tfprov.model.cluster import Cluster, Task
from tfprov.model.state import Mount
from tfprov.planning.desired import RoleHost
from tfprov.render.dns_names import long_name
from tfprov.render.options import Option, Values
from tfprov.settings.role_settings import RoleSettings
from tfprov.wiring import WEB

TARGETS = {
    "kubernetes": "tfprov.render.kubernetes.jobs:TARGET",
    "kubeflow-tfjob": "tfprov.render.kubernetes.tfjob:TARGET",
    "kubeflow-trainer": "tfprov.render.kubernetes.jobset:TRAINJOB",
    "jobset": "tfprov.render.kubernetes.jobset:TARGET",
    "marathon": "tfprov.render.marathon:TARGET",
    "swarm": "tfprov.render.swarm:TARGET",
    "compose": "tfprov.render.compose:TARGET",
    "slurm": "tfprov.render.slurm:TARGET",
    "spark-submit": "tfprov.render.spark:TARGET",
}
"""Every target by its name on the command line: MODULE:NAME."""


WITH_GPUS = ("chief", "worker")
"""The roles that get GPUs."""

_FIRST_PORT = 90_000_000_000
"""It is no port, so that a text that has only the port can be recognized."""
PORT_PLACEHOLDER = r"(?<![0-9])([0-9]{11})(?![0-9])"
"""Matches a placeholder port in a text; the first group is the number."""


def placeholder_ports(cluster: Cluster) -> Mapping[str, int]:
    """Return a number for each task by its name, in the order of the tasks, until their hosts are known."""
    return {task.name: _FIRST_PORT + rank for rank, task in enumerate(cluster.tasks)}


@dataclass(frozen=True)
class DataPath:
    """A task's data: `path` on its machine (absolute, or as in the inventory), mounted at `to` in its container."""

    path: str
    to: str


@dataclass(frozen=True)
class Member:
    """One task, as templates see it.

    `name` is a DNS label. The command line is `program`, `wiring_flags` and `flags`, in this order. `env` includes the
    wiring, but not the variables in `secrets`, whose values must not be rendered. `memory` and `shm_size` are in bytes,
    `cpus` in cores; None is the engine's default. `gpus` is -1 for all, and 0 for all roles but the chief and workers.
    `files_of` is the name of the member whose checkpoint directory it uses, None for its own. `code` is to be unpacked in
    `workdir`, the working directory; both are None if the image has them.
    """

    name: str
    job: str
    index: int
    role: str
    task: str
    address: str
    port: int
    image: str
    program: tuple[str, ...]
    wiring_flags: tuple[str, ...]
    flags: tuple[str, ...]
    env: Mapping[str, str]
    secrets: tuple[str, ...]
    memory: int | None
    shm_size: int | None
    cpus: float | None
    gpus: int
    devices: tuple[str, ...]
    pids: int
    ulimits: Mapping[str, int]
    read_only: bool
    mounts: tuple[Mount, ...]
    data: DataPath | None
    checkpoint_dir: str
    files_of: str | None
    code: Code | None
    workdir: str | None
    restart: str
    max_restarts: int
    start_timeout: int
    stop_grace: int
    ready: str
    is_chief: bool
    serves: bool

    @property
    def is_web(self) -> bool:
        """Whether people reach it over HTTP: a tensorboard, a model server or a notebook."""
        return self.job in WEB

    @property
    def command(self) -> list[str]:
        """The whole command line."""
        return [*self.program, *self.wiring_flags, *self.flags]


@dataclass(frozen=True)
class RenderRequest:
    """A cluster to render, for the checks of a target.

    `roles` has the settings of each role on each host, `secrets` the names of its secret environment variables, and
    `codes` the code to deliver.
    """

    cluster: Cluster
    roles: Mapping[RoleHost, RoleSettings]
    settings: Values
    secrets: Mapping[RoleHost, tuple[str, ...]]
    codes: Mapping[RoleHost, Code]

    def role(self, task: Task) -> RoleSettings:
        """Return the settings of `task`."""
        return self.roles[task.role, task.host]

    @property
    def first(self) -> RoleSettings:
        """The settings of the first role, for those that all roles share, such as the cluster's name."""
        return next(iter(self.roles.values()))

    def refuse_all_gpus(self, why: str) -> Iterator[Problem]:
        """Yield a problem for each training role with `gpus: all`; `why` is the reason."""
        for role in self.roles.values():
            if role.values.gpus == "all" and role.role in WITH_GPUS:
                yield Problem(role.at("gpus"), f"`gpus: all`: {why}", "set a number, such as `gpus: 1`")

    def refuse_devices(self, why: str) -> Iterator[Problem]:
        """Yield a problem for the first role with `devices`; `why` is the reason."""
        for role in self.roles.values():
            if role.values.devices:
                yield Problem(role.at("devices"), f"`devices`: {why}", "remove it")
                return

    def refuse_secrets(self, fix: str) -> Iterator[Problem]:
        """Yield a problem for every secret variable; `fix` may hold `{name}`."""
        for place, names in self.secrets.items():
            for name in names:
                what = f"`env.{name}` is secret, and others can read the rendered files"
                yield Problem(self.roles[place].at("env", name), what, fix.format(name=name))


@dataclass(frozen=True)
class RenderInput:
    """The input of templates. `cluster` has the addresses of the target; `request` has the settings with their lines."""

    cluster: Cluster
    members: tuple[Member, ...]
    settings: Values
    strategy: str
    request: RenderRequest

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.cluster.name

    @cached_property
    def chief(self) -> Member:
        """The member that ends the training."""
        return next(member for member in self.members if member.is_chief)


class Target(Protocol):
    """An engine to render for. `BaseTarget` has the defaults."""

    name: str
    title: str
    """A few words for the list of targets."""
    options: Mapping[str, Option]
    """The options of `--set`, besides `image` and `code`."""
    templates: Mapping[str, str]
    """The template of each rendered file, by the file's name."""
    images: tuple[str, ...]
    """The kinds of image it can run: "name", "build", "archive", or "none" if it needs none."""
    carries_code: bool
    """Whether it delivers `code:` and tfprov's runtime to the tasks; otherwise the image must have both."""

    def adapt_role(self, role: RoleSettings, settings: Values) -> RoleSettings:
        """Return the settings of a role with the target's paths in place of a container's."""

    def address(self, cluster: str, task: Task, settings: Values) -> str:
        """Return the host name at which other tasks reach `task`; `cluster` is the cluster's name."""

    def ports(self, cluster: Cluster, inventory_ports: Mapping[str, int], settings: Values) -> Mapping[str, int]:
        """Return the port of every task by its name; `inventory_ports` are those of the settings, or the defaults."""

    def problems(self, request: RenderRequest) -> Iterator[Problem]:
        """Yield the settings that this target does not support, each with its line; InvalidInput has equal ones once."""

    def complete_settings(self, request: RenderRequest) -> Values:
        """Return the values of the options; unset ones may follow from the cluster."""

    def values(self, rendering: RenderInput) -> Mapping[str, object]:
        """Return the variables of the templates besides `cluster`, `name`, `members`, `chief` and `settings`."""

    def check(self, files: Mapping[str, str]) -> None:
        """Check the rendered files; ValueError names the invalid file and the reason."""


@dataclass(frozen=True)
class BaseTarget:
    """The defaults of a target."""

    name: str
    title: str
    options: Mapping[str, Option]
    templates: Mapping[str, str]
    images: tuple[str, ...] = ("name",)
    carries_code: bool = False

    def adapt_role(self, role: RoleSettings, settings: Values) -> RoleSettings:
        """Return the settings unchanged: the paths are those of a container."""
        return role

    def complete_settings(self, request: RenderRequest) -> Values:
        """Return the values unchanged."""
        return request.settings

    def address(self, cluster: str, task: Task, settings: Values) -> str:
        """Return the name of the task's own service: `linear-ps-0`."""
        return long_name(cluster, task)

    def ports(self, cluster: Cluster, inventory_ports: Mapping[str, int], settings: Values) -> Mapping[str, int]:
        """Return the ports of the inventory: every task has its own address."""
        return inventory_ports

    def problems(self, request: RenderRequest) -> Iterator[Problem]:
        """Yield nothing: every valid inventory can be rendered."""
        yield from ()


def find_target(name: str) -> Target:
    """Return the target with this name; Usage for an unknown one."""
    if name not in TARGETS:
        raise Usage(f"no target `{printable(name)}`", suggest(name, TARGETS, f"it is one of {', '.join(TARGETS)}"))
    target: Target = pkgutil.resolve_name(TARGETS[name])
    return target

"""What a target is, and what its templates loop over: tasks that are ready, with nothing left to compute."""

import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import Protocol

from tfprov.errors import Problem, Usage, printable
from tfprov.images.code import Code
from tfprov.model.cluster import Cluster, Task
from tfprov.model.state import Mount
from tfprov.planning.desired import RoleHost
from tfprov.render.dns_names import long_name
from tfprov.render.options import Option, Values
from tfprov.settings.role_settings import RoleSettings

TARGETS = {
    "kubernetes": "tfprov.render.kubernetes.jobs:TARGET",
    "kubeflow-tfjob": "tfprov.render.kubernetes.tfjob:TARGET",
    "kubeflow-trainer": "tfprov.render.kubernetes.jobset:TRAINJOB",
    "jobset": "tfprov.render.kubernetes.jobset:TARGET",
    "marathon": "tfprov.render.marathon:TARGET",
    "swarm": "tfprov.render.swarm:TARGET",
    "compose": "tfprov.render.compose:TARGET",
    "slurm": "tfprov.render.slurm:TARGET",
}
"""Every target by its name on the command line, and where it is: MODULE:NAME."""


WITH_GPUS = ("chief", "worker")
"""The roles that compute: the others are given no GPU."""


@dataclass(frozen=True)
class Data:
    """Where a task's data is: `path` on the machine it runs on (absolute, or as it was written), `to` in its container."""

    path: str
    to: str


@dataclass(frozen=True)
class Member:
    """One task, as templates see it.

    `name` is safe for DNS. The command line is `program`, `wiring_flags` and `flags`, in this order; `env` holds the
    wiring as well, but no variable of `secrets`, whose values nobody may read in a file. `memory` is in bytes, `cpus` in
    cores, None means no limit; `gpus` is -1 for all, and 0 for everybody but the chief and the workers. `files_of` is the
    name of the member whose checkpoint directory it works on, None where that is its own. `code` is what is to lie in
    `workdir`, its working directory; both are None where the image says it all.
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
    cpus: float | None
    gpus: int
    pids: int
    read_only: bool
    mounts: tuple[Mount, ...]
    data: Data | None
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
    def command(self) -> list[str]:
        """The whole command line."""
        return [*self.program, *self.wiring_flags, *self.flags]


@dataclass(frozen=True)
class RenderRequest:
    """What is to be rendered, before anything is: for a target's own rules.

    `roles` has what was said of each task, `secrets` the environment variables whose values are secret, and `codes` the
    code that is to be brought to each.
    """

    cluster: Cluster
    roles: Mapping[RoleHost, RoleSettings]
    settings: Values
    secrets: Mapping[RoleHost, tuple[str, ...]] = field(default_factory=dict)
    codes: Mapping[RoleHost, Code] = field(default_factory=dict)

    def role(self, task: Task) -> RoleSettings:
        """Return what was said of `task`."""
        return self.roles[task.role, task.host]

    @property
    def first(self) -> RoleSettings:
        """What was said of the first task, for what is the same for all: the cluster's name, say."""
        return next(iter(self.roles.values()))

    def refuse_all_gpus(self, why: str) -> Iterator[Problem]:
        """Yield a problem wherever a task that trains is to have `all` GPUs of a machine; `why` says who minds."""
        reported = set()
        for role in self.roles.values():
            at = role.at("gpus")
            if role.values.gpus == "all" and role.role in WITH_GPUS and at not in reported:
                reported.add(at)
                yield Problem(at, f"`gpus: all`: {why}", "give their number, such as `gpus: 1`")

    def refuse_secrets(self, fix: str) -> Iterator[Problem]:
        """Yield a problem for every secret variable; `fix` may hold `{name}`."""
        reported = set()
        for place, names in self.secrets.items():
            for name in names:
                at = self.roles[place].at("env", name)
                if at not in reported:
                    reported.add(at)
                    yield Problem(
                        at, f"`env.{name}` is secret, and others can read what is rendered", fix.format(name=name)
                    )


@dataclass(frozen=True)
class Rendering:
    """All that a template can use. `cluster` has the addresses of the target; `asked` knows what was written where."""

    cluster: Cluster
    members: tuple[Member, ...]
    settings: Values
    strategy: str
    asked: RenderRequest

    @property
    def name(self) -> str:
        """The cluster's name."""
        return self.cluster.name

    @cached_property
    def chief(self) -> Member:
        """The member whose end is the end of the training."""
        return next(member for member in self.members if member.is_chief)


class Target(Protocol):
    """Where a cluster can be rendered for; `BaseTarget` has the answers that most of them share."""

    name: str
    title: str
    """In a few words, for the list of targets."""
    options: Mapping[str, Option]
    """What `--set` can say, besides `image` and `code`."""
    templates: Mapping[str, str]
    """The template of each file it writes, by the file's name."""
    images: tuple[str, ...]
    """Which kinds of image it can run: "name", "build", "archive", or "none" where it needs none."""
    carries_code: bool
    """Whether it brings `code:` and tfprov's runtime to the tasks; otherwise the image must have both."""

    def adapted(self, role: RoleSettings, settings: Values) -> RoleSettings:
        """Return what was said of a role, with the paths that the target has in place of a container's."""

    def address(self, cluster: str, task: Task, settings: Values) -> str:
        """Return where the other tasks reach `task`; `cluster` is the cluster's name."""

    def ports(self, cluster: Cluster, stated: Mapping[str, int], settings: Values) -> Mapping[str, int]:
        """Return the port of every task of `cluster` by its name; `stated` are those that their settings say."""

    def problems(self, request: RenderRequest) -> Iterator[Problem]:
        """Yield what this target cannot do of what was asked, each at the line that asks for it."""

    def settled(self, request: RenderRequest) -> Values:
        """Return the values of the options, with those that follow from the cluster where nothing was said."""

    def values(self, rendering: Rendering) -> Mapping[str, object]:
        """Return what the templates can use besides `cluster`, `name`, `members`, `chief` and `settings`."""

    def check(self, files: Mapping[str, str]) -> None:
        """Read the rendered files again; ValueError says which is not what it should be, and why."""


@dataclass(frozen=True)
class BaseTarget:
    """What most targets have in common."""

    name: str
    title: str
    options: Mapping[str, Option]
    templates: Mapping[str, str]
    images: tuple[str, ...] = ("name",)
    carries_code: bool = False

    def adapted(self, role: RoleSettings, settings: Values) -> RoleSettings:
        """Return what was said: the paths are those of a container."""
        return role

    def settled(self, request: RenderRequest) -> Values:
        """Return what was said: nothing follows from the cluster."""
        return request.settings

    def address(self, cluster: str, task: Task, settings: Values) -> str:
        """Return the name of a service of the task's own: `linear-ps-0`."""
        return long_name(cluster, task)

    def ports(self, cluster: Cluster, stated: Mapping[str, int], settings: Values) -> Mapping[str, int]:
        """Return the ports that were stated: every task has an address of its own."""
        return stated

    def problems(self, request: RenderRequest) -> Iterator[Problem]:
        """Yield nothing: whatever can be planned can be rendered."""
        yield from ()

    def values(self, rendering: Rendering) -> Mapping[str, object]:
        """Return nothing."""
        return {}

    def check(self, files: Mapping[str, str]) -> None:
        """Accept what was rendered."""


def find_target(name: str) -> Target:
    """Return the target called `name`; Usage for an unknown one."""
    if name not in TARGETS:
        close = get_close_matches(name, TARGETS, n=1)
        fix = f"did you mean `{close[0]}`?" if close else f"it is one of {', '.join(TARGETS)}"
        raise Usage(f"no target `{printable(name)}`", fix)
    target: Target = pkgutil.resolve_name(TARGETS[name])
    return target

"""Marathon: an app group for Mesos, in which every task is an app with one instance on its agent's own network.

Marathon is for what never ends: it starts again whatever did, after a growing while, and has nothing that would end a
group with one of its apps. A chief that is started again after its training finds the last checkpoint and ends at once.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tfprov.errors import Problem, Usage
from tfprov.model.cluster import Cluster, Task
from tfprov.render import options
from tfprov.render.compose import relative_data
from tfprov.render.dns_names import short_name, too_long
from tfprov.render.options import Option, Values
from tfprov.render.quoting import as_word
from tfprov.render.target import BaseTarget, Member, Rendering, RenderRequest
from tfprov.settings.role_settings import RoleSettings

FILE = "group.json"
_MEBIBYTE = 1 << 20
_ORDER = ("worker", "ps")
"""Who takes the first ports; the others follow."""

_OPTIONS = (
    Option("port", 2333, "the port of worker/0; the other tasks take those that follow", options.whole(1, 65535)),
    Option(
        "dns",
        "marathon.mesos",
        "the domain under which Mesos-DNS has Marathon's apps",
        options.matching(r"[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})*", "a domain, such as marathon.mesos"),
    ),
    Option("cpus", 2, "the CPUs of a task whose settings say none", options.whole(1, 1024)),
    Option("mem", 4096, "the MiB of memory of a task whose settings say none", options.whole(32, 1 << 24)),
    Option(
        "checkpoints",
        "",
        "a directory that all agents share, for the checkpoints; without it, each task has one of its own",
        options.matching(r"/[^\x00-\x1f\x7f]*[^\x00-\x1f\x7f/]", "an absolute path"),
    ),
    Option(
        "place",
        "any",
        "where tasks run: on `any` agent, or on those that are called as the `hosts` of the inventory",
        options.choice("any", "hosts"),
    ),
    Option(
        "reserve",
        False,
        "whether Mesos keeps the ports for them; its agents offer 31000 to 32000 unless they are told otherwise",
        options.switch,
    ),
)


@dataclass(frozen=True)
class App:
    """A member with Marathon's words for what it needs: `mem` is in MiB, `volumes` are directories of the agent."""

    id: str
    member: Member
    cmd: str
    cpus: float
    mem: int
    volumes: list[Mapping[str, str]]
    constraints: list[list[str]]


@dataclass(frozen=True)
class Marathon(BaseTarget):
    """Apps of a group, with the names and ports that Mesos-DNS makes of them."""

    def address(self, cluster: str, task: Task, settings: Values) -> str:
        """Return what Mesos-DNS calls the app `/linear/ps-0`: `ps-0-linear.marathon.mesos`."""
        return f"{short_name(task)}-{cluster}.{settings['dns']}"

    def ports(self, cluster: Cluster, stated: Mapping[str, int], settings: Values) -> Mapping[str, int]:
        """Return ports of which no two tasks have the same: several may run on one agent."""
        first = settings["port"]
        assert isinstance(first, int)
        boards = [task for task in cluster.tasks if task.job == "tensorboard"]
        servers = sorted((task for task in cluster.tasks if task not in boards), key=_in_turn)
        end = first + len(servers)
        if end > 65535:
            raise Usage(f"`--set port={first}` leaves no ports for {len(servers)} tasks", "give a lower one")
        ports = {task.name: first + number for number, task in enumerate(servers)}
        for board in boards:
            ports[board.name] = end if first <= stated[board.name] < end else stated[board.name]
        return ports

    def problems(self, request: RenderRequest) -> Iterator[Problem]:
        """Yield what a Marathon group cannot do."""
        yield from relative_data(request, "the agents")
        yield from request.refuse_secrets("put it into a file on the agents that `mounts` brings")
        labels = [
            self.address(request.cluster.name, task, request.settings).partition(".")[0]
            for task in request.cluster.tasks
        ]
        yield from too_long(request.first, labels)
        yield from request.refuse_all_gpus("Mesos counts GPUs")
        for role in request.roles.values():
            if (
                role.role in ("evaluator", "tensorboard")
                and not request.settings["checkpoints"]
                and not _reads_far(role)
            ):
                what = f"{role.role} reads the chief's files, and on Mesos each task has a directory of its own"
                yield Problem(role.group, what, "give `--set checkpoints=DIR`, a directory that all agents share")

    def values(self, rendering: Rendering) -> Mapping[str, object]:
        """Return the apps."""
        return {"apps": [_app(rendering, one) for one in sorted(rendering.members, key=lambda one: _turn(one.job))]}

    def check(self, files: Mapping[str, str]) -> None:
        """Read the file again: it is JSON, and every app has an id of its own, an image and a command."""
        group = json.loads(files[FILE])
        ids = [app["id"] for app in group["apps"]]
        if len(set(ids)) != len(ids):
            raise ValueError(f"{FILE} has two apps with one id")
        for app in group["apps"]:
            if not app["container"]["docker"]["image"] or not app["cmd"]:
                raise ValueError(f"{FILE}: the app {app['id']} has no image or no command")


def _turn(job: str) -> int:
    return _ORDER.index(job) if job in _ORDER else len(_ORDER)


def _in_turn(task: Task) -> tuple[int, str, int]:
    return _turn(task.job), task.job, task.index


def _app(rendering: Rendering, member: Member) -> App:
    settings, task = rendering.settings, rendering.cluster.find(member.task)
    assert task is not None, "members are made of the cluster's tasks"
    command = " ".join(as_word(word) for word in member.command)
    goes = f"cd {as_word(member.workdir)} && " if member.workdir else ""
    cpus, mem = settings["cpus"], settings["mem"]
    assert isinstance(cpus, int)
    assert isinstance(mem, int)
    return App(
        id=short_name(task),
        member=member,
        # `exec`: the program is what Mesos sends SIGTERM to, and the chief saves then.
        cmd=f"{goes}exec {command}",
        cpus=member.cpus or cpus,
        mem=-(-member.memory // _MEBIBYTE) if member.memory else mem,
        volumes=list(_volumes(rendering, member, task)),
        constraints=[["hostname", "IS", task.host]] if settings["place"] == "hosts" else [],
    )


def _volumes(rendering: Rendering, member: Member, task: Task) -> Iterator[Mapping[str, str]]:
    shared = rendering.settings["checkpoints"]
    if shared and (task.trains or task.reads):
        yield {"hostPath": str(shared), "containerPath": member.checkpoint_dir, "mode": "RW"}
    if member.data:
        yield {"hostPath": member.data.path, "containerPath": member.data.to, "mode": "RO"}
    for mount in member.mounts:
        yield {
            "hostPath": mount.source,
            "containerPath": mount.target,
            "mode": "RO" if mount.read_only else "RW",
        }


def _reads_far(role: RoleSettings) -> bool:
    """Whether what it is told names a directory that is none of a machine's: `hdfs://…`, `gs://…`."""
    words = [*(role.values.command or ()), *map(str, role.values.flags.values())]
    return any("://" in word for word in words)


TARGET = Marathon(
    name="marathon",
    title="an app group, for Marathon on Mesos",
    options={option.name: option for option in _OPTIONS},
    templates={FILE: "marathon.json.j2"},
)

"""Marathon: an app group for Mesos, where every task is an app with one instance on its agent's network.

Marathon is for services: it restarts every app that ended, with a growing delay, and cannot end a group with one of its
apps. A chief that is restarted after the training finds the last checkpoint and ends at once.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, count

from tfprov.errors import Problem, Usage
from tfprov.model.cluster import Cluster, Task
from tfprov.render import options
from tfprov.render.compose import relative_data
from tfprov.render.dns_names import short_name
from tfprov.render.options import Option, Values
from tfprov.render.quoting import as_word
from tfprov.render.target import BaseTarget, Member, RenderInput, RenderRequest
from tfprov.settings.role_settings import RoleSettings
from tfprov.wiring import READERS

FILE = "group.json"
_MEBIBYTE = 1 << 20
_PORT_ORDER = ("worker", "ps")
"""The jobs with the first ports; the others follow."""

_OPTIONS = (
    Option("port", 2333, "the port of worker/0; the other tasks have the next ones", options.integer(1, 65535)),
    Option(
        "dns",
        "marathon.mesos",
        "the domain of Marathon's apps in Mesos-DNS",
        options.matching(r"[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})*", "a domain, such as marathon.mesos"),
    ),
    Option("cpus", 2, "the CPUs of a task without `cpus`", options.integer(1, 1024)),
    Option("mem", 4096, "the MiB of memory of a task without `memory`", options.integer(32, 1 << 24)),
    Option(
        "checkpoints",
        "",
        "a directory that all agents share, for checkpoints; without it, each task has its own",
        options.matching(r"/[^\x00-\x1f\x7f]*[^\x00-\x1f\x7f/]", "an absolute path"),
    ),
    Option(
        "place",
        "any",
        "where tasks run: on `any` agent, or on the agents with the names of the inventory's `hosts`",
        options.choice("any", "hosts"),
    ),
    Option(
        "reserve",
        False,
        "whether Mesos reserves the ports; by default, its agents offer 31000 to 32000 only",
        options.boolean,
    ),
)


@dataclass(frozen=True)
class App:
    """A member in Marathon's terms: `mem` is in MiB, `volumes` are directories of the agent."""

    id: str
    member: Member
    cmd: str
    cpus: float
    mem: int
    volumes: list[Mapping[str, str]]
    constraints: list[list[str]]


@dataclass(frozen=True)
class Marathon(BaseTarget):
    """An app group with the names of Mesos-DNS."""

    def address(self, cluster: str, task: Task, settings: Values) -> str:
        """Return the name of the app `/linear/ps-0` in Mesos-DNS: `ps-0-linear.marathon.mesos`."""
        return f"{short_name(task)}-{cluster}.{settings['dns']}"

    def ports(self, cluster: Cluster, inventory_ports: Mapping[str, int], settings: Values) -> Mapping[str, int]:
        """Return distinct ports, as several tasks may run on one agent."""
        first = settings["port"]
        assert isinstance(first, int)
        web = [task for task in cluster.tasks if task.is_web]
        servers = sorted((task for task in cluster.tasks if not task.is_web), key=_by_port)
        ports = {task.name: first + number for number, task in enumerate(servers)}
        for task in web:
            candidates = chain([inventory_ports[task.name]], count(first + len(servers)))
            ports[task.name] = next(port for port in candidates if port not in ports.values())
        if max(ports.values()) > 65535:
            raise Usage(f"`--set port={first}` leaves too few ports for {len(ports)} tasks", "use a lower one")
        return ports

    def problems(self, request: RenderRequest) -> Iterator[Problem]:
        """Yield the settings that a Marathon group does not support."""
        yield from relative_data(request, "the agents")
        yield from request.refuse_secrets("put it into a file on the agents and list it in `mounts`")
        yield from request.refuse_all_gpus("Mesos counts GPUs")
        yield from request.refuse_devices("an agent gives its tasks those of its own configuration")
        for role in request.roles.values():
            if role.role in READERS and not request.settings["checkpoints"] and not _uses_remote_storage(role):
                what = f"{role.role} reads the chief's files, and on Mesos each task has its own directory"
                yield Problem(role.group, what, "use `--set checkpoints=DIR`, a directory that all agents share")

    def values(self, rendering: RenderInput) -> Mapping[str, object]:
        """Return the apps."""
        return {
            "apps": [
                _app(rendering, member)
                for member in sorted(rendering.members, key=lambda member: _job_order(member.job))
            ]
        }

    def check(self, files: Mapping[str, str]) -> None:
        """Check that the file is JSON, and every app has a unique id, an image and a command."""
        group = json.loads(files[FILE])
        ids = [app["id"] for app in group["apps"]]
        if len(set(ids)) != len(ids):
            raise ValueError(f"{FILE} has two apps with the same id")
        for app in group["apps"]:
            if not app["container"]["docker"]["image"] or not app["cmd"]:
                raise ValueError(f"{FILE}: the app {app['id']} has no image or no command")


def _job_order(job: str) -> int:
    return _PORT_ORDER.index(job) if job in _PORT_ORDER else len(_PORT_ORDER)


def _by_port(task: Task) -> tuple[int, str, int]:
    return _job_order(task.job), task.job, task.index


def _app(rendering: RenderInput, member: Member) -> App:
    settings, task = rendering.settings, rendering.cluster.find(member.task)
    assert task is not None, "members come from the cluster's tasks"
    command = " ".join(as_word(word) for word in member.command)
    change_directory = f"cd {as_word(member.workdir)} && " if member.workdir else ""
    cpus, mem = settings["cpus"], settings["mem"]
    assert isinstance(cpus, int)
    assert isinstance(mem, int)
    return App(
        id=short_name(task),
        member=member,
        # `exec`, so that the program gets the SIGTERM of Mesos, at which the chief saves.
        cmd=f"{change_directory}exec {command}",
        cpus=member.cpus or cpus,
        mem=-(-member.memory // _MEBIBYTE) if member.memory else mem,
        volumes=list(_volumes(rendering, member, task)),
        constraints=[["hostname", "IS", task.host]] if settings["place"] == "hosts" else [],
    )


def _volumes(rendering: RenderInput, member: Member, task: Task) -> Iterator[Mapping[str, str]]:
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


def _uses_remote_storage(role: RoleSettings) -> bool:
    """Whether its command or flags have the URL of a remote directory: `hdfs://…`, `gs://…`."""
    words = [*(role.values.command or ()), *map(str, role.values.flags.values())]
    return any("://" in word for word in words)


TARGET = Marathon(
    name="marathon",
    title="an app group, for Marathon on Mesos",
    options={option.name: option for option in _OPTIONS},
    templates={FILE: "marathon.json.j2"},
)

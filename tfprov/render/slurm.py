"""Slurm: a batch script, whose one `srun` starts every task of the cluster.

Addresses are known only when the job has its nodes, so each task works them out from its place in the step. The script
is handed to all of them through srun's standard input: nothing of it needs to lie on the nodes. What the tasks print comes
back through one pipe, and with it the exit code of the chief, at which the script has the others end.
"""

import base64
import gzip
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tfprov.errors import Position, Problem
from tfprov.images.code_layer import DIRECTORY, RUNTIME_DIRECTORY, code_archive
from tfprov.model.cluster import Cluster, Task
from tfprov.render import options
from tfprov.render.dns_names import short_name
from tfprov.render.options import Option, Values
from tfprov.render.target import WITH_GPUS, BaseTarget, Member, Rendering, RenderRequest
from tfprov.settings.role_settings import RoleSettings, data_path, resolve_path

DOMAIN = "slurm.invalid"
"""Under this domain, which can never exist, tasks have names until they have nodes."""

_ADDRESS = re.compile(rf"([a-z-]+-[0-9]+)\.{re.escape(DOMAIN)}(?::[0-9]+)?")


@dataclass(frozen=True)
class Part:
    """A piece of a word: the `text` itself, or what the shell knows by then.

    `known` is "endpoint" or "host" of the task with the number `rank`, "port", the task's own, or one of "ps_hosts" and
    "worker_hosts".
    """

    text: str = ""
    known: str = ""
    rank: int = 0


Word = tuple[Part, ...]


def address(task: Task) -> str:
    """Return what stands for the address of a task."""
    return f"{short_name(task)}.{DOMAIN}"


class Words:
    """Makes words of texts in which tasks have the addresses that stand for theirs."""

    def __init__(self, cluster: Cluster) -> None:
        self._ranks = {address(task).removesuffix(f".{DOMAIN}"): rank for rank, task in enumerate(cluster.tasks)}
        lists = {job: ",".join(cluster.spec.get(job, ())) for job in ("ps", "worker")}
        self._lists = {text: f"{job}_hosts" for job, text in lists.items() if text}

    def command(self, member: Member, *, own: bool) -> list[Word]:
        """Return the command line of `member`; `own` says that its program is one that tfprov brings."""
        port = f"--port={member.port}"
        chosen = (Part("--port="), Part(known="port"))
        words = [chosen if own and text == port else self.word(text) for text in member.program]
        for text in member.wiring_flags:
            name, _, value = text.partition("=")
            known = self._lists.get(value)
            words.append((Part(f"{name}="), Part(known=known)) if known else (Part(text),))
        return [*words, *map(self.word, member.flags)]

    def environment(self, member: Member) -> Mapping[str, Word]:
        """Return the variables of `member`, but for TF_CONFIG, which its script makes."""
        return {name: self.word(value) for name, value in sorted(member.env.items()) if name != "TF_CONFIG"}

    def word(self, text: str) -> Word:
        """Return one text with what it says of addresses taken out."""
        parts, end = [], 0
        for match in _ADDRESS.finditer(text):
            if match[1] in self._ranks:
                parts.append(Part(text[end : match.start()]))
                known = "endpoint" if ":" in match[0] else "host"
                parts.append(Part(known=known, rank=self._ranks[match[1]]))
                end = match.end()
        parts.append(Part(text[end:]))
        return tuple(part for part in parts if part.known or part.text) or (Part(),)


FILE = "job.sbatch"
_MEBIBYTE = 1 << 20
_LONGEST = 4 << 20
"""Bytes of a script that Slurm takes, unless its administrator says otherwise."""
_NAME = options.matching(r"[A-Za-z0-9][A-Za-z0-9_.,-]*", "a name, or several with commas between them")
_PATH = options.matching(r"/[^\x00-\x1f\x7f:,]*[^\x00-\x1f\x7f:,/]", "an absolute path, without `:` and `,`")
_TIME = options.matching(r"([0-9]+-)?[0-9]{1,5}(:[0-9]{1,2}){0,2}", "minutes, `hours:minutes:seconds` or `days-hours`")

_OPTIONS = (
    Option("time", "", "how long the job may take: minutes, hours:minutes:seconds or days-hours", _TIME),
    Option("partition", "", "the partition, or several", _NAME),
    Option("account", "", "the account that pays", _NAME),
    Option("nodes", 0, "on how many nodes; without it, as few as Slurm finds", options.whole(1, 65535)),
    Option("cpus", 0, "the CPUs of a task whose settings say none", options.whole(1, 1024)),
    Option("mem", 0, "the MiB of memory of a task whose settings say none", options.whole(32, 1 << 24)),
    Option("gpus", 0, "the GPUs of a chief and of a worker whose settings say none", options.whole(1, 1024)),
    Option("port", 0, "the first port; without it, one that is made from the job's number", options.whole(1024, 65000)),
    Option("checkpoints", "", "the directory for checkpoints, which all nodes share", _PATH),
    Option(
        "container",
        "apptainer",
        "what runs the image where there is one: `apptainer`; `none` runs the program of the nodes",
        options.choice("apptainer", "none"),
    ),
    Option("sif", "", "an image file that apptainer runs instead of pulling `image`", _PATH),
)


@dataclass(frozen=True)
class Started:
    """A member with its place in the step, its words and its GPUs. `binds` are what apptainer brings into its container."""

    rank: int
    member: Member
    gpus: int
    command: list[Word]
    environment: Mapping[str, Word]
    binds: list[str]
    config: bool
    last: bool
    """Whether it ends after those who need it: a ps, and tf.data's service."""


@dataclass(frozen=True)
class Slurm(BaseTarget):
    """A batch script. Without containers, the paths are those of the file system that all nodes share."""

    def adapted(self, role: RoleSettings, settings: Values) -> RoleSettings:
        """Return what was said, where there is no container with paths of this file system."""
        if _contained(role, settings):
            return role
        values = role.values
        directory = settings["checkpoints"] or f"{_gathered(role)}-slurm"
        if role.role == "dispatcher":  # what it writes is its own
            directory = f"{directory}/dispatcher"
        changes: dict[str, object] = {"checkpoints": values.checkpoints.model_copy(update={"dir": str(directory)})}
        if values.data is not None:
            changes["data"] = values.data.model_copy(update={"to": data_path(role) or values.data.to})
        return replace(role, values=values.model_copy(update=changes))

    def address(self, cluster: str, task: Task, settings: Values) -> str:
        """Return what stands for an address until the job has its nodes."""
        return address(task)

    def ports(self, cluster: Cluster, stated: Mapping[str, int], settings: Values) -> Mapping[str, int]:
        """Return ports that stand for some; the job's number makes the real ones."""
        return {task.name: 1 + rank for rank, task in enumerate(cluster.tasks)}

    def problems(self, request: RenderRequest) -> Iterator[Problem]:
        """Yield what a batch script cannot do."""
        yield from request.refuse_all_gpus("Slurm counts GPUs")
        reported = set()
        if request.settings["code"] == "carried" and len({code.digest for code in request.codes.values()}) > 1:
            at = list(request.roles.values())[-1].at("code")
            yield Problem(at, "one script carries one `code`, and the roles have several", "give all of them the same")
        for role in request.roles.values():
            for at, problem in _problems(role, request.settings):
                if at not in reported:
                    reported.add(at)
                    yield problem

    def values(self, rendering: Rendering) -> Mapping[str, object]:
        """Return the tasks with their words, and what they need of the nodes."""
        members, words = rendering.members, Words(rendering.cluster)
        started = [_started(rendering, rank, member, words) for rank, member in enumerate(members)]
        cpus = max((math.ceil(member.cpus) for member in members if member.cpus), default=rendering.settings["cpus"])
        memory = max((member.memory for member in members if member.memory), default=0)
        mem = math.ceil(memory / _MEBIBYTE) or rendering.settings["mem"]
        assert isinstance(cpus, int)
        assert isinstance(mem, int)
        code = next((member.code for member in members if member.code), None)
        packed = gzip.compress(code_archive(code), mtime=0) if code else b""
        return {
            "started": started,
            "chief_rank": next(one.rank for one in started if one.member.is_chief),
            "jobs": list(rendering.cluster.spec),
            "cpus": cpus,
            "mem_per_cpu": math.ceil(mem / (cpus or 1)),
            "gpus": max(one.gpus for one in started),
            "grace": max(member.stop_grace for member in members),
            "archive": base64.encodebytes(packed).decode().splitlines(),
            "secrets": list(dict.fromkeys(name for member in members for name in member.secrets)),
            "code_directory": DIRECTORY.removeprefix("/"),
            "runtime_directory": RUNTIME_DIRECTORY.removeprefix("/"),
        }

    def check(self, files: Mapping[str, str]) -> None:
        """Look at the script once more: it is one that bash runs, and Slurm takes."""
        text = files[FILE]
        if not text.startswith("#!/bin/bash\n"):
            raise ValueError(f"{FILE} must begin with `#!/bin/bash`")
        if len(text.encode()) > _LONGEST:
            raise ValueError(
                f"{FILE} is longer than the {_LONGEST >> 20} MiB that Slurm takes: `code` is too much for it"
            )


def _contained(role: RoleSettings, settings: Values) -> bool:
    named = bool(settings["image"] or settings["sif"] or role.values.image is not None)
    return settings["container"] == "apptainer" and named


def _gathered(role: RoleSettings) -> Path:
    return (resolve_path(role, "checkpoints", "to") / role.values.cluster).absolute()


def _problems(role: RoleSettings, settings: Values) -> Iterator[tuple[Position, Problem]]:
    values = role.values
    for number, mount in enumerate(values.mounts):
        at = role.at("mounts", number)
        if _contained(role, settings) and any(mark in mount.source + mount.target for mark in ":,"):
            what = f"`mounts[{number}]` has a `:` or `,`, which apptainer takes for the end of a path"
            yield at, Problem(at, what, "choose another path")
        elif not _contained(role, settings) and mount.source != mount.target:
            what = f"`mounts[{number}]`: without containers a directory is where it is, at {mount.source}"
            yield at, Problem(at, what, "give it that `target`, or remove it")


def _started(rendering: Rendering, rank: int, member: Member, words: Words) -> Started:
    task = rendering.cluster.find(member.task)
    assert task is not None, "members are made of the cluster's tasks"
    role = rendering.asked.role(task)
    return Started(
        rank=rank,
        member=member,
        gpus=member.gpus or (int(str(rendering.settings["gpus"])) if member.role in WITH_GPUS else 0),
        command=words.command(member, own=role.values.command is None),
        environment=words.environment(member),
        binds=list(_binds(role, member, rendering.settings)) if _contained(role, rendering.settings) else [],
        config="TF_CONFIG" in member.env,
        last=task.job == "ps" or task.feeds,
    )


def _binds(role: RoleSettings, member: Member, settings: Values) -> Iterator[str]:
    yield f"{settings['checkpoints'] or f'{_gathered(role)}-slurm'}:{member.checkpoint_dir}"
    if member.data:
        yield f"{data_path(role)}:{member.data.to}:ro"
    for mount in member.mounts:
        yield f"{mount.source}:{mount.target}{':ro' if mount.read_only else ''}"


TARGET = Slurm(
    name="slurm",
    title="a batch script, for Slurm",
    options={option.name: option for option in _OPTIONS},
    templates={FILE: "slurm.sbatch.j2"},
    images=("name", "none"),
    carries_code=True,
)

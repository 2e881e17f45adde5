"""Slurm: a batch script with one `srun` that starts every task of the cluster.

Addresses are known only after the job gets its nodes, so each task computes them from its rank in the step. The script
reaches the tasks through srun's standard input, so the nodes need no file of it. The tasks' output comes back through one
pipe with the exit code of the chief, after which the script ends the others.
"""

import base64
import gzip
import math
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from tfprov.errors import InvalidInput, Problem
from tfprov.hosts.process.spec import PYTHON
from tfprov.images.code_layer import DIRECTORY, RUNTIME_DIRECTORY, code_archive
from tfprov.model.cluster import Cluster, Task
from tfprov.render import options
from tfprov.render.dns_names import short_name
from tfprov.render.options import Option, Values
from tfprov.render.target import (
    PORT_PLACEHOLDER,
    WITH_GPUS,
    BaseTarget,
    Member,
    RenderInput,
    RenderRequest,
    placeholder_ports,
)
from tfprov.settings.role_settings import RoleSettings, data_path, python_path, resolve_path
from tfprov.wiring import DRIVEN_BY_CHIEF

_KEPT_OUT = ("LD_LIBRARY_PATH", "PATH")
"""Variables that apptainer does not pass into a container, unless by a name of its own."""
DOMAIN = "slurm.invalid"
"""The domain of placeholder names, which can never exist, until tasks have nodes."""


class Lookup(StrEnum):
    """A value that a task computes from the nodes of its job."""

    ENDPOINT = "endpoint"
    HOST = "host"
    PORT = "port"
    PS_HOSTS = "ps_hosts"
    WORKER_HOSTS = "worker_hosts"


@dataclass(frozen=True)
class WordPart:
    """A part of a word: `text`, or a `lookup` on the node. `rank` is the task of an ENDPOINT, HOST or PORT."""

    text: str = ""
    lookup: Lookup | None = None
    rank: int = 0


Word = tuple[WordPart, ...]


def address(task: Task) -> str:
    """Return the placeholder for the address of a task."""
    return f"{short_name(task)}.{DOMAIN}"


class Words:
    """Splits texts with placeholder addresses into parts."""

    def __init__(self, cluster: Cluster) -> None:
        self._ranks = {address(task).removesuffix(f".{DOMAIN}"): rank for rank, task in enumerate(cluster.tasks)}
        # By the jobs' names: any text may stand directly before one, as in `tcp-{{ chief_address }}`.
        jobs = "|".join(sorted({re.escape(name.rpartition("-")[0]) for name in self._ranks}))
        address_of = rf"((?:{jobs})-[0-9]+)\.{re.escape(DOMAIN)}(?::[0-9]+)?"
        self._placeholder = re.compile(rf"{address_of}|{PORT_PLACEHOLDER}")
        self._ranks |= {str(port): rank for rank, port in enumerate(placeholder_ports(cluster).values())}
        lists = {"ps": Lookup.PS_HOSTS, "worker": Lookup.WORKER_HOSTS}
        self._lists = {",".join(cluster.spec[job]): lookup for job, lookup in lists.items() if cluster.spec.get(job)}

    def command(self, member: Member) -> list[Word]:
        """Return the command line of `member`."""
        words = [self.word(text) for text in member.program]
        for text in member.wiring_flags:
            name, _, value = text.partition("=")
            hosts = self._lists.get(value)
            words.append((WordPart(f"{name}="), WordPart(lookup=hosts)) if hosts else (WordPart(text),))
        return [*words, *map(self.word, member.flags)]

    def environment(self, member: Member) -> Mapping[str, Word]:
        """Return the variables of `member` except TF_CONFIG, which the script computes."""
        return {name: self.word(value) for name, value in sorted(member.env.items()) if name != "TF_CONFIG"}

    def word(self, text: str) -> Word:
        """Return the parts of a text."""
        parts, end = [], 0
        for match in self._placeholder.finditer(text):
            rank = self._ranks.get(match[1] or match[2])
            if rank is not None:
                parts.append(WordPart(text[end : match.start()]))
                lookup = Lookup.PORT if match[2] else Lookup.ENDPOINT if ":" in match[0] else Lookup.HOST
                parts.append(WordPart(lookup=lookup, rank=rank))
                end = match.end()
        parts.append(WordPart(text[end:]))
        return tuple(part for part in parts if part.lookup or part.text) or (WordPart(),)


FILE = "job.sbatch"
_MEBIBYTE = 1 << 20
_MAX_SCRIPT = 4 << 20
"""Maximum bytes of a script by Slurm's default configuration."""
_MAX_CODE = 2_500_000  # bytes: 3.4 MB in a script, which leaves room for the tasks
_NAME = options.matching(r"[A-Za-z0-9][A-Za-z0-9_.,-]*", "a name, or several separated by commas")
_PATH = options.matching(r"/[^\x00-\x1f\x7f:,]*[^\x00-\x1f\x7f:,/]", "an absolute path, without `:` and `,`")
_TIME = options.matching(r"([0-9]+-)?[0-9]{1,5}(:[0-9]{1,2}){0,2}", "minutes, `hours:minutes:seconds` or `days-hours`")

_OPTIONS = (
    Option("time", "", "the time limit of the job: minutes, hours:minutes:seconds or days-hours", _TIME),
    Option("partition", "", "the partition, or several", _NAME),
    Option("account", "", "the account to charge", _NAME),
    Option("nodes", 0, "the number of nodes; without it, as few as possible", options.integer(1, 65535)),
    Option("cpus", 0, "the CPUs of a task without `cpus`", options.integer(1, 1024)),
    Option("mem", 0, "the MiB of memory of a task without `memory`", options.integer(32, 1 << 24)),
    Option("gpus", 0, "the GPUs of a chief or worker without `gpus`", options.integer(1, 1024)),
    Option("port", 0, "the first port; without it, computed from the job's id", options.integer(1024, 65000)),
    Option("checkpoints", "", "the directory for checkpoints, shared by all nodes", _PATH),
    Option(
        "container",
        "apptainer",
        "what runs the image, if any: `apptainer`; `none` runs the program of the nodes",
        options.choice("apptainer", "none"),
    ),
    Option("sif", "", "an image file for apptainer to run instead of pulling `image`", _PATH),
)


@dataclass(frozen=True)
class ScriptTask:
    """A member with its rank in the step, its words and its GPUs. `binds` are the mounts of its apptainer container."""

    rank: int
    member: Member
    gpus: int
    command: list[Word]
    environment: Mapping[str, Word]
    binds: list[str]
    python: str | None
    """The directory of a Python that is not the nodes' own."""
    config: bool
    last: bool
    """Whether it ends after the tasks that need it: a ps, tf.data's service, and a worker that only serves the chief."""


@dataclass(frozen=True)
class Slurm(BaseTarget):
    """A batch script. Without containers, paths are those of the nodes' shared file system."""

    def adapt_role(self, role: RoleSettings, settings: Values) -> RoleSettings:
        """Return the settings of a role, with paths of the shared file system if it has no container."""
        if _uses_container(role, settings):
            return role
        values = role.values
        if values.checkpoints.remote:
            what = "`checkpoints.dir` is a URL, and tasks without containers save to the nodes' shared file system"
            raise InvalidInput(
                [Problem(role.at("checkpoints", "dir"), what, "remove it, and use `--set checkpoints=/PATH`")]
            )
        directory = _shared_dir(role, settings)
        changes: dict[str, object] = {"checkpoints": values.checkpoints.model_copy(update={"dir": directory})}
        if values.data is not None:
            changes["data"] = values.data.model_copy(update={"to": data_path(role) or values.data.to})
        return replace(role, values=values.model_copy(update=changes))

    def address(self, cluster: str, task: Task, settings: Values) -> str:
        """Return a placeholder until the job has its nodes."""
        return address(task)

    def ports(self, cluster: Cluster, inventory_ports: Mapping[str, int], settings: Values) -> Mapping[str, int]:
        """Return placeholder ports; the real ones are computed from the job's id."""
        return placeholder_ports(cluster)

    def problems(self, request: RenderRequest) -> Iterator[Problem]:
        """Yield the settings that a batch script does not support."""
        yield from request.refuse_all_gpus("Slurm counts GPUs")
        if request.settings["code"] == "carried" and len({code.digest for code in request.codes.values()}) > 1:
            at = request.roles[list(request.codes)[-1]].at("code")
            yield Problem(at, "a script carries only one `code`, and the roles have several", "set the same for all")
        for role in request.roles.values():
            yield from _problems(role, request.settings)

    def values(self, rendering: RenderInput) -> Mapping[str, object]:
        """Return the tasks with their words, and their resources."""
        members, words = rendering.members, Words(rendering.cluster)
        started = [_script_task(rendering, rank, member, words) for rank, member in enumerate(members)]
        own_cpus, own_mem = rendering.settings["cpus"], rendering.settings["mem"]
        assert isinstance(own_cpus, int)
        assert isinstance(own_mem, int)
        # The options are for tasks without the setting, and Slurm gives every task the same: the most that one needs.
        cpus = max(math.ceil(member.cpus or own_cpus) for member in members)
        mem = max(math.ceil(member.memory / _MEBIBYTE) if member.memory else own_mem for member in members)
        code = next((member.code for member in members if member.code), None)
        packed = gzip.compress(code_archive(code), mtime=0) if code else b""
        if len(packed) > _MAX_CODE:
            what = f"`code` has {len(packed)} bytes when packed, and a batch script carries at most {_MAX_CODE}"
            fix = "exclude files with a .dockerignore, or put it into the image or on the nodes: `--set code=image`"
            role = rendering.request.roles[next(iter(rendering.request.codes))]
            raise InvalidInput([Problem(role.at("code"), what, fix)])
        return {
            "started": started,
            "chief_rank": next(task.rank for task in started if task.member.is_chief),
            "jobs": list(rendering.cluster.spec),
            "cpus": cpus,
            "mem_per_cpu": math.ceil(mem / (cpus or 1)),
            "gpus": max(task.gpus for task in started),
            "grace": max(member.stop_grace for member in members),
            "archive": base64.encodebytes(packed).decode().splitlines(),
            "secrets": list(dict.fromkeys(name for member in members for name in member.secrets)),
            "code_directory": DIRECTORY.removeprefix("/"),
            "runtime_directory": RUNTIME_DIRECTORY.removeprefix("/"),
        }

    def check(self, files: Mapping[str, str]) -> None:
        """Check that the script is one for bash and not too long for Slurm."""
        text = files[FILE]
        if not text.startswith("#!/bin/bash\n"):
            raise ValueError(f"{FILE} must begin with `#!/bin/bash`")
        if len(text.encode()) > _MAX_SCRIPT:
            raise ValueError(f"{FILE} is longer than the {_MAX_SCRIPT >> 20} MiB that Slurm accepts")


def _uses_container(role: RoleSettings, settings: Values) -> bool:
    has_image = bool(settings["image"] or settings["sif"] or role.values.image is not None)
    return settings["container"] == "apptainer" and has_image


def _shared_dir(role: RoleSettings, settings: Values) -> str:
    """Return the directory of a role on the nodes: the chief's, except for a dispatcher, which writes its own files."""
    gathered = (resolve_path(role, "checkpoints", "to") / role.values.cluster).absolute()
    directory = str(settings["checkpoints"] or f"{gathered}-slurm")
    return f"{directory}/dispatcher" if role.role == "dispatcher" else directory


def _problems(role: RoleSettings, settings: Values) -> Iterator[Problem]:
    for number, mount in enumerate(role.values.mounts):
        at = role.at("mounts", number)
        if _uses_container(role, settings) and any(mark in f"{mount.source}{mount.target}" for mark in ":,"):
            what = f"`mounts[{number}]` has a `:` or `,`, where apptainer ends a path"
            yield Problem(at, what, "choose another path")
        elif not _uses_container(role, settings) and mount.nfs is None and mount.source != mount.target:
            what = f"`mounts[{number}]`: without containers a directory keeps its path, {mount.source}"
            yield Problem(at, what, "set the same `target`, or remove the mount")


def _script_task(rendering: RenderInput, rank: int, member: Member, words: Words) -> ScriptTask:
    task = rendering.cluster.find(member.task)
    assert task is not None, "members come from the cluster's tasks"
    role = rendering.request.role(task)
    command, environment, binds = words.command(member), words.environment(member), list[str]()
    is_chosen = role.values.python is not None and not _uses_container(role, rendering.settings)
    python = python_path(role) if is_chosen else None
    if python is not None and member.program[0] in PYTHON:
        command[0] = words.word(python)
    if _uses_container(role, rendering.settings):
        environment = {f"APPTAINERENV_{key}" if key in _KEPT_OUT else key: word for key, word in environment.items()}
        binds = list(_binds(role, member, rendering.settings))
    return ScriptTask(
        rank=rank,
        member=member,
        gpus=member.gpus or (int(str(rendering.settings["gpus"])) if member.role in WITH_GPUS else 0),
        command=command,
        environment=environment,
        binds=binds,
        python=posixpath.dirname(python) if python and "PATH" not in environment else None,
        config="TF_CONFIG" in member.env,
        last=task.job == "ps" or task.feeds or (task.job == "worker" and rendering.strategy in DRIVEN_BY_CHIEF),
    )


def _binds(role: RoleSettings, member: Member, settings: Values) -> Iterator[str]:
    yield f"{_shared_dir(role, settings)}:{member.checkpoint_dir}"
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

"""Spark: a driver program for `spark-submit` that runs every task of the cluster in a barrier task of its executors.

Addresses and the checkpoint directory are known only in the tasks, so that the words of a command have placeholders, which
`tfprov.spark.distributor.job` replaces there.
"""

import ast
import base64
import gzip
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tfprov.errors import InvalidInput, Problem
from tfprov.model.cluster import Cluster, Task
from tfprov.render import options
from tfprov.render.dns_names import short_name
from tfprov.render.options import Option, Values
from tfprov.render.target import BaseTarget, Member, RenderInput, RenderRequest, placeholder_ports
from tfprov.settings.role_settings import RoleSettings, data_path, resolve_path

FILE = "job.py"
DOMAIN = "spark.invalid"
"""The domain of placeholder names, which can never exist, until tasks have executors."""
CHECKPOINTS = "/checkpoints.spark.invalid"
"""The placeholder of the checkpoint directory of a task."""
_LATER = ("TF_CONFIG", "TFPROV_CHECKPOINT_DIR", "TFPROV_TASK", "TFPROV_STRATEGY")
"""Variables that the runner sets in the task."""
_TRAINING = ("ps", "chief", "worker")
_MAX_CODE = 64 << 20
"""Bytes of the packed code: Spark sends it with each task."""
_PATH = options.matching(r"/[^\x00-\x1f\x7f]*[^\x00-\x1f\x7f/]", "an absolute path")

_OPTIONS = (
    Option("checkpoints", "", "the chief's checkpoint directory, on a file system that all executors share", _PATH),
    Option("trusted_network", False, "whether clear text between executors is accepted", options.boolean),
    Option("gpu_resource", "gpu", "the name of Spark's GPU resource", options.matching(r"[a-z][a-z0-9-]*", "a name")),
)


@dataclass(frozen=True)
class Spark(BaseTarget):
    """A driver program. Tasks use the Python, the paths and the packages of the executors."""

    def adapt_role(self, role: RoleSettings, settings: Values) -> RoleSettings:
        """Return the settings of a role with paths of the executors."""
        values = role.values
        if values.checkpoints.remote:
            what = "`checkpoints.dir` is a URL, and tasks on Spark do not copy their checkpoints"
            fix = "remove it; `--set checkpoints=/PATH` is a directory that all executors share"
            raise InvalidInput([Problem(role.at("checkpoints", "dir"), what, fix)])
        changes: dict[str, object] = {"checkpoints": values.checkpoints.model_copy(update={"dir": CHECKPOINTS})}
        if values.data is not None:
            changes["data"] = values.data.model_copy(update={"to": data_path(role) or values.data.to})
        return replace(role, values=values.model_copy(update=changes))

    def address(self, cluster: str, task: Task, settings: Values) -> str:
        """Return a placeholder until the task has an executor."""
        return f"{short_name(task)}.{DOMAIN}"

    def ports(self, cluster: Cluster, inventory_ports: Mapping[str, int], settings: Values) -> Mapping[str, int]:
        """Return placeholder ports."""
        return placeholder_ports(cluster)

    def problems(self, request: RenderRequest) -> Iterator[Problem]:
        """Yield the roles and settings that a training on Spark does not have."""
        yield from request.refuse_all_gpus("Spark counts GPUs")
        for role in request.roles.values():
            if role.role not in _TRAINING:
                fix = "remove the group; run it elsewhere, on the gathered checkpoints or with `data_service: {address: …}`"
                yield Problem(role.group, f"Spark runs only tasks that train, and not the role `{role.role}`", fix)
            for number, mount in enumerate(role.values.mounts):
                if mount.nfs is None and mount.source != mount.target:
                    what = f"`mounts[{number}]`: without containers a directory keeps its path, {mount.source}"
                    yield Problem(role.at("mounts", number), what, "set the same `target`, or remove the mount")
        yield from _uneven_gpus(request)
        yield from _codes(request)

    def values(self, rendering: RenderInput) -> Mapping[str, object]:
        """Return the tasks, the chief first, and what they share."""
        chief = rendering.chief
        others = [member for member in rendering.members if not member.is_chief]
        members = [chief, *(m for m in others if m.job != "ps"), *(m for m in others if m.job == "ps")]
        code = next((member.code for member in members if member.code), None)
        gpus = max(member.gpus for member in members)
        packed = gzip.compress(code.archive, mtime=0) if code else b""
        role = rendering.request.first
        return {
            "tasks": [{"name": m.task, "command": m.command, "env": _environment(m)} for m in members],
            "gpus": gpus,
            "cpus": max((math.ceil(m.cpus) for m in members if m.cpus), default=0),
            "memory": max((m.memory for m in members if m.memory), default=0) >> 20,
            "secrets": list(dict.fromkeys(name for member in members for name in member.secrets)),
            "gather_to": str((resolve_path(role, "checkpoints", "to") / role.values.cluster).absolute()),
            "archive": base64.encodebytes(packed).decode().splitlines(),
            "domain": DOMAIN,
            "ports": {str(m.port): f"{m.job}-{m.index}" for m in members},
            "checkpoint_dir": CHECKPOINTS,
        }

    def check(self, files: Mapping[str, str]) -> None:
        """Check that the program is Python."""
        try:
            ast.parse(files[FILE])
        except SyntaxError as error:
            raise ValueError(f"{FILE} is no Python program: {error}") from None


def _environment(member: Member) -> dict[str, str]:
    return {name: value for name, value in sorted(member.env.items()) if name not in _LATER}


def _uneven_gpus(request: RenderRequest) -> Iterator[Problem]:
    """Yield a problem for workers with different numbers of GPUs: Spark has one number for all tasks."""
    trainers = [role for role in request.roles.values() if role.role in ("chief", "worker")]
    different = next((role for role in trainers if role.values.gpus != trainers[0].values.gpus), None)
    if different is not None:
        what = f"the {different.role} on {different.host} has another number of GPUs than the other tasks"
        yield Problem(different.at("gpus"), what, "set the same `gpus` for all: Spark has one number for a stage")


def _codes(request: RenderRequest) -> Iterator[Problem]:
    if request.settings["code"] != "carried" or not request.codes:
        return
    role = request.roles[list(request.codes)[-1]]
    if len({code.digest for code in request.codes.values()}) > 1:
        what = "a job carries only one `code`, and the roles have several"
        yield Problem(role.at("code"), what, "set the same for all")
    elif next(iter(request.codes.values())).size > _MAX_CODE:
        what = f"`code` is larger than the {_MAX_CODE >> 20} MiB that a job carries"
        yield Problem(role.at("code"), what, "leave data out with a .dockerignore file")


TARGET = Spark(
    name="spark-submit",
    title="a driver program, for spark-submit",
    options={option.name: option for option in _OPTIONS},
    templates={FILE: "spark.py.j2"},
    images=("name", "build", "archive", "none"),
    carries_code=True,
)
"""Executors run no image of the inventory: that is a setting of the Spark cluster."""

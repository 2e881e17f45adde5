"""Kubeflow's TFJob: the operator makes the pods and tells them TF_CONFIG; each kind of replica has one template."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tfprov.errors import InvalidInput, Problem
from tfprov.model.cluster import Task
from tfprov.render.dns_names import long_name
from tfprov.render.kubernetes.cluster_settings import ANY_NODE, ONE_NODE, Bundle, Setting, labels, with_common
from tfprov.render.kubernetes.common import KubeTarget
from tfprov.render.kubernetes.pod import Pod
from tfprov.render.kubernetes.wiring import Wiring
from tfprov.render.options import Option, Values, choice, whole
from tfprov.render.target import Member, Rendering, RenderRequest

REPLICAS = {"chief": "Chief", "worker": "Worker", "ps": "PS", "evaluator": "Evaluator"}
"""What a TFJob calls the jobs that it can run."""
INDEX = "TFPROV_INDEX"
"""The variable with the number that the operator gives a pod."""
_AUTO = "auto"
_OPERATOR = "training.kubeflow.org"
_OWN = ("TF_CONFIG", "TFPROV_TASK")
"""Variables that differ between the tasks of a job."""
_SAME = {
    "image": "image",
    "program": "command",
    "flags": "flags",
    "memory": "memory",
    "cpus": "cpus",
    "gpus": "gpus",
    "mounts": "mounts",
    "data": "data",
    "checkpoint_dir": "checkpoints",
    "port": "port",
    "code": "code",
    "restart": "restart",
    "max_restarts": "max_restarts",
    "stop_grace": "stop_grace",
    "ready": "ready",
    "secrets": "env",
}
"""What must be the same for all tasks of a job, and the setting that says it."""


@dataclass(frozen=True)
class Replicated(Setting):
    """What the pods of a TFJob have in common: they know their number only when they run."""

    def command(self, member: Member) -> list[str]:
        """Return a command line that is right for all tasks of the job."""
        if member.job not in REPLICAS:
            return super().command(member)
        return self.wiring.by_label(member, f"$({INDEX})")

    def environment(self, member: Member) -> list[dict[str, Any]]:
        """Return variables that are right for all tasks of the job; TF_CONFIG comes from the operator."""
        if member.job not in REPLICAS:
            return super().environment(member)
        label = f"metadata.labels['{_OPERATOR}/replica-index']"
        index = {"name": INDEX, "valueFrom": {"fieldRef": {"fieldPath": label}}}
        own = {"name": "TFPROV_TASK", "value": f"{member.job}/$({INDEX})"}
        return [index, own, *(one for one in super().environment(member) if one["name"] not in _OWN)]

    def labels_of(self, member: Member) -> dict[str, str]:
        """Return the labels by which the operator marks the pod of `member`."""
        if member.job not in REPLICAS:
            return super().labels_of(member)
        marks = {"job-name": self.rendering.name, "replica-type": member.job, "replica-index": str(member.index)}
        return {f"{_OPERATOR}/{name}": value for name, value in marks.items()}

    def port_name(self, member: Member) -> str:
        """Return the name by which the operator finds the port for TF_CONFIG."""
        return "tfjob-port" if member.job in REPLICAS else super().port_name(member)

    def checkpoints(self, member: Member) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the volume of checkpoints. Workers that share a template share the volume, each in its directory."""
        chief = self.rendering.chief
        if not self.claim or len([one for one in self.rendering.members if one.job == chief.job]) == 1:
            return super().checkpoints(member)
        volume = {"name": "checkpoints", "persistentVolumeClaim": {"claimName": self.claim}}
        mount = {"name": "checkpoints", "mountPath": member.checkpoint_dir}
        if member.job == chief.job:
            return volume, {**mount, "subPathExpr": f"{member.job}-$({INDEX})"}
        if member.files_of is not None or member.job == "ps":
            return volume, {**mount, "subPath": f"{chief.job}-{chief.index}"}
        return super().checkpoints(member)


@dataclass(frozen=True)
class Replica:
    """All tasks of one job. `pod` is the pod of each, and `labels` those that all of them have."""

    kind: str
    count: int
    pod: Pod

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the template; the operator adds its own."""
        return labels(self.pod.setting.rendering.name, self.pod.member.job)


@dataclass(frozen=True)
class TFJob(KubeTarget):
    """Needs Kubeflow's training operator, whose TFJob has `kubeflow.org/v1`."""

    def address(self, cluster: str, task: Task, settings: Mapping[str, object]) -> str:
        """Return the name that the operator puts into TF_CONFIG: `linear-ps-0.default.svc`."""
        name = long_name(cluster, task)
        return f"{name}.{settings['namespace']}.svc" if task.job in REPLICAS else name

    def problems(self, request: RenderRequest) -> Iterator[Problem]:
        """Yield also a volume that not all workers can have."""
        yield from super().problems(request)
        settings, chief = request.settings, request.cluster.chief
        lasting = settings["claim"] or settings["storage"] != "none"
        if _chief_has_others_beside_it(request) and lasting and settings["access"] == ONE_NODE:
            what = f"{chief.name} is a worker as the others, and workers on several nodes cannot share that volume"
            yield Problem(request.role(chief).group, what, "give `--set access=ReadWriteMany`, or `--set storage=none`")

    def settled(self, request: RenderRequest) -> Values:
        """Return the values of the options, with a volume that all who have to can mount."""
        if request.settings["access"] != _AUTO:
            return request.settings
        return {**request.settings, "access": ANY_NODE if _chief_has_others_beside_it(request) else ONE_NODE}

    def setting(self, rendering: Rendering, bundle: Bundle | None) -> Setting:
        """Return what all pods have in common."""
        return Replicated(rendering, Wiring(rendering.cluster, shares=False), bundle)

    def values(self, rendering: Rendering) -> Mapping[str, Any]:
        """Return also `replicas`, and the pods `beside` them, which the operator does not know."""
        if problems := list(_unlike(rendering)):
            raise InvalidInput(problems)
        values = super().values(rendering)
        pods: list[Pod] = values["pods"]
        path = f"/apis/kubeflow.org/v1/namespaces/{{namespace}}/tfjobs/{rendering.name}"
        beside = [pod for pod in pods if pod.member.job not in REPLICAS]
        return {
            **values,
            "replicas": list(_replicas(pods)),
            "beside": beside,
            "watched": path if any(pod.member.role != "tensorboard" for pod in beside) else "",
        }


def _replicas(pods: list[Pod]) -> Iterator[Replica]:
    for job, kind in REPLICAS.items():
        of_job = [pod for pod in pods if pod.member.job == job]
        if of_job:
            # The last one: the first worker may be the chief, on whom nothing may depend here.
            yield Replica(kind, len(of_job), of_job[-1])


def _unlike(rendering: Rendering) -> Iterator[Problem]:
    """Yield a problem for each task that differs from the first one of its job."""
    first: dict[str, tuple[Member, Task]] = {}
    for member, task in zip(rendering.members, rendering.cluster.tasks, strict=True):
        if member.job not in REPLICAS:
            continue
        usual, _ = first.setdefault(member.job, (member, task))
        for name in _differences(usual, member):
            what = f"`{name}` is another one for {member.task} than for {usual.task}, and a TFJob has one template for both"
            fix = "say the same for both; programs find who they are in TFPROV_TASK"
            yield Problem(rendering.asked.role(task).at(name), what, fix)
            break


def _differences(one: Member, other: Member) -> Iterator[str]:
    yield from (setting for name, setting in _SAME.items() if getattr(one, name) != getattr(other, name))
    if _common(one) != _common(other):
        yield "env"


def _common(member: Member) -> dict[str, str]:
    return {name: value for name, value in member.env.items() if name not in _OWN}


def _chief_has_others_beside_it(request: RenderRequest) -> bool:
    """Whether the chief shares its template, and with it its volume, with others."""
    return sum(task.job == request.cluster.chief.job for task in request.cluster.tasks) > 1


TARGET = TFJob(
    name="kubeflow-tfjob",
    title="Kubeflow's training operator: a TFJob",
    options=with_common(
        Option(
            "access",
            _AUTO,
            "how nodes share the volume; `auto`: `ReadWriteMany` where worker 0 is the chief and not the only worker, "
            "since all of them mount it then, and else `ReadWriteOnce`",
            choice(_AUTO, ONE_NODE, ANY_NODE),
        ),
        Option(
            "clean",
            "Running",
            "which pods are removed when the training has ended: `Running` ones, which are the ps, `All`, or `None`",
            choice("Running", "All", "None"),
        ),
        Option(
            "success",
            "",
            "when it has succeeded: `AllWorkers`, when all workers have; without it, when the chief has",
            choice("", "AllWorkers"),
        ),
        Option("deadline", 0, "after how many seconds the training is ended; 0: never", whole(0, 2**31 - 1)),
    ),
    templates={"tfjob.yml": "tfjob.yml.j2"},
    carries_code=True,
)

"""Kubeflow's TFJob: the operator creates the pods and sets TF_CONFIG; each kind of replica has one template."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tfprov.errors import InvalidInput, Problem
from tfprov.model.cluster import Task
from tfprov.render.dns_names import long_name
from tfprov.render.kubernetes.cluster_settings import ANY_NODE, ONE_NODE, Bundle, PodSettings, labels, with_common
from tfprov.render.kubernetes.common import KubeTarget
from tfprov.render.kubernetes.pod import Pod
from tfprov.render.kubernetes.wiring import PodWiring
from tfprov.render.options import Option, Values, choice, integer
from tfprov.render.target import Member, RenderInput, RenderRequest

REPLICAS = {"chief": "Chief", "worker": "Worker", "ps": "PS", "evaluator": "Evaluator"}
"""The replica types of a TFJob, by job."""
INDEX = "TFPROV_INDEX"
"""The variable with the index that the operator gives a pod."""
_AUTO = "auto"
_OPERATOR = "training.kubeflow.org"
_PER_TASK = ("TF_CONFIG", "TFPROV_TASK")
"""Variables that differ between the tasks of a job."""
_SHARED_SETTINGS = {
    "program": "command",
    "flags": "flags",
    "memory": "memory",
    "shm_size": "shm_size",
    "cpus": "cpus",
    "gpus": "gpus",
    "mounts": "mounts",
    "data": "data",
    "checkpoint_dir": "checkpoints",
    "port": "port",
    "code": "code",
    "workdir": "code",
    "restart": "restart",
    "max_restarts": "max_restarts",
    "stop_grace": "stop_grace",
    "ready": "ready",
    "secrets": "env",
}
"""Fields of members that all tasks of a job must share, with their settings."""


@dataclass(frozen=True)
class ReplicaSettings(PodSettings):
    """The settings of a TFJob's pods, which learn their index only when they run."""

    def command(self, member: Member) -> list[str]:
        """Return a command line for all tasks of the job."""
        if member.job not in REPLICAS:
            return super().command(member)
        return self.wiring.command_with_index(member, f"$({INDEX})")

    def environment(self, member: Member) -> list[dict[str, Any]]:
        """Return the variables for all tasks of the job. The operator sets TF_CONFIG, but not for a single task."""
        if member.job not in REPLICAS:
            return super().environment(member)
        label = f"metadata.labels['{_OPERATOR}/replica-index']"
        index = {"name": INDEX, "valueFrom": {"fieldRef": {"fieldPath": label}}}
        own = {"name": "TFPROV_TASK", "value": f"{member.job}/$({INDEX})"}
        is_alone = sum(other.job in REPLICAS for other in self.rendering.members) == 1
        left = ("TFPROV_TASK",) if is_alone else _PER_TASK
        return [index, own, *(variable for variable in super().environment(member) if variable["name"] not in left)]

    def labels_of(self, member: Member) -> dict[str, str]:
        """Return the labels that the operator gives the pod of `member`."""
        if member.job not in REPLICAS:
            return super().labels_of(member)
        marks = {"job-name": self.rendering.name, "replica-type": member.job, "replica-index": str(member.index)}
        return {f"{_OPERATOR}/{name}": value for name, value in marks.items()}

    def port_name(self, member: Member) -> str:
        """Return the name of the port that the operator writes into TF_CONFIG."""
        return "tfjob-port" if member.job in REPLICAS else super().port_name(member)

    def checkpoints(self, member: Member) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the volume of checkpoints. Workers that share a template share the volume, each with its own directory."""
        chief = self.rendering.chief
        if not self.claim or sum(other.job == chief.job for other in self.rendering.members) == 1:
            return super().checkpoints(member)
        volume = {"name": "checkpoints", "persistentVolumeClaim": {"claimName": self.claim}}
        mount = {"name": "checkpoints", "mountPath": member.checkpoint_dir}
        if member.job == chief.job:
            return volume, {**mount, "subPathExpr": f"{member.job}-$({INDEX})"}
        if member.files_of is not None or member.job == "ps":
            return volume, {**mount, "subPath": f"{chief.job}-{chief.index}"}
        return super().checkpoints(member)


@dataclass(frozen=True)
class ReplicaSpec:
    """All tasks of one job, with the `pod` that they share."""

    kind: str
    count: int
    pod: Pod

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the template, to which the operator adds its own."""
        return labels(self.pod.common.rendering.name, self.pod.member.job)


@dataclass(frozen=True)
class TFJob(KubeTarget):
    """Needs Kubeflow's training operator with TFJob `kubeflow.org/v1`."""

    def address(self, cluster: str, task: Task, settings: Mapping[str, object]) -> str:
        """Return the name that the operator writes into TF_CONFIG: `linear-ps-0.default.svc`."""
        name = long_name(cluster, task)
        return f"{name}.{settings['namespace']}.svc" if task.job in REPLICAS else name

    def problems(self, request: RenderRequest) -> Iterator[Problem]:
        """Yield also a volume that not all workers can mount."""
        yield from super().problems(request)
        settings, chief = request.settings, request.cluster.chief
        is_claimed = settings["claim"] or settings["storage"] != "none"
        if _shares_chiefs_template(request) and is_claimed and settings["access"] == ONE_NODE:
            what = f"{chief.name} shares its template with other workers, and several nodes cannot mount that volume"
            yield Problem(request.role(chief).group, what, "use `--set access=ReadWriteMany`, or `--set storage=none`")

    def complete_settings(self, request: RenderRequest) -> Values:
        """Return the values of the options, with an access mode that fits the tasks that mount the volume."""
        if request.settings["access"] != _AUTO:
            return request.settings
        return {**request.settings, "access": ANY_NODE if _shares_chiefs_template(request) else ONE_NODE}

    def pod_settings(self, rendering: RenderInput, bundle: Bundle | None) -> PodSettings:
        """Return the settings that all pods share."""
        return ReplicaSettings(rendering, PodWiring(rendering.cluster, shares=False), bundle)

    def values(self, rendering: RenderInput) -> Mapping[str, Any]:
        """Return also `replicas`, the pods `beside` them, and `watched`, the API path that Jobs among those wait for."""
        if problems := list(_template_problems(rendering)):
            raise InvalidInput(problems)
        values = super().values(rendering)
        pods: list[Pod] = values["pods"]
        path = f"/apis/kubeflow.org/v1/namespaces/{{namespace}}/tfjobs/{rendering.name}"
        beside = [pod for pod in pods if pod.member.job not in REPLICAS]
        return {
            **values,
            "replicas": list(_replicas(pods)),
            "beside": beside,
            "watched": path if any(not pod.member.is_web for pod in beside) else "",
        }


def _replicas(pods: list[Pod]) -> Iterator[ReplicaSpec]:
    for job, kind in REPLICAS.items():
        of_job = [pod for pod in pods if pod.member.job == job]
        if of_job:
            # The last task: the first worker may be the chief, and the template must not depend on that.
            yield ReplicaSpec(kind, len(of_job), of_job[-1])


def _template_problems(rendering: RenderInput) -> Iterator[Problem]:
    """Yield a problem for each task that differs from the first task of its job."""
    first: dict[str, Member] = {}
    for member, task in zip(rendering.members, rendering.cluster.tasks, strict=True):
        if member.job not in REPLICAS:
            continue
        reference = first.setdefault(member.job, member)
        for name in _differences(reference, member):
            what = f"`{name}` differs between {member.task} and {reference.task}, and a TFJob has one template for both"
            fix = "set the same for both; a program can read its task from TFPROV_TASK"
            yield Problem(rendering.request.role(task).at(name), what, fix)
            break


def _differences(one: Member, other: Member) -> Iterator[str]:
    yield from (setting for name, setting in _SHARED_SETTINGS.items() if getattr(one, name) != getattr(other, name))
    if _shared_env(one) != _shared_env(other):
        yield "env"


def _shared_env(member: Member) -> dict[str, str]:
    return {name: value for name, value in member.env.items() if name not in _PER_TASK}


def _shares_chiefs_template(request: RenderRequest) -> bool:
    """Whether the chief shares its template, and so its volume, with other tasks."""
    return sum(task.job == request.cluster.chief.job for task in request.cluster.tasks) > 1


TARGET = TFJob(
    name="kubeflow-tfjob",
    title="Kubeflow's training operator: a TFJob",
    options=with_common(
        Option(
            "access",
            _AUTO,
            "the access mode of the volume; `auto`: `ReadWriteMany` if worker 0 is the chief and not the only worker, "
            "since all of them mount it then, else `ReadWriteOnce`",
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
            "when the TFJob has succeeded: `AllWorkers`: when all workers have; without it: when the chief has",
            choice("", "AllWorkers"),
        ),
        Option("deadline", 0, "seconds after which the training is ended; 0: never", integer(0, 2**31 - 1)),
    ),
    templates={"tfjob.yml": "tfjob.yml.j2"},
    carries_code=True,
)

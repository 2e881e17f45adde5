"""JobSet: all tasks in one object, which succeeds when the chief does and then removes those that only serve."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tfprov.model.cluster import Task
from tfprov.render.dns_names import long_name, short_name
from tfprov.render.kubernetes.cluster_settings import Json, with_common
from tfprov.render.kubernetes.common import KubeTarget
from tfprov.render.kubernetes.pod import Pod
from tfprov.render.options import Option, Values, switch, whole
from tfprov.render.target import Rendering, RenderRequest

JOBSET_OPTIONS = (
    Option("restarts", 3, "how often everything starts again when a task has failed for good", whole(0, 1000)),
    Option(
        "await_evaluator",
        False,
        "whether the evaluator has to end as well; it must be one that ends by itself",
        switch,
    ),
)


@dataclass(frozen=True)
class JobSet(KubeTarget):
    """Needs the JobSet controller. Every task is a replicated Job of its own, because each is told its own index."""

    def address(self, cluster: str, task: Task, settings: Values) -> str:
        """Return the host name that JobSet gives the only pod of the task's Job: `linear-ps-0-0-0.linear`."""
        if task.role == "tensorboard":  # it outlives the training, and so the JobSet
            return long_name(cluster, task)
        return f"{long_name(cluster, task)}-0-0.{cluster}"

    def names(self, request: RenderRequest) -> Iterator[str]:
        """Yield the names of the pods: their Jobs' names, and five characters of chance."""
        for task in request.cluster.tasks:
            host = self.address(request.cluster.name, task, request.settings).partition(".")[0]
            yield host if task.role == "tensorboard" else f"{host}-xxxxx"

    def values(self, rendering: Rendering) -> Mapping[str, Any]:
        """Return also `replicated_jobs`, the pods `beside` the JobSet, and `success`, the jobs that end it."""
        values = super().values(rendering)
        pods: list[Pod] = values["pods"]
        waited = ("evaluator",) if rendering.settings["await_evaluator"] else ()
        return {
            **values,
            "replicated_jobs": [self.replicated_job(pod) for pod in pods if pod.member.role != "tensorboard"],
            "beside": [pod for pod in pods if pod.member.role == "tensorboard"],
            "success": [short_name(pod.member) for pod in pods if pod.member.is_chief or pod.member.role in waited],
        }

    def replicated_job(self, pod: Pod) -> Json:
        """Return the replicated Job of a task, such as `ps-0`."""
        spec = {
            "completions": 1,
            "parallelism": 1,
            "completionMode": "Indexed",
            "backoffLimit": pod.backoff,
            "template": pod.template(pod.restart_policy, self.container_of(pod)),
        }
        template = {"metadata": {"labels": self.job_labels(pod)}, "spec": spec}
        return {"name": short_name(pod.member), "replicas": 1, "template": template}

    def job_labels(self, pod: Pod) -> Mapping[str, str]:
        """Return the labels of a task's Job."""
        return pod.labels

    def container_of(self, pod: Pod) -> str:
        """Return the name of a task's container."""
        return "tensorflow"


TARGET = JobSet(
    name="jobset",
    title="Kubernetes with JobSet: one object, which ends with the chief",
    options=with_common(*JOBSET_OPTIONS),
    templates={"jobset.yml": "jobset.yml.j2"},
    carries_code=True,
)


@dataclass(frozen=True)
class Trainer(JobSet):
    """Needs Kubeflow Trainer, which makes a JobSet of the runtime under the name of the TrainJob."""

    def job_labels(self, pod: Pod) -> Mapping[str, str]:
        """Return the labels of a task's Job; those of the chief say that the TrainJob's `trainer` means it."""
        ancestor = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"} if pod.member.is_chief else {}
        return {**super().job_labels(pod), **ancestor}

    def container_of(self, pod: Pod) -> str:
        """Return the name of a task's container; Trainer looks for `node` in the Job that a TrainJob's `trainer` means."""
        return "node" if pod.member.is_chief else super().container_of(pod)


TRAINJOB = Trainer(
    name="kubeflow-trainer",
    title="Kubeflow Trainer v2: a TrainJob with a TrainingRuntime for TensorFlow",
    options=with_common(*JOBSET_OPTIONS),
    templates={"trainer.yml": "trainer.yml.j2"},
    carries_code=True,
)

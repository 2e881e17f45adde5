"""JobSet: all tasks in one object, which succeeds with the chief and then removes the servers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tfprov.model.cluster import Task
from tfprov.render.dns_names import long_name, short_name
from tfprov.render.kubernetes.cluster_settings import Json, with_common
from tfprov.render.kubernetes.common import KubeTarget
from tfprov.render.kubernetes.pod import Pod
from tfprov.render.options import Option, Values, boolean, integer
from tfprov.render.target import RenderInput, RenderRequest

JOBSET_OPTIONS = (
    Option("restarts", 3, "how often all tasks start again after one has failed for good", integer(0, 1000)),
    Option(
        "await_evaluator",
        False,
        "whether to wait for the evaluator, too; it must end by itself",
        boolean,
    ),
)


@dataclass(frozen=True)
class JobSet(KubeTarget):
    """Needs the JobSet controller. Every task is its own replicated Job, because each gets its own index."""

    def address(self, cluster: str, task: Task, settings: Values) -> str:
        """Return the host name that JobSet gives the only pod of the task's Job: `linear-ps-0-0-0.linear`."""
        if task.is_web:  # it outlives the training, and so the JobSet
            return long_name(cluster, task)
        return f"{long_name(cluster, task)}-0-0.{cluster}"

    def names(self, request: RenderRequest) -> Iterator[str]:
        """Yield the names of the pods: their Jobs' names and five random characters."""
        for task in request.cluster.tasks:
            host = self.address(request.cluster.name, task, request.settings).partition(".")[0]
            yield host if task.is_web else f"{host}-xxxxx"

    def values(self, rendering: RenderInput) -> Mapping[str, Any]:
        """Return also `replicated_jobs`, the pods `beside` the JobSet, and `success`, the jobs that end it."""
        values = super().values(rendering)
        pods: list[Pod] = values["pods"]
        awaited = ("evaluator",) if rendering.settings["await_evaluator"] else ()
        return {
            **values,
            "replicated_jobs": [self.replicated_job(pod) for pod in pods if not pod.member.is_web],
            "beside": [pod for pod in pods if pod.member.is_web],
            "success": [short_name(pod.member) for pod in pods if pod.member.is_chief or pod.member.role in awaited],
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
    """Needs Kubeflow Trainer, which creates a JobSet from the runtime with the name of the TrainJob."""

    def job_labels(self, pod: Pod) -> Mapping[str, str]:
        """Return the labels of a task's Job; the chief's is the `trainer` step of the TrainJob."""
        ancestor = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"} if pod.member.is_chief else {}
        return {**super().job_labels(pod), **ancestor}

    def container_of(self, pod: Pod) -> str:
        """Return the name of a task's container; Trainer requires `node` in the Job of the `trainer` step."""
        return "node" if pod.member.is_chief else super().container_of(pod)


TRAINJOB = Trainer(
    name="kubeflow-trainer",
    title="Kubeflow Trainer v2: a TrainJob with a TrainingRuntime for TensorFlow",
    options=with_common(*JOBSET_OPTIONS),
    templates={"trainer.yml": "trainer.yml.j2"},
    carries_code=True,
)

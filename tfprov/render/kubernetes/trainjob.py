"""Kubeflow Trainer v2: a TrainJob, and a TrainingRuntime of our own, because upstream has none for TensorFlow."""

from collections.abc import Mapping
from dataclasses import dataclass

from tfprov.render.kubernetes.cluster_settings import with_common
from tfprov.render.kubernetes.jobset import JOBSET_OPTIONS, JobSet
from tfprov.render.kubernetes.pod import Pod


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


TARGET = Trainer(
    name="kubeflow-trainer",
    title="Kubeflow Trainer v2: a TrainJob with a TrainingRuntime for TensorFlow",
    options=with_common(*JOBSET_OPTIONS),
    templates={"trainer.yml": "trainer.yml.j2"},
    carries_code=True,
)

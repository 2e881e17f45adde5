"""Plain Kubernetes: a Job for each task, or a StatefulSet or Deployment, which never end."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfprov.render.kubernetes.cluster_settings import with_common
from tfprov.render.kubernetes.common import KubeTarget
from tfprov.render.kubernetes.pod import Pod
from tfprov.render.options import Option, Values, choice
from tfprov.render.target import RenderInput

_KIND = Option(
    "kind",
    "Job",
    "what runs a task: `Job` ends with the training; `StatefulSet` and `Deployment` restart it forever",
    choice("Job", "StatefulSet", "Deployment"),
)
_MAX_STATEFUL_SET_NAME = 52
"""Maximum characters of a StatefulSet's name: its pods have a label with eleven more."""


@dataclass(frozen=True)
class Kubernetes(KubeTarget):
    """Needs Kubernetes 1.29, whose sidecars end with their pod."""

    def longest(self, settings: Values) -> int:
        """Return the maximum characters of a member's name, which are fewer for a StatefulSet."""
        return _MAX_STATEFUL_SET_NAME if settings["kind"] == "StatefulSet" else super().longest(settings)

    def values(self, rendering: RenderInput) -> Mapping[str, Any]:
        """Return also `watched`, the API path of the chief's Job if any other Job ends with it."""
        values = super().values(rendering)
        pods: list[Pod] = values["pods"]
        in_jobs = rendering.settings["kind"] == "Job"
        watches = in_jobs and any(not pod.ends and not pod.member.is_web for pod in pods)
        path = f"/apis/batch/v1/namespaces/{{namespace}}/jobs/{rendering.chief.name}"
        return {**values, "watched": path if watches else ""}


TARGET = Kubernetes(
    name="kubernetes",
    title="plain Kubernetes: a Job for each task",
    options=with_common(_KIND),
    templates={"kubernetes.yml": "kubernetes.yml.j2"},
    carries_code=True,
)

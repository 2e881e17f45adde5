"""The base of all targets on Kubernetes: their checks, the variables of their templates, and the check of their output."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tfprov.errors import Problem, Usage
from tfprov.render.dns_names import LONGEST, name_problems
from tfprov.render.kubernetes import cluster_settings
from tfprov.render.kubernetes.cluster_settings import PodSettings
from tfprov.render.kubernetes.pod import Pod
from tfprov.render.kubernetes.wiring import PodWiring
from tfprov.render.options import Values
from tfprov.render.output import objects, text_of
from tfprov.render.target import BaseTarget, RenderInput, RenderRequest
from tfprov.settings.role_settings import RoleSettings
from tfprov.wiring import READERS

_WAIT_PROGRAM = Path(__file__).parents[2] / "runtime" / "wait_for_job.py"


@dataclass(frozen=True)
class View:
    """Variables of the templates for the objects of the whole cluster."""

    rendering: RenderInput
    pod_settings: PodSettings

    @cached_property
    def pods(self) -> list[Pod]:
        """A pod for each member."""
        return [Pod(member, self.pod_settings) for member in self.rendering.members]

    @cached_property
    def labels(self) -> dict[str, str]:
        """The labels of objects of the whole cluster."""
        labels = cluster_settings.labels(self.rendering.name, "cluster")
        del labels["app.kubernetes.io/component"]
        return labels

    @property
    def instance(self) -> dict[str, str]:
        """The label that selects exactly the pods of the cluster."""
        return {"app.kubernetes.io/instance": self.rendering.name}

    def metadata(self, name: str, component: str | None = None) -> dict[str, Any]:
        """Return the metadata of an object."""
        namespace = self.rendering.settings["namespace"]
        labels = self.labels if component is None else cluster_settings.labels(self.rendering.name, component)
        return {"name": name, "namespace": namespace, "labels": labels}

    @property
    def volume(self) -> dict[str, Any] | None:
        """The spec of the claim for checkpoints; None if the file has none."""
        settings = self.rendering.settings
        if settings["claim"] or settings["storage"] == "none":
            return None
        storage_class = {"storageClassName": settings["storage_class"]} if settings["storage_class"] else {}
        resources = {"requests": {"storage": settings["storage"]}}
        return {"accessModes": [settings["access"]], **storage_class, "resources": resources}

    @cached_property
    def until(self) -> str:
        """The source of the program that ends with the training."""
        return _WAIT_PROGRAM.read_text("utf-8")


@dataclass(frozen=True)
class KubeTarget(BaseTarget):
    """A target for `kubectl apply --server-side`."""

    def longest(self, settings: Values) -> int:
        """Return the maximum characters of a member's name."""
        return LONGEST

    def names(self, request: RenderRequest) -> Iterator[str]:
        """Yield every name that must be a DNS label."""
        return (
            self.address(request.cluster.name, task, request.settings).partition(".")[0]
            for task in request.cluster.tasks
        )

    def problems(self, request: RenderRequest) -> Iterator[Problem]:
        """Yield the settings that Kubernetes does not support or would refuse."""
        yield from name_problems(request.first, self.names(request), longest=self.longest(request.settings))
        yield from request.refuse_all_gpus("Kubernetes counts GPUs")
        yield from request.refuse_devices("a pod gets devices from a device plugin, such as GPUs by `gpus`")
        yield from _local_data(request)
        yield from _unreadable_checkpoints(request)
        yield from _too_large(request)
        if not request.settings["env_secret"]:
            yield from request.refuse_secrets(
                "put it into a Secret under the key `{name}`, and use `--set env_secret=NAME`"
            )
        _check_options(request.settings)

    def values(self, rendering: RenderInput) -> Mapping[str, Any]:
        """Return `kube` for the objects of the whole cluster, `pods`, and the shared `wiring` and `bundle`."""
        carried = rendering.settings["code"] == "carried"
        codes = [member.code for member in rendering.members if member.code]
        bundle = cluster_settings.bundle(codes) if carried else None
        view = View(rendering, self.pod_settings(rendering, bundle))
        return {"kube": view, "pods": view.pods, "wiring": view.pod_settings.wiring, "bundle": bundle}

    def pod_settings(self, rendering: RenderInput, bundle: cluster_settings.Bundle | None) -> PodSettings:
        """Return the settings that all pods share."""
        return PodSettings(rendering, PodWiring(rendering.cluster), bundle)

    def check(self, files: Mapping[str, str]) -> None:
        """Check that every document is a Kubernetes object, and that no two have the same kind and name."""
        for name, text in files.items():
            identities: set[tuple[str, str]] = set()
            for document, texts in objects(name, text):
                kind_and_name = identity(name, document, texts)
                if kind_and_name in identities:
                    raise ValueError(f"{name}: two objects are {' '.join(kind_and_name)}")
                identities.add(kind_and_name)


def identity(file: str, document: object, texts: list[Any]) -> tuple[str, str]:
    """Return kind and name of an object; ValueError if it has none."""
    if isinstance(document, dict):
        fields = {str(text_of(key, texts)): value for key, value in document.items()}
        metadata = fields.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        names = [value for key, value in metadata.items() if text_of(key, texts) == "name"]
        kind, name = text_of(fields.get("kind"), texts), text_of(names[0] if names else None, texts)
        if "apiVersion" in fields and isinstance(kind, str) and isinstance(name, str):
            return kind, name
    raise ValueError(f"{file}: a document is not a Kubernetes object")


def _local_data(request: RenderRequest) -> Iterator[Problem]:
    """Yield a problem for data next to the inventory, which no node has."""
    if request.settings["data_claim"] or request.settings["data_path"]:
        return
    for role in request.roles.values():
        if role.reads_data and role.values.data and not (role.values.data.directory or "/").startswith("/"):
            fix = "use `--set data_claim=CLAIM`, or `--set data_path=/PATH` for a directory that every node has"
            yield Problem(
                role.at("data", "path"), "`data.path` is on this machine, and not on the cluster's nodes", fix
            )


def _unreadable_checkpoints(request: RenderRequest) -> Iterator[Problem]:
    """Yield a problem for each role that reads checkpoints of a pod's own volume."""
    if request.settings["claim"] or request.settings["storage"] != "none":
        return
    for role in request.roles.values():
        if role.role in READERS:
            what = f"the {role.role} cannot read the chief's checkpoints with `--set storage=none`"
            yield Problem(role.group, what, f"set a size, such as `--set storage=10Gi`, or remove the {role.role}")


def _too_large(request: RenderRequest) -> Iterator[Problem]:
    if request.settings["code"] == "carried" and request.codes:
        role = request.roles[next(iter(request.codes))]
        yield from code_size_problem(role, cluster_settings.packed_size(request.codes.values()))


def code_size_problem(role: RoleSettings, size: int) -> Iterator[Problem]:
    """Yield a problem for packed code that exceeds a ConfigMap; `size` is in bytes."""
    if size > cluster_settings.MAX_PACKED:
        what = f"`code` has {size} bytes when packed, and a ConfigMap holds at most {cluster_settings.MAX_PACKED}"
        fix = "exclude other files with a .dockerignore, or put it into the image and use `--set code=image`"
        yield Problem(role.at("code"), what, fix)


def _check_options(settings: Values) -> None:
    if settings["claim"] and settings["storage_class"]:
        raise Usage("`--set claim` and `--set storage_class` exclude each other", "use one of them")
    if settings["data_claim"] and settings["data_path"]:
        raise Usage("`--set data_claim` and `--set data_path` exclude each other", "use one of them")

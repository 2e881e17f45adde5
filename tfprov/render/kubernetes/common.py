"""What all targets on Kubernetes have in common: their rules, what their templates see, and how their output is read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tfprov.errors import Problem, Usage
from tfprov.render.dns_names import LONGEST, wrong_names
from tfprov.render.kubernetes import cluster_settings
from tfprov.render.kubernetes.cluster_settings import Setting
from tfprov.render.kubernetes.pod import Pod
from tfprov.render.kubernetes.wiring import Wiring
from tfprov.render.options import Values
from tfprov.render.output import objects, text_of
from tfprov.render.target import BaseTarget, Rendering, RenderRequest

_UNTIL = Path(__file__).parents[2] / "runtime" / "wait_for_job.py"
_READERS = ("evaluator", "tensorboard")


@dataclass(frozen=True)
class View:
    """What the templates see of a rendering for Kubernetes, besides its members."""

    rendering: Rendering
    setting: Setting

    @cached_property
    def pods(self) -> list[Pod]:
        """One pod a member."""
        return [Pod(member, self.setting) for member in self.rendering.members]

    @cached_property
    def labels(self) -> dict[str, str]:
        """The labels of what belongs to the whole cluster."""
        labels = cluster_settings.labels(self.rendering.name, "cluster")
        del labels["app.kubernetes.io/component"]
        return labels

    @property
    def instance(self) -> dict[str, str]:
        """The label that all pods of the cluster have, and no others."""
        return {"app.kubernetes.io/instance": self.rendering.name}

    def metadata(self, name: str, component: str | None = None) -> dict[str, Any]:
        """Return the metadata of an object."""
        namespace = self.rendering.settings["namespace"]
        labels = self.labels if component is None else cluster_settings.labels(self.rendering.name, component)
        return {"name": name, "namespace": namespace, "labels": labels}

    @property
    def volume(self) -> dict[str, Any] | None:
        """The spec of the claim for checkpoints; None where none is to be made."""
        settings = self.rendering.settings
        if settings["claim"] or settings["storage"] == "none":
            return None
        kind = {"storageClassName": settings["storage_class"]} if settings["storage_class"] else {}
        requestrces = {"requests": {"storage": settings["storage"]}}
        return {"accessModes": [settings["access"]], **kind, "resources": requestrces}

    @cached_property
    def until(self) -> str:
        """The program that ends when the training does."""
        return _UNTIL.read_text("utf-8")


@dataclass(frozen=True)
class KubeTarget(BaseTarget):
    """A target whose output `kubectl apply --server-side` takes."""

    def longest(self, settings: Values) -> int:
        """Return how many characters a member's name may have."""
        return LONGEST

    def names(self, request: RenderRequest) -> Iterator[str]:
        """Yield every name that is to be a DNS label."""
        return (
            self.address(request.cluster.name, task, request.settings).partition(".")[0]
            for task in request.cluster.tasks
        )

    def problems(self, request: RenderRequest) -> Iterator[Problem]:
        """Yield what Kubernetes cannot do, or would refuse."""
        yield from wrong_names(request.first, self.names(request), longest=self.longest(request.settings))
        yield from request.refuse_all_gpus("Kubernetes counts GPUs")
        yield from _here(request)
        yield from _lost(request)
        yield from _too_large(request)
        if not request.settings["env_secret"]:
            yield from request.refuse_secrets(
                "put it into a Secret under the key `{name}`, and give `--set env_secret=NAME`"
            )
        _check_options(request.settings)

    def values(self, rendering: Rendering) -> Mapping[str, Any]:
        """Return `kube`, what is common to all objects, and `pods`, one for each member."""
        carried = rendering.settings["code"] == "carried"
        codes = [member.code for member in rendering.members if member.code]
        bundle = cluster_settings.bundle(codes) if carried else None
        view = View(rendering, self.setting(rendering, bundle))
        return {"kube": view, "pods": view.pods, "wiring": view.setting.wiring, "bundle": bundle}

    def setting(self, rendering: Rendering, bundle: cluster_settings.Bundle | None) -> Setting:
        """Return what all pods have in common."""
        return Setting(rendering, Wiring(rendering.cluster), bundle)

    def check(self, files: Mapping[str, str]) -> None:
        """Read all documents, and see that each is an object of its own."""
        for name, text in files.items():
            identities: set[tuple[str, str]] = set()
            for document, texts in objects(name, text):
                identified = identity(name, document, texts)
                if identified in identities:
                    raise ValueError(f"{name}: two objects are {identified[0]} {identified[1]}")
                identities.add(identified)


def identity(file: str, document: object, texts: list[Any]) -> tuple[str, str]:
    """Return kind and name of an object; ValueError where it has none."""
    if isinstance(document, dict):
        fields = {str(text_of(key, texts)): value for key, value in document.items()}
        metadata = fields.get("metadata")
        named = (
            {str(text_of(key, texts)): value for key, value in metadata.items()} if isinstance(metadata, dict) else {}
        )
        kind, name = text_of(fields.get("kind"), texts), text_of(named.get("name"), texts)
        if "apiVersion" in fields and isinstance(kind, str) and isinstance(name, str):
            return kind, name
    raise ValueError(f"{file}: a document that is no Kubernetes object")


def _here(request: RenderRequest) -> Iterator[Problem]:
    """Yield data that lies beside the inventory: no node has it."""
    if request.settings["data_claim"] or request.settings["data_path"]:
        return
    for role in request.roles.values():
        if role.reads_data and role.values.data and not (role.values.data.path or "/").startswith("/"):
            fix = "give `--set data_claim=CLAIM`, or `--set data_path=/PATH` for a directory that every node has"
            yield Problem(
                role.at("data", "path"), "`data.path` is on this machine, and not on the cluster's nodes", fix
            )


def _lost(request: RenderRequest) -> Iterator[Problem]:
    """Yield who wants to read checkpoints that nobody else sees."""
    if request.settings["claim"] or request.settings["storage"] != "none":
        return
    for role in request.roles.values():
        if role.role in _READERS:
            what = f"the {role.role} cannot read the chief's checkpoints with `--set storage=none`"
            yield Problem(role.group, what, f"give a size, such as `--set storage=10Gi`, or remove the {role.role}")


def _too_large(request: RenderRequest) -> Iterator[Problem]:
    if (
        request.settings["code"] != "carried"
        or (size := cluster_settings.size(request.codes.values())) <= cluster_settings.MOST
    ):
        return
    role = request.roles[next(iter(request.codes))]
    what = f"`code` has {size} bytes when it is packed, and a ConfigMap takes {cluster_settings.MOST}"
    fix = "leave out what is no code with a .dockerignore, or put it into the image and say `--set code=image`"
    yield Problem(role.at("code"), what, fix)


def _check_options(settings: Values) -> None:
    if settings["claim"] and settings["storage_class"]:
        raise Usage("`--set claim` and `--set storage_class` say two things", "give one of them")
    if settings["data_claim"] and settings["data_path"]:
        raise Usage("`--set data_claim` and `--set data_path` say two things", "give one of them")

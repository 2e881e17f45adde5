"""What the pods of a cluster have in common, and what each target on Kubernetes does in its own way."""

from dataclasses import dataclass
from typing import Any

from tfprov.render.kube_bundle import Bundle
from tfprov.render.kube_options import ONE_NODE
from tfprov.render.kube_wiring import Wiring
from tfprov.render.naming import dashed
from tfprov.render.options import Values
from tfprov.render.target import Member, Rendering

Json = dict[str, Any]

OWN: Json = {"emptyDir": {}}
"""A volume that ends with its pod."""


@dataclass(frozen=True)
class Setting:
    """What all pods of a cluster have in common."""

    rendering: Rendering
    wiring: Wiring
    bundle: Bundle | None

    def command(self, member: Member) -> list[str]:
        """Return the command line of `member`."""
        return self.wiring.command(member)

    def environment(self, member: Member) -> list[Json]:
        """Return the variables that `member` is told, but for secrets."""
        return self.wiring.environment(member)

    def labels_of(self, member: Member) -> dict[str, str]:
        """Return the labels by which the pod of `member` is found, and no other pod."""
        return selector(self.rendering.name, member)

    def port_name(self, member: Member) -> str:
        """Return what the port of `member` is called."""
        return "http" if member.role == "tensorboard" else "grpc"

    def checkpoints(self, member: Member) -> tuple[Json, Json]:
        """Return the volume of the checkpoint directory of `member`, and where it is mounted.

        Each has its own, but who reads the chief's has that, and a ps as well where that can be: the parts of a sharded
        checkpoint come together there.
        """
        reads = member.is_chief or member.files_of is not None
        shared = not self.on_one_node and member.job == "ps"
        volume = {"persistentVolumeClaim": {"claimName": self.claim}} if self.claim and (reads or shared) else OWN
        return {"name": "checkpoints", **volume}, {"name": "checkpoints", "mountPath": member.checkpoint_dir}

    @property
    def settings(self) -> Values:
        """The values of the options."""
        return self.rendering.settings

    @property
    def claim(self) -> str:
        """The claim of the volume for checkpoints; empty where they are in the pod only."""
        if self.settings["claim"]:
            return str(self.settings["claim"])
        return "" if self.settings["storage"] == "none" else f"{self.rendering.name}-checkpoints"

    @property
    def on_one_node(self) -> bool:
        """Whether who works on the chief's checkpoints has to be on the chief's node."""
        return bool(self.claim) and self.settings["access"] == ONE_NODE


def labels(cluster: str, job: str) -> dict[str, str]:
    """Return the labels that Kubernetes recommends."""
    return {
        "app.kubernetes.io/name": "tensorflow",
        "app.kubernetes.io/instance": cluster,
        "app.kubernetes.io/component": dashed(job),
        "app.kubernetes.io/managed-by": "tfprov",
    }


def selector(cluster: str, member: Member) -> dict[str, str]:
    """Return the labels of one member's pod."""
    return {
        "app.kubernetes.io/instance": cluster,
        "tfprov.job": dashed(member.job),
        "tfprov.index": str(member.index),
    }

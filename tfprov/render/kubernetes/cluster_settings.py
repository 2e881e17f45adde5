"""Options of the targets on Kubernetes, code and runtime in a ConfigMap, and the settings that all pods share."""

import base64
import gzip
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tfprov.images.code import Code
from tfprov.images.code_layer import DIRECTORY, RUNTIME_DIRECTORY, runtime
from tfprov.render.dns_names import dashed, dns_1123, subdomain
from tfprov.render.kubernetes.wiring import PodWiring
from tfprov.render.options import Option, Values, boolean, choice, integer, list_of, matching, pairs_of
from tfprov.render.target import Member, RenderInput

_QUANTITY = r"[1-9][0-9]{0,8}(?:\.[0-9]{1,3})?(?:Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?"
_LABEL = r"(?:[A-Za-z0-9.-]{1,253}/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_LABEL_VALUE = r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?"
_TOLERATION = rf"{_LABEL}(?:={_LABEL_VALUE})?(?::(?:NoSchedule|PreferNoSchedule|NoExecute))?"

label = matching(_LABEL, "a key such as `example.com/pool`")
label_value = matching(_LABEL_VALUE, "letters, digits, `-`, `_` and `.`, at most 63")

ONE_NODE = "ReadWriteOnce"
"""The access mode of a volume for the pods of one node."""
ANY_NODE = "ReadWriteMany"
"""The access mode of a volume for pods on any nodes."""


def _storage(value: str) -> str:
    return value if value == "none" else matching(_QUANTITY, "a size such as `10Gi`, or `none`")(value)


def _seconds(value: str) -> int | str:
    return "" if value == "" else integer(0, 2**31 - 1)(value)


_COMMON = (
    Option("namespace", "default", "the namespace of all objects", dns_1123),
    Option("storage", "10Gi", "the size of the volume for checkpoints; `none`: they are lost with the pod", _storage),
    Option("storage_class", "", "the storage class of that volume", subdomain),
    Option(
        "access",
        ONE_NODE,
        "`ReadWriteOnce`: readers of checkpoints run on the chief's node; `ReadWriteMany`: anywhere, and ps mount it, too",
        choice(ONE_NODE, ANY_NODE),
    ),
    Option("claim", "", "an existing PersistentVolumeClaim for checkpoints", subdomain),
    Option("data_claim", "", "an existing PersistentVolumeClaim with the data", subdomain),
    Option(
        "data_path", "", "the directory with the data on every node", matching(r"/[^\x00-\x1f]+", "an absolute path")
    ),
    Option("credential_secret", "", "a Secret with a Google credential file", subdomain),
    Option(
        "credential_key",
        "key.json",
        "the name of the file in that Secret",
        matching(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,252}", "the key of a Secret"),
    ),
    Option("env_secret", "", "a Secret with the secret environment variables, each under its name", subdomain),
    Option("pull_secrets", (), "the Secrets for pulling images", list_of(subdomain)),
    Option("node_selector", {}, "the labels of the nodes to run on: `key=value`", pairs_of(label, label_value)),
    Option(
        "tolerations",
        (),
        "the taints to run under: `key[=value][:effect]`",
        list_of(matching(_TOLERATION, "a taint such as `nvidia.com/gpu:NoSchedule`")),
    ),
    Option("gpu_resource", "nvidia.com/gpu", "the resource name of GPUs", label),
    Option("user", 1000, "the user id of all containers, and the group of their volumes", integer(1, 2**31 - 1)),
    Option("network_policy", True, "whether only the cluster's own pods reach its ports", boolean),
    Option("priority_class", "", "the priority class of all pods", subdomain),
    Option(
        "ttl", "", "seconds after the end of the training until its objects are removed; without it, never", _seconds
    ),
)


def with_common(*own: Option) -> Mapping[str, Option]:
    """Return the options of a target: its `own`, then the common ones that those do not replace."""
    own_options = {option.name: option for option in own}
    return own_options | {option.name: option for option in _COMMON if option.name not in own_options}


MAX_PACKED = 900_000
"""Maximum bytes of all archives together: a ConfigMap holds 1 MiB."""
ARCHIVE_DIR = "/tfprov-archives"
"""The mount point of the ConfigMap in the container that unpacks it."""

_UNPACK = (
    "import sys, tarfile\n"
    "safe = {'filter': 'data'} if hasattr(tarfile, 'data_filter') else {}\n"
    "for name, directory in zip(sys.argv[1::2], sys.argv[2::2]): tarfile.open(name).extractall(directory, **safe)"
)
"""For any Python 3: without a filter, 3.12 and 3.13 print a warning, and 3.14 extracts otherwise than those before."""


@dataclass(frozen=True)
class Bundle:
    """The archives of a cluster. `files` are their bytes in base64, by name; `key` is a digest of their names."""

    key: str
    files: Mapping[str, str]

    def unpack(self, code: Code | None) -> list[str]:
        """Return the command that unpacks the runtime, and `code`."""
        archives = [f"{ARCHIVE_DIR}/{_name(runtime())}", RUNTIME_DIRECTORY]
        archives += [f"{ARCHIVE_DIR}/{_name(code)}", DIRECTORY] if code else []
        return ["python3", "-c", _UNPACK, *archives]


def bundle(codes: Iterable[Code]) -> Bundle:
    """Return the runtime and `codes`, packed."""
    packed = {_name(code): _packed(code) for code in (runtime(), *codes)}
    key = "-".join(sorted(name.removesuffix(".tar.gz")[:8] for name in packed))
    return Bundle(_short(key), packed)


def packed_size(codes: Iterable[Code]) -> int:
    """Return the bytes of the archives in the ConfigMap, before base64."""
    return sum(len(_packed(code)) * 3 // 4 for code in {code.digest: code for code in (runtime(), *codes)}.values())


def _name(code: Code) -> str:
    return f"{code.digest.removeprefix('sha256:')[:16]}.tar.gz"


@lru_cache(maxsize=8)
def _packed(code: Code) -> str:
    return base64.b64encode(gzip.compress(code.archive, mtime=0)).decode()


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


Json = dict[str, Any]

EMPTY_DIR: Json = {"emptyDir": {}}
"""A volume that is removed with its pod."""


@dataclass(frozen=True)
class PodSettings:
    """The settings that all pods of a cluster share."""

    rendering: RenderInput
    wiring: PodWiring
    bundle: Bundle | None

    def command(self, member: Member) -> list[str]:
        """Return the command line of `member`."""
        return self.wiring.command(member)

    def environment(self, member: Member) -> list[Json]:
        """Return the variables of `member` without secrets."""
        return self.wiring.environment(member)

    def labels_of(self, member: Member) -> dict[str, str]:
        """Return the labels that select exactly the pod of `member`."""
        return selector(self.rendering.name, member)

    def port_name(self, member: Member) -> str:
        """Return the name of the port of `member`."""
        return "http" if member.is_web else "grpc"

    def checkpoints(self, member: Member) -> tuple[Json, Json]:
        """Return the volume of the checkpoint directory of `member`, and its mount.

        Readers of the chief's checkpoints mount its volume. So does a ps if several nodes can, for the parts of sharded
        checkpoints. All others have an empty volume.
        """
        reads = member.is_chief or member.files_of is not None
        shared = not self.on_one_node and member.job == "ps"
        volume = {"persistentVolumeClaim": {"claimName": self.claim}} if self.claim and (reads or shared) else EMPTY_DIR
        return {"name": "checkpoints", **volume}, {"name": "checkpoints", "mountPath": member.checkpoint_dir}

    @property
    def settings(self) -> Values:
        """The values of the options."""
        return self.rendering.settings

    @property
    def claim(self) -> str:
        """The claim of the volume for checkpoints; empty if they are in the pod only."""
        if self.settings["claim"]:
            return str(self.settings["claim"])
        return "" if self.settings["storage"] == "none" else f"{self.rendering.name}-checkpoints"

    @property
    def on_one_node(self) -> bool:
        """Whether tasks that use the chief's checkpoints must run on the chief's node."""
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
    """Return the labels that select one member's pod."""
    return {
        "app.kubernetes.io/instance": cluster,
        "tfprov.job": dashed(member.job),
        "tfprov.index": str(member.index),
    }

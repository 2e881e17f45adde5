"""What `--set` can say about every target that Kubernetes runs."""

from collections.abc import Mapping

from tfprov.render.naming import dns_1123, subdomain
from tfprov.render.options import Option, choice, listed, matching, named, switch, whole

_QUANTITY = r"[1-9][0-9]{0,8}(?:\.[0-9]{1,3})?(?:Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?"
_LABEL = r"(?:[A-Za-z0-9.-]{1,253}/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_LABEL_VALUE = r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?"
_TOLERATION = rf"{_LABEL}(?:={_LABEL_VALUE})?(?::(?:NoSchedule|PreferNoSchedule|NoExecute))?"

label = matching(_LABEL, "a key such as `example.com/pool`")
label_value = matching(_LABEL_VALUE, "letters, digits, `-`, `_` and `.`, at most 63")

ONE_NODE = "ReadWriteOnce"
"""The access of a volume that the pods of one node share."""
ANY_NODE = "ReadWriteMany"
"""The access of a volume that pods share wherever they are."""


def _storage(value: str) -> str:
    return value if value == "none" else matching(_QUANTITY, "a size such as `10Gi`, or `none`")(value)


def _seconds(value: str) -> int | str:
    return "" if value == "" else whole(0, 2**31 - 1)(value)


_ALL = (
    Option("namespace", "default", "the namespace of all objects", dns_1123),
    Option("storage", "10Gi", "the size of the volume for checkpoints; `none`: they are lost with the pod", _storage),
    Option("storage_class", "", "the storage class of that volume", subdomain),
    Option(
        "access",
        ONE_NODE,
        "`ReadWriteOnce`: who reads checkpoints runs on the chief's node; `ReadWriteMany`: anywhere, ps and workers too",
        choice(ONE_NODE, ANY_NODE),
    ),
    Option("claim", "", "a PersistentVolumeClaim that is there already, for checkpoints", subdomain),
    Option("data_claim", "", "a PersistentVolumeClaim that is there already, with the data", subdomain),
    Option(
        "data_path", "", "the directory with the data on every node", matching(r"/[^\x00-\x1f]+", "an absolute path")
    ),
    Option("credential_secret", "", "a Secret that holds a credential file of Google's", subdomain),
    Option(
        "credential_key",
        "key.json",
        "the file's name in that Secret",
        matching(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,252}", "the key of a Secret"),
    ),
    Option("env_secret", "", "a Secret that holds the secret environment variables, each under its name", subdomain),
    Option("pull_secrets", (), "the Secrets with which images are pulled", listed(subdomain)),
    Option("node_selector", {}, "the labels of the nodes to run on: `key=value`", named(label, label_value)),
    Option(
        "tolerations",
        (),
        "the taints to run under: `key[=value][:effect]`",
        listed(matching(_TOLERATION, "a taint such as `nvidia.com/gpu:NoSchedule`")),
    ),
    Option("gpu_resource", "nvidia.com/gpu", "what nodes call their GPUs", label),
    Option("user", 1000, "the user id of all containers, and the group of their volumes", whole(1, 2**31 - 1)),
    Option("network_policy", True, "whether only the cluster's own pods reach its ports", switch),
    Option("priority_class", "", "the priority class of all pods", subdomain),
    Option("ttl", "", "how many seconds after the training its objects are removed; without it, never", _seconds),
)


def with_common(*own: Option) -> Mapping[str, Option]:
    """Return the options of a target: its `own`, and those that all targets on Kubernetes share.

    An option of its own takes the place of a shared one.
    """
    mine = {option.name: option for option in own}
    return mine | {option.name: option for option in _ALL if option.name not in mine}

"""tfprov starts, watches and takes down distributed TensorFlow from an Ansible-style YAML inventory, over SSH.

    import tfprov

    with tfprov.Cluster.load("inventory.yml") as cluster:
        print(cluster.plan())

Importing it loads nothing else: `tfprov.runtime` and `tfprov.wiring` also run inside the task's container, where none of
the controller's dependencies are installed. `Cluster` and the errors are imported when they are first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfprov.api import Cluster as Cluster

__version__ = "0.1.0"

_ERRORS = (
    "DeliveryError",
    "GatherError",
    "HostError",
    "InvalidInput",
    "Locked",
    "Several",
    "TaskFailed",
    "TfprovError",
    "Unreachable",
    "Usage",
)


def __getattr__(name: str) -> Any:
    """Import `Cluster`, and the errors, on first use."""
    if name == "Cluster":
        from tfprov.api import Cluster  # noqa: PLC0415

        return Cluster
    if name in _ERRORS:
        from tfprov import errors  # noqa: PLC0415

        return getattr(errors, name)
    raise AttributeError(f"module 'tfprov' has no attribute {name!r}")

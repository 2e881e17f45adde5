"""tfprov starts, watches and takes down distributed TensorFlow from an Ansible-style YAML inventory, over SSH.

    import tfprov

    with tfprov.Cluster.load("inventory.yml") as cluster:
        print(cluster.plan())

Importing it loads nothing else, not even `typing`: `tfprov.runtime` and `tfprov.wiring` also run inside the task's
container, where none of the controller's dependencies are installed. `Cluster` and the errors are imported on first use.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tfprov.api import Cluster as Cluster
    from tfprov.errors import CombinedError as CombinedError
    from tfprov.errors import DeliveryError as DeliveryError
    from tfprov.errors import GatherError as GatherError
    from tfprov.errors import HostError as HostError
    from tfprov.errors import InvalidInput as InvalidInput
    from tfprov.errors import Locked as Locked
    from tfprov.errors import TaskFailed as TaskFailed
    from tfprov.errors import TfprovError as TfprovError
    from tfprov.errors import Unreachable as Unreachable
    from tfprov.errors import Usage as Usage

__version__ = "0.1.0"

_ERRORS = (
    "CombinedError",
    "DeliveryError",
    "GatherError",
    "HostError",
    "InvalidInput",
    "Locked",
    "TaskFailed",
    "TfprovError",
    "Unreachable",
    "Usage",
)


def __getattr__(name: str) -> object:
    """Import `Cluster`, or an error, on first use."""
    if name == "Cluster":
        from tfprov.api import Cluster  # noqa: PLC0415

        return Cluster
    if name in _ERRORS:
        from tfprov import errors  # noqa: PLC0415

        return getattr(errors, name)
    raise AttributeError(f"module 'tfprov' has no attribute {name!r}")

"""Spark: `TensorFlowRunner` trains on the executors of an existing Spark cluster.

    from tfprov.spark import TensorFlowRunner

    TensorFlowRunner(num_slots=8).run(train, 10)

Needs the extra `spark`: pip install 'tfprov[spark]', on the driver and on the executors. Importing it loads nothing of
that; what it names is imported on first use.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tfprov.spark.distributor.runner import TensorFlowRunner as TensorFlowRunner

_MODULES = {"TensorFlowRunner": "distributor.runner"}


def __getattr__(name: str) -> object:
    """Import a name on first use; raises MissingExtra without the extra `spark`."""
    if name not in _MODULES:
        raise AttributeError(f"module 'tfprov.spark' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415

    return getattr(import_module(f"tfprov.spark.{_MODULES[name]}"), name)

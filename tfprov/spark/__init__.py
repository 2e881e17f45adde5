"""Spark: the data source `tfrecord`, and trainings on its executors.

    import tfprov.spark

    tfprov.spark.register(spark)
    df = spark.read.format("tfrecord").load("train/")
    tfprov.spark.write(df, "out/", mode="overwrite", partition_by=["day"], codec="gzip")
    tfprov.spark.TensorFlowRunner(num_slots=8).run(train)

Needs the extra `spark`: pip install 'tfprov[spark]', on the driver and on the executors. Importing it loads nothing of
that; what it names is imported on first use.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tfprov.spark.distributor.runner import TensorFlowRunner as TensorFlowRunner
    from tfprov.spark.examples import to_example as to_example
    from tfprov.spark.save import write as write
    from tfprov.spark.source import register as register

_MODULES = {"TensorFlowRunner": "distributor.runner", "register": "source", "to_example": "examples", "write": "save"}


def __getattr__(name: str) -> object:
    """Import a function on first use; raises MissingExtra without the extra `spark`."""
    if name not in _MODULES:
        raise AttributeError(f"module 'tfprov.spark' has no attribute {name!r}")
    from tfprov.tfrecord.extra import require  # noqa: PLC0415

    return getattr(require(f"tfprov.spark.{_MODULES[name]}", "spark"), name)

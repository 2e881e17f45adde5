"""What Spark's Python workers import, so that their daemon does it once: half a second, eighty times."""

import gc
import importlib

PRELOADED = ("pandas", "pyarrow.compute", "pyspark.sql.pandas.serializers", "tfprov.spark.source", "tfprov.spark.save")
"""What PySpark's workers and tfprov's data source import."""


def preload() -> None:
    """Import it, and keep a worker's first garbage collection from writing to, and so copying, all of it."""
    for name in PRELOADED:
        importlib.import_module(name)
    gc.freeze()

"""Spark's daemon of Python workers, with what each of them imports: half a second, forty times.

python -m tests.support.spark_daemon WORKER_MODULE
"""

import importlib

from pyspark.daemon import manager

PRELOADED = ("pandas", "pyarrow.compute", "pyspark.sql.pandas.serializers", "tfprov.spark.source", "tfprov.spark.save")
"""What PySpark's workers and tfprov's data source import."""

if __name__ == "__main__":
    for name in PRELOADED:
        importlib.import_module(name)
    manager()

"""Spark's daemon of Python workers in an executor, with what each of them imports.

python -m tests.support.spark_daemon WORKER_MODULE
"""

from pyspark.daemon import manager

from tests.support.spark_preload import preload

if __name__ == "__main__":
    preload()
    manager()

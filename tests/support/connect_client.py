"""A client of Spark Connect: a process of its own, because Spark Connect and a driver cannot be in one.

    python -m tests.support.connect_client DIRECTORY

It starts a server with two slots, and prints the results as one line of JSON.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.paths import SPARK_PYTHONPATH
from tests.support.waiting import LONG


def main(directory: Path) -> None:
    """Use everything of tfprov.spark once."""
    # SPARK_TESTING: the server listens on a free port of loopback, not on a fixed one.
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_TESTING": "1"}
    os.environ |= {"SPARK_LOCAL_DIRS": str(directory / "scratch"), "PYTHONPATH": os.pathsep.join(SPARK_PYTHONPATH)}
    from pyspark.sql import SparkSession  # noqa: PLC0415

    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    try:
        facts = {**tables(spark, directory), **streamed(spark, directory), **trainings(spark, directory)}
    finally:
        spark.stop()
    print(f"\n{json.dumps(facts)}")


def tables(spark: Any, directory: Path) -> dict[str, Any]:
    """Write a table, overwrite it, and read it again."""
    import tfprov.spark  # noqa: PLC0415

    tfprov.spark.register(spark)
    path = str(directory / "table")
    table = spark.createDataFrame([(i, f"s{i}", i % 2) for i in range(20)], "a long, b string, part long")
    tfprov.spark.write(table, path, partition_by="part", codec="gzip")
    tfprov.spark.write(table, path, partition_by="part", mode="overwrite")
    read = spark.read.format("tfrecord").load(path)
    return {
        "type": type(spark).__module__,
        "refused": error_of(lambda: tfprov.spark.write(table, path)),
        "schema": read.schema.simpleString(),
        "rows": sorted(row.a for row in read.collect()),
        "filtered": read.where("part = 1 and a > 10").count(),
    }


def streamed(spark: Any, directory: Path) -> dict[str, Any]:
    """Copy the table in a stream."""
    stream = spark.readStream.format("tfrecord").schema("a long, b string").load(str(directory / "table/part=0"))
    copy = stream.writeStream.format("tfrecord").option("checkpointLocation", str(directory / "progress"))
    query = copy.trigger(availableNow=True).start(str(directory / "copy"))
    assert query.awaitTermination(LONG), "the stream does not end"
    return {"copied": spark.read.format("tfrecord").load(str(directory / "copy")).count()}


def trainings(spark: Any, directory: Path) -> dict[str, Any]:
    """Train, fail, and ask for too many slots."""
    from tfprov.spark import TensorFlowRunner  # noqa: PLC0415

    def runner(slots: int, **options: Any) -> Any:
        options = {"use_gpu": False, "use_custom_strategy": True, "trusted_network": True, "spark": spark} | options
        return TensorFlowRunner(num_slots=slots, **options)

    def train(value: int) -> Any:
        import tensorflow as tf  # noqa: PLC0415

        config = json.loads(os.environ["TF_CONFIG"])
        if config["task"]["index"] == 0:
            tf.train.Checkpoint(v=tf.Variable(value)).save(f"{os.environ['TFPROV_CHECKPOINT_DIR']}/ckpt")
        return len(config["cluster"]["worker"]), value + 1

    def fail() -> None:
        print("last words")
        raise ValueError("out of luck")

    good = runner(2, gather_to=directory / "gathered")
    returned = good.run(train, 41)
    return {
        "returned": returned,
        "tensors": good.checkpoint.tensors,
        "gathered": sorted(path.name for path in (directory / "gathered").iterdir()),
        "failed": error_of(lambda: runner(2).run(fail)),
        "slots": error_of(lambda: runner(3, start_timeout=0.5).run(fail)),
        "gpus": error_of(lambda: runner(1, local_mode=True, use_gpu=True)),
    }


def error_of(call: Callable[[], object]) -> str:
    """Return the text of the error that a call raises; empty for none."""
    from tfprov.errors import TfprovError  # noqa: PLC0415
    from tfprov.tfrecord.files import FileError  # noqa: PLC0415

    try:
        call()
    except (TfprovError, FileError) as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""How fast Spark writes and reads TFRecord files, beside its own Parquet files of the same DataFrame.

One Spark of this machine with two cores, which both use in turn; the files lie on the same disk. Parquet never leaves the
JVM, and every row of a TFRecord file crosses to Python and is encoded there: where the rows come from Python, or go there,
both cross. `floor` is a Python data source without any work of its own (`spark_floor`): no Python source can be faster.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .measure import Figure, Ran, compared, in_turn, say, spent

ROWS = 300_000
_FLOOR = "floor"
"""Name of the data source of `spark_floor`."""
TIMES = 1.15
"""The goal: at most so many times Parquet's time."""
_INCLUDES = (
    f"{ROWS} rows of 10 columns (5 integers, 3 floats, 2 strings) in 4 tasks on 2 cores, an explicit schema, all columns. "
    "Rows of Spark are made by SQL, and read to Spark's `noop`; rows of Python come from an RDD of tuples, and are read "
    "by a function of Python that gets each row"
)
_COLUMNS = (
    "id as user_id", "id * 7 % 1000 as item_id", "id % 5 as clicks", "id % 2 as label", "id % 24 as hour",
    "float(id / 3) as age", "float(id / 7) as price", "float(0.5) as rating", "if(id % 2 = 0, 'US', 'DE') as country",
    "concat('user-', id) as name",
)  # fmt: skip


def figures(rounds: int) -> list[Figure]:
    """Write and read, both formats in turn."""
    if not shutil.which("java"):
        say("not measured, spark: there is no java; run `sh .ci/java.sh`")
        return []
    say(f"Spark, {ROWS} rows, {rounds} rounds")
    with TemporaryDirectory() as directory, _session() as spark:
        return [
            figure
            for what, contenders in _cases(spark, Path(directory)).items()
            for figure in _figures(what, contenders, rounds)
        ]


def _figures(what: str, contenders: dict[str, Callable[[], object]], rounds: int) -> Iterator[Figure]:
    runs = in_turn({name: partial(_timed, step) for name, step in contenders.items()}, rounds, unheeded=2)
    yield compared(f"{what}; Parquet", runs["tfrecord"], runs["parquet"], TIMES, _INCLUDES)
    if _FLOOR in runs:
        yield compared(f"{what}, a Python source without work; Parquet", runs[_FLOOR], runs["parquet"], None, _INCLUDES)


def _timed(step: Callable[[], object]) -> Ran:
    begin, before = time.perf_counter(), spent()
    step()
    return Ran(time.perf_counter() - begin, spent() - before, 0, "")


@contextmanager
def _session() -> Iterator[Any]:
    from pyspark.sql import SparkSession  # noqa: PLC0415

    import tfprov.spark  # noqa: PLC0415

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF",
                "spark.driver.memory": "2g", "spark.driver.host": "127.0.0.1"}  # fmt: skip
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    try:
        from .spark_floor import Floor  # noqa: PLC0415

        tfprov.spark.register(spark)
        spark.dataSource.register(Floor)
        yield spark
    finally:
        spark.stop()


def _cases(spark: Any, directory: Path) -> dict[str, dict[str, Callable[[], object]]]:
    import tfprov.spark  # noqa: PLC0415

    from .spark_floor import prepare  # noqa: PLC0415

    of_spark = spark.range(ROWS, numPartitions=4).selectExpr(*_COLUMNS)
    schema = of_spark.schema
    of_python = spark.createDataFrame(spark.sparkContext.range(ROWS, numSlices=4).map(_row), schema)
    records, parquet, floor = (str(directory / name) for name in ("records", "parquet", _FLOOR))

    def write(rows: Any) -> dict[str, Callable[[], object]]:
        return {
            "tfrecord": lambda: tfprov.spark.write(rows, records, mode="overwrite"),
            "parquet": lambda: rows.write.mode("overwrite").parquet(parquet),
            _FLOOR: lambda: rows.write.format(_FLOOR).mode("append").save(),
        }

    def read(use: Callable[[Any], object]) -> dict[str, Callable[[], object]]:
        return {
            "tfrecord": lambda: use(spark.read.format("tfrecord").schema(schema).load(records)),
            "parquet": lambda: use(spark.read.schema(schema).parquet(parquet)),
            _FLOOR: lambda: use(spark.read.format(_FLOOR).schema(schema).load(floor)),
        }

    of_spark.write.parquet(parquet)
    prepare(Path(parquet), Path(floor))

    return {
        "write rows of Spark": write(of_spark),
        "write rows of Python": write(of_python),
        "read to Spark": read(lambda df: df.write.format("noop").mode("overwrite").save()),
        "read to Python": read(lambda df: df.rdd.foreach(_use)),
    }


def _row(number: int) -> tuple[object, ...]:
    return (
        number, number * 7 % 1000, number % 5, number % 2, number % 24, number / 3, number / 7, 0.5,
        "US" if number % 2 == 0 else "DE", f"user-{number}",
    )  # fmt: skip


def _use(_row: Any) -> None:
    pass

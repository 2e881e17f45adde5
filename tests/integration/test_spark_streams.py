"""Streams of Spark from and to TFRecord files."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tfprov.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(autouse=True)
def _registered(spark: "SparkSession") -> None:
    tfprov.spark.register(spark)


def run(stream: "DataFrame", target: Path, checkpoint: Path, **options: Any) -> Any:
    """Write all that a stream has now, and end it."""
    writer = stream.writeStream.format("tfrecord").option("checkpointLocation", str(checkpoint)).options(**options)
    query = writer.trigger(availableNow=True).start(str(target))
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return query


def ids(spark: "SparkSession", path: Path) -> list[int]:
    return sorted(row.id for row in spark.read.format("tfrecord").schema("id long").load(str(path)).collect())


def parts(path: Path) -> list[str]:
    return sorted(each.name for each in path.glob("part-*"))


def test_each_file_is_read_once_and_each_batch_written_once(spark: "SparkSession", tmp_path: Path) -> None:
    """Files that appear late, and under an old time, are read; a restarted query goes on where it ended."""
    source, target, checkpoint = tmp_path / "in", tmp_path / "out", tmp_path / "checkpoint"
    tfprov.spark.write(spark.range(0, 4, numPartitions=4), str(source))
    stream = spark.readStream.format("tfrecord").schema("id long").option("maxFilesPerTrigger", 1).load(str(source))
    query = run(stream, target, checkpoint, codec="gzip")
    assert ids(spark, target) == [0, 1, 2, 3]
    assert [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]] == [1, 1, 1, 1]
    assert sorted(path.name for path in (target / "_batches").rglob("*.*")) == ["2.json", "3.json"]
    assert all(name.endswith(".tfrecord.gz") for name in parts(target))

    tfprov.spark.write(spark.range(4, 6), str(tmp_path / "old"))
    for number, file in enumerate((tmp_path / "old").glob("part-*")):
        shutil.copystat(next(source.glob("part-*")), file)
        file.rename(source / f"part-9999{number}")
    again = spark.readStream.format("tfrecord").schema("id long").load(str(source))
    run(again, target, checkpoint)
    assert ids(spark, target) == [0, 1, 2, 3, 4, 5]
    run(again, target, checkpoint)
    assert ids(spark, target) == [0, 1, 2, 3, 4, 5]


def test_a_batch_that_spark_writes_again_after_a_crash_is_not_written_twice(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """Spark's driver ended after the commit of its batch and before it had noted that: it writes the batch again."""
    source, target, checkpoint = tmp_path / "in", tmp_path / "out", tmp_path / "checkpoint"
    tfprov.spark.write(spark.range(0, 4, numPartitions=2), str(source))
    stream = spark.readStream.format("tfrecord").schema("id long").load(str(source))
    run(stream, target, checkpoint)
    before = parts(target)
    for crashed_after in ("the renames", "the first rename"):
        shutil.rmtree(checkpoint / "commits")
        if crashed_after == "the first rename":
            ((record),) = (target / "_batches").rglob("*.json")
            name = before[0]
            part = next(pair[0] for pair in eval(record.read_text()) if pair[1].endswith(name))
            Path(part).parent.mkdir(parents=True)
            (target / name).rename(part)
        run(stream, target, checkpoint)
        assert parts(target) == before, crashed_after
    assert ids(spark, target) == [0, 1, 2, 3]
    other = run(stream, target, tmp_path / "another")
    assert other.exception() is None
    assert ids(spark, target) == sorted([0, 1, 2, 3] * 2), "another query is no repetition"


def test_a_stream_of_damaged_files_ends_with_their_error(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"damaged")
    stream = spark.readStream.format("tfrecord").schema("id long").load(str(tmp_path / "in"))
    with pytest.raises(Exception, match="a: record 0 at byte 0: the file ends in the header of the record"):
        run(stream, tmp_path / "out", tmp_path / "checkpoint")
    assert parts(tmp_path / "out") == []


def test_the_worker_of_a_source_is_a_fork_for_which_spark_need_not_wait(spark: "SparkSession") -> None:
    """Else its imports take half a second of a core, and Spark ends the stream after ten seconds."""
    from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader  # noqa: PLC0415  a second

    class Reader(SimpleDataSourceStreamReader):  # type: ignore[misc]  # it has no types
        def initialOffset(self) -> dict[str, int]:  # noqa: N802  Spark's name
            return {"rows": 0}

        def read(self, start: dict[str, int]) -> Any:
            words = Path("/proc/self/cmdline").read_text().split("\0")
            return iter([] if start["rows"] else [(words[0],)]), {"rows": 1}

    class CommandLine(DataSource):  # type: ignore[misc]  # as above
        @classmethod
        def name(cls) -> str:
            return "command-line"

        def schema(self) -> str:
            return "program string"

        def simpleStreamReader(self, schema: Any) -> Reader:  # noqa: N802
            return Reader()

    spark.dataSource.register(CommandLine)
    rows = spark.readStream.format("command-line").load().writeStream.format("memory").queryName("programs")
    query = rows.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
    assert [row.program for row in spark.table("programs").collect()] == ["python"]

"""The files of one task of a write, without Spark."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructType

from tfprov import tfrecord
from tfprov.spark.options import parse
from tfprov.spark.part_files import Layout, PartFiles
from tfprov.spark.storage import Storage
from tfprov.spark.writer import BatchWriter, rename
from tfprov.tfrecord.errors import SchemaError
from tfprov.tfrecord.files import FileError

SCHEMA = pa.schema([("id", pa.int64()), ("key", pa.string())])
BATCHES = [
    pa.record_batch({"id": [1, 2, 3], "key": ["a", "a", "b"]}, schema=SCHEMA),
    pa.record_batch({"id": [4, 5, 6], "key": ["b", None, "a"]}, schema=SCHEMA),
]


def part_files(path: Path, name: str = "part-00000", schema: pa.Schema = SCHEMA, codec: str = "none") -> PartFiles:
    layout = Layout(schema, ("key",) if "key" in schema.names else (), "Example", codec)
    (path / "_temporary").mkdir(parents=True, exist_ok=True)
    return PartFiles(Storage(str(path)), layout, name, f"{path}/_temporary/{name}")


def test_rows_that_are_not_in_order_of_their_partition_get_further_files(tmp_path: Path) -> None:
    files = part_files(tmp_path).write(iter(BATCHES))
    rename(Storage(str(tmp_path)), files)
    targets = [str(Path(file.target).relative_to(tmp_path)) for file in files]
    assert targets == [
        "key=a/part-00000-c000.tfrecord", "key=b/part-00000-c001.tfrecord",
        "key=__HIVE_DEFAULT_PARTITION__/part-00000-c002.tfrecord", "key=a/part-00000-c003.tfrecord",
    ]  # fmt: skip
    assert [tfrecord.read_table(file.target)["id"].to_pylist() for file in files] == [[1, 2], [3, 4], [5], [6]]


def test_two_tasks_write_locally_a_hundred_times(tmp_path: Path) -> None:
    """The reference's second task on a host can fail on the directory of the first."""
    for number in range(100):
        path = tmp_path / str(number)
        tasks = [part_files(path, f"part-0000{task}", SCHEMA.remove(1)) for task in range(2)]
        written = [each.write(batch.select(["id"]) for batch in BATCHES) for each in tasks]
        for files in written:
            rename(Storage(str(path)), files)
        assert tfrecord.read_table(path, schema=SCHEMA.remove(1)).num_rows == 12


def test_a_null_in_a_column_that_is_not_nullable_is_an_error(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    batch = pa.RecordBatch.from_arrays([pa.array([1, None])], ["id"])
    with pytest.raises(SchemaError, match="column `id` is not nullable, and has a null"):
        part_files(tmp_path, schema=schema).write(iter([batch]))


def test_partition_columns_of_other_types(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("key", pa.bool_())])
    (file,) = part_files(tmp_path, schema=schema).write([pa.record_batch({"id": [1], "key": [True]}, schema=schema)])
    assert "/key=true/" in file.target
    schema = pa.schema([("id", pa.int64()), ("key", pa.list_(pa.int64()))])
    with pytest.raises((SchemaError, pa.ArrowNotImplementedError), match="list"):
        part_files(tmp_path, schema=schema).write([pa.record_batch({"id": [1], "key": [[1]]}, schema=schema)])


def test_an_attempt_that_outlives_its_job_leaves_nothing(tmp_path: Path) -> None:
    files = part_files(tmp_path)
    (tmp_path / "_temporary").rmdir()
    with pytest.raises(FileError, match="No such file or directory"):
        files.write(iter(BATCHES))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ends", ["before it writes", "while it writes"])
def test_an_attempt_that_outlives_its_job_leaves_nothing_on_a_file_system_of_a_network(
    tmp_path: Path, ends: str
) -> None:
    """There a file makes its directories, also below one that the driver has removed."""
    schema = StructType().add("id", LongType()).add("key", StringType())
    job = BatchWriter(parse({"path": f"local://{tmp_path}/t", "partitionBy": "key"}), schema, overwrite=False)

    def batches() -> Iterator[pa.RecordBatch]:
        yield BATCHES[0]
        job.commit([])
        yield BATCHES[1]

    if ends == "before it writes":
        job.commit([])
    with pytest.raises(FileError, match="the job of this task has ended"):
        job.write_partition(batches(), partition=0, task_attempt=7)
    assert [path.name for path in (tmp_path / "t").iterdir()] == ["_SUCCESS"]

"""A Python data source that neither decodes nor encodes: what each of Spark's Python sources costs before its own work."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType


def prepare(parquet: Path, directory: Path) -> None:
    """Write each Parquet file of a table as an Arrow file, in the batches that Spark itself sends to Python."""
    directory.mkdir()
    for number, file in enumerate(sorted(parquet.glob("*.parquet"))):
        table = pq.read_table(file)
        with pa.OSFile(f"{directory}/{number}.arrow", "wb") as stream, pa.ipc.new_file(stream, table.schema) as writer:
            writer.write_table(table, max_chunksize=10_000)


@dataclass
class _File(InputPartition):
    path: str


class _Reader(DataSourceReader):
    def __init__(self, path: str) -> None:
        self._path = path

    def partitions(self) -> list[InputPartition]:
        return [_File(str(file)) for file in sorted(Path(self._path).glob("*.arrow"))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _File)
        file = pa.ipc.open_file(pa.memory_map(partition.path))
        yield from map(file.get_batch, range(file.num_record_batches))


class _Writer(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class Floor(DataSource):
    """Reads Arrow files through the page cache, and drops what is written."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "floor"

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the option `path`."""
        return _Reader(self.options["path"])

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        """Return a writer that drops every batch."""
        return _Writer()

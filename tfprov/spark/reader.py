"""Record files to batches of a DataFrame: what to read is planned on the driver, and read in tasks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from tfprov.spark.filters import Predicate, is_kept, predicate_of
from tfprov.spark.listing import DataFile, listed
from tfprov.spark.options import Options
from tfprov.spark.partition_paths import column
from tfprov.spark.schemas import arrow_schema
from tfprov.tfrecord.column_types import Column, columns_of
from tfprov.tfrecord.decode import decode_block
from tfprov.tfrecord.errors import InvalidRecord, column_label
from tfprov.tfrecord.framing import Block
from tfprov.tfrecord.reading import blocks

_LARGEST, _SMALLEST = 128 << 20, 4 << 20
"""Bytes of files in one task: Spark's own default, and what a task's start costs in bytes read."""
_TASKS = 64


@dataclass
class FilesPartition(InputPartition):
    """The files of one task."""

    files: tuple[DataFile, ...]


def planned(files: Sequence[DataFile]) -> list[InputPartition]:
    """Return files in groups, one for each task: small ones share one."""
    target = min(_LARGEST, max(_SMALLEST, sum(file.size for file in files) // _TASKS))
    groups: list[list[DataFile]] = []
    left = 0
    for file in files:
        if not groups or file.size > left:
            groups.append([])
            left = target
        groups[-1].append(file)
        left -= file.size
    return [FilesPartition(tuple(group)) for group in groups]


class FileReader:
    """Reads files in tasks; only columns of the schema are decoded, and only rows that pass `predicates` are returned."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.schema = arrow_schema(schema)
        self.predicates: list[Predicate] = []

    def check(self, keys: Iterable[str]) -> None:
        """Raise SchemaError for a type that records cannot have; `keys` are the partition columns."""
        self._columns(frozenset(keys))

    def batches(self, files: Iterable[DataFile]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of files; raises DamagedFile and InvalidRecord."""
        options = self.options
        for file in files:
            partition = dict(file.pairs)
            columns = self._columns(frozenset(partition))
            for block in blocks([file.path], options.compression, options.max_record_bytes, options.salvage):
                yield from self._rows(block, columns, partition)

    def _columns(self, keys: frozenset[str]) -> list[Column]:
        fields = pa.schema([field for field in self.schema if field.name not in keys])
        return columns_of(fields, self.options.record_type) if len(fields) else []

    def _rows(
        self, block: Block, columns: Sequence[Column], partition: dict[str, str | None]
    ) -> Iterator[pa.RecordBatch]:
        decoded = decode_block(block, columns, self.options.record_type)
        by_name = dict(zip(decoded.schema.names, decoded.columns, strict=True))
        arrays = [
            by_name[field.name]
            if field.name in by_name
            else column(field.name, partition[field.name], field.type, len(block))
            for field in self.schema
        ]
        self._refuse_nulls(arrays, block)
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        for predicate in self.predicates:
            batch = batch.filter(predicate.mask(batch))
        if batch.num_rows:
            yield batch

    def _refuse_nulls(self, arrays: Sequence[pa.Array], block: Block) -> None:
        for field, array in zip(self.schema, arrays, strict=True):
            if array.null_count and not field.nullable:
                row = pc.index(array.is_null(), value=True).as_py()
                what = f"has no {column_label(field.name)}, which is not nullable"
                raise InvalidRecord(*block.place(row), what, "make the column nullable in the schema")


class BatchReader(DataSourceReader):
    """Reads what the paths have when the query is planned."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._reader = FileReader(options, schema)
        self._partition_predicates: list[Predicate] = []

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks: files whose partition cannot pass the filters are left out."""
        files = listed(self._reader.options)
        self._reader.check({name for file in files for name, _ in file.pairs})
        return planned([file for file in files if self._is_read(file)]) or [FilesPartition(())]

    def _is_read(self, file: DataFile) -> bool:
        schema = self._reader.schema
        values = {name: column(name, value, schema.field(name).type, 1) for name, value in file.pairs
                  if name in schema.names}  # fmt: skip
        return all(is_kept(predicate, values) for predicate in self._partition_predicates)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task."""
        assert isinstance(partition, FilesPartition)
        return self._reader.batches(partition.files)

    def push(self, filters: Sequence[Filter]) -> Iterator[Filter]:
        """Take over what filters can be tested here, and yield those that Spark has to test."""
        keys = {name for file in listed(self._reader.options)[:1] for name, _ in file.pairs}
        for each in filters:
            predicate = predicate_of(each, self._reader.schema)
            if predicate is None:
                yield each
            elif predicate.name in keys:
                self._partition_predicates.append(predicate)
            else:
                self._reader.predicates.append(predicate)


class FilteringReader(BatchReader):
    """The same for sessions with `spark.sql.python.filterPushdown.enabled`; elsewhere Spark refuses to use it."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  Spark's name
        """Return the filters that Spark has to test."""
        return list(self.push(filters))

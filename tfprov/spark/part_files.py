"""The files that one task writes: under names of its attempt, one for each partition of the table."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tfprov.errors import one_line
from tfprov.spark.partition_paths import Value, directory
from tfprov.spark.storage import Storage
from tfprov.tfrecord.compression import compressor
from tfprov.tfrecord.encode import encode_batch
from tfprov.tfrecord.errors import SchemaError, column_label
from tfprov.tfrecord.framing import framed
from tfprov.tfrecord.writing import pieces

EXTENSIONS = {"none": ".tfrecord", "gzip": ".tfrecord.gz", "zlib": ".tfrecord.deflate"}
"""By codec; these are the ones by which Hadoop, TensorFlow's connectors and tfprov know it again."""
_DENSE = 1
"""The field `type` of a vector of Spark's ML; 0 is a sparse one."""


@dataclass(frozen=True)
class Layout:
    """How a table is written: its columns, those of them that are directories, the kind of records and the codec."""

    schema: pa.Schema
    partition_by: tuple[str, ...]
    record_type: str
    codec: str


@dataclass(frozen=True)
class Written:
    """A file that a task has written, and the name that it gets when the job is committed; paths of the file system."""

    part: str
    target: str


@dataclass
class _Open:
    written: Written
    stream: Any
    write: Any
    finish: Any


@dataclass
class PartFiles:
    """Writes the rows of one task. `name` is unique in the table, `attempt` is a directory of this attempt's own.

    The directory above it must be there: an attempt that goes on after its job has ended fails, and leaves nothing.
    """

    storage: Storage
    layout: Layout
    name: str
    attempt: str
    written: list[Written] = field(default_factory=list)

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[Written]:
        """Write all rows, and return the files, which are whole."""
        current: tuple[Value, ...] | None = None
        opened: _Open | None = None
        try:
            for values, piece in self._pieces(batches):
                if opened is None or values != current:
                    self._close(opened)
                    current, opened = values, self._open(values)
                opened.write(framed(encode_batch(piece, self.layout.record_type)))
            self._close(opened)
        except BaseException:
            if opened is not None:
                opened.stream.close()
            raise
        return self.written

    def _pieces(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[tuple[Value, ...], pa.RecordBatch]]:
        """Yield rows of one partition at a time; a table without partitions has one that has no name."""
        partition_by = self.layout.partition_by
        for batch in pieces((self._checked(batch) for batch in batches), self.layout.record_type):
            if not partition_by:
                yield (), batch
                continue
            data = batch.select([name for name in batch.schema.names if name not in partition_by])
            keys = batch.select(partition_by)
            yield from ((_values(keys, start), data.slice(start, size)) for start, size in _runs(keys))

    def _checked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [_plain(array) for array in batch.columns]
        for each, array in zip(self.layout.schema, arrays, strict=True):
            if array.null_count and not each.nullable:
                raise SchemaError(f"{column_label(each.name)} is not nullable, and has a null", "drop these rows")
        return pa.RecordBatch.from_arrays(arrays, batch.schema.names)

    def _open(self, values: tuple[Value, ...]) -> _Open:
        folder = directory(self.layout.partition_by, values)
        file = f"{self.name}-c{len(self.written):03}{EXTENSIONS[self.layout.codec]}"
        target = "/".join(filter(None, (self.storage.root, folder, file)))
        written = Written(f"{self.attempt}/{len(self.written)}-{file}", target)
        self.storage.make_directory(self.attempt)
        stream = self.storage.create(written.part)
        write, finish = compressor(stream, self.layout.codec)
        self.written.append(written)
        return _Open(written, stream, write, finish)

    def _close(self, opened: _Open | None) -> None:
        if opened is not None:
            opened.finish()
            self.storage.close(opened.stream)


def _runs(keys: pa.RecordBatch) -> list[tuple[int, int]]:
    """Return start and length of the rows that follow each other and have the same keys."""
    different = np.zeros(keys.num_rows, bool)
    for array in keys.columns:
        codes = array.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
        different[1:] |= codes[1:] != codes[:-1]
    starts = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(different)])
    sizes = np.diff(np.append(starts, keys.num_rows))
    return list(zip(starts.tolist(), sizes.tolist(), strict=True))


def _values(keys: pa.RecordBatch, row: int) -> tuple[Value, ...]:
    return tuple(_text(array, row) for array in keys.columns)


def _text(array: pa.Array, row: int) -> Value:
    value = array[row].as_py()
    if value is None:
        return None
    if isinstance(value, bytes | list | dict):
        raise SchemaError(f"a partition column cannot be {array.type}", "cast it to a string or a number")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain(array: pa.Array) -> pa.Array:
    """Return vectors of Spark's ML, which are structs, as lists of doubles; sparse ones get their zeros."""
    if not pa.types.is_struct(array.type):
        return array
    names = [each.name for each in array.type]
    if names != ["type", "size", "indices", "values"]:
        raise SchemaError(f"records cannot have {one_line(str(array.type))[:60]}", "select its fields as columns")
    return pa.array([None if value is None else _dense(value) for value in array.to_pylist()], pa.list_(pa.float64()))


def _dense(vector: dict[str, Any]) -> Sequence[float]:
    if vector["type"] == _DENSE:
        return list(vector["values"])
    dense = np.zeros(vector["size"])
    dense[vector["indices"]] = vector["values"]
    return list(dense)

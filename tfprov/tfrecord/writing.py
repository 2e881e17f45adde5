"""Arrow tables and batches to record files."""

from collections.abc import Iterable, Iterator
from typing import BinaryIO

import pyarrow as pa

from tfprov.errors import one_line
from tfprov.tfrecord.column_types import EXAMPLE, columns_of, record_type_of
from tfprov.tfrecord.compression import codec_of, compressor
from tfprov.tfrecord.encode import encode_batch
from tfprov.tfrecord.files import FileError, PathLike, named, shard_paths, written
from tfprov.tfrecord.framing import framed

_ROWS = 8192
"""Rows encoded at a time."""
_BYTES = 16 << 20
"""Bytes of a batch encoded at a time, so that large values do not multiply in memory."""
_EXTENSIONS = {"none": "", "gzip": ".gz", "zlib": ".zlib"}


def write(
    path: PathLike,
    batches_or_table: "pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch]",
    record_type: str = EXAMPLE,
    compression: str | None = None,
    shards: int | None = None,
) -> list[str]:
    """Write rows as records, and return the names of the files; a null is a missing feature.

    Without `shards`, `path` is one file, which is replaced once the new one is whole; `compression` as for `read`. With
    `shards`, `path` is a directory without record files, and gets `part-00000-of-00010.tfrecord` and so on, compressed
    only if `compression` says so; all files appear together at the end. Each has the next part of a table's rows; of
    batches, whose number of rows is not known, each file gets a part of every batch.

    Raises SchemaError for types and values that records cannot have.
    """
    record_type = record_type_of(record_type)
    name = named(path)
    codec = codec_of("" if shards else name, compression)
    files = [name] if shards is None else _shard_names(name, shards, codec)
    with written(files) as streams:
        count = batches_or_table.num_rows if isinstance(batches_or_table, pa.Table | pa.RecordBatch) else None
        _write_all(streams, pieces(batches_or_table, record_type), record_type, codec, count)
    return files


def _shard_names(directory: str, shards: int, codec: str) -> list[str]:
    files, old = shard_paths(directory, shards, f".tfrecord{_EXTENSIONS[codec]}")
    if old:
        raise FileError(f"{one_line(directory)}: the directory has record files", "remove them, or name another one")
    return files


def pieces(
    source: "pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch]", record_type: str
) -> Iterator[pa.RecordBatch]:
    """Yield the rows in pieces that are encoded one at a time."""
    if isinstance(source, pa.Table):
        columns_of(source.schema, record_type)  # a table without rows has a schema as well
        batches: Iterable[pa.RecordBatch] = source.to_batches(max_chunksize=_ROWS)
    else:
        batches = [source] if isinstance(source, pa.RecordBatch) else source
    for batch in batches:
        rows = max(1, min(_ROWS, batch.num_rows * _BYTES // max(batch.nbytes, 1)))
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def _write_all(
    streams: list[BinaryIO], source: Iterator[pa.RecordBatch], record_type: str, codec: str, count: int | None
) -> None:
    """Write rows: of `count` rows the next part into each file, and otherwise a part of each piece into each file."""
    sinks = [compressor(stream, codec) for stream in streams]
    done = turn = 0
    for piece in source:
        records = encode_batch(piece, record_type)
        start = 0
        for number in range(len(sinks)):
            if count is None:
                stop = len(records) * (number + 1) // len(sinks)
            else:
                stop = min(count * (number + 1) // len(sinks) - done, len(records))
            if stop > start:
                sinks[(turn + number) % len(sinks)][0](framed(records.slice(start, stop - start)))
                start = stop
        done += len(records)
        turn += 1 if count is None else 0
    for _, finish in sinks:
        finish()

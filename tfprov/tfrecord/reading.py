"""Record files to Arrow record batches, as a stream."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from tfprov.errors import printable
from tfprov.tfrecord.column_types import BYTE_ARRAY, BYTE_ARRAY_SCHEMA, EXAMPLE, Column, columns_of, record_type_of
from tfprov.tfrecord.compression import codec_of, decompressed
from tfprov.tfrecord.decode import decode_block
from tfprov.tfrecord.errors import DamagedFile, SchemaError, column_label
from tfprov.tfrecord.files import PathLike, expand, opened, refuse_pipes
from tfprov.tfrecord.framing import BLOCK_BYTES, MAX_RECORD_BYTES, Block, read_blocks
from tfprov.tfrecord.inference import CONNECTOR, Inference

Damaged = Callable[[DamagedFile], None]
Paths = PathLike | Iterable[PathLike]


class RecordsDropped(UserWarning):
    """Records behind damage were dropped, because `salvage` asked for the others."""


def warn(damage: DamagedFile) -> None:
    """Say by a warning of Python's that the rest of a file was dropped."""
    warnings.warn(f"dropped this record and the rest of the file: {damage}", RecordsDropped, stacklevel=3)


def read(  # noqa: PLR0913  every one has a default
    path_or_paths: Paths,
    *,
    columns: Iterable[str] | None = None,
    schema: "pa.Schema | None" = None,
    record_type: str = EXAMPLE,
    compression: str | None = None,
    batch_rows: int | None = None,
    salvage: bool | Damaged = False,
    rules: str = CONNECTOR,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> Iterator["pa.RecordBatch"]:
    """Return the records of files as batches, in order; only `columns` are decoded, in their order.

    Paths are files, directories and patterns. Without a `schema`, one is inferred by `rules` in a first pass over all
    files. A batch has at most `batch_rows` rows, and never more than a block of the file (2 MiB of uncompressed data, or
    one larger record). `record_type` is Example, SequenceExample or ByteArray; `compression` is `auto` (by extension,
    as None is), `none`, `gzip` or `zlib`.

    Raises DamagedFile for damage, and InvalidRecord for a record that does not fit the schema. With `salvage`, the
    records of a damaged file that lie before the damage are returned instead; the damage is a warning (RecordsDropped),
    or an argument for the function that `salvage` is.
    """
    if batch_rows is not None and batch_rows < 1:
        raise SchemaError(f"batch_rows must be at least 1, not {batch_rows}")
    record_type = record_type_of(record_type)
    files = expand(path_or_paths)
    codec_of("", compression)
    options: dict[str, Any] = {"compression": compression, "max_record_bytes": max_record_bytes, "salvage": salvage}
    if schema is None:
        _refuse_pipes(files, record_type)
        quiet = {**options, "salvage": quietly(salvage)}
        schema = infer_schema(files, rules=rules, record_type=record_type, **quiet)
    chosen = select(columns_of(schema, record_type), columns)
    return _batches(blocks(files, **options), chosen, record_type, batch_rows)


def read_table(path_or_paths: Paths, **options: Any) -> "pa.Table":
    """Return the records of files as a table; options as for `read`."""
    schema, columns = options.get("schema"), options.get("columns")
    if columns is not None and not isinstance(columns, str):  # it is needed twice, and a generator is there once
        columns = options["columns"] = list(columns)
    if schema is None:
        own = {
            name: options[name]
            for name in ("rules", "record_type", "compression", "max_record_bytes")
            if name in options
        }
        path_or_paths = expand(path_or_paths)
        _refuse_pipes(path_or_paths, record_type_of(options.get("record_type", EXAMPLE)))
        quiet = quietly(options.get("salvage", False))
        schema = options["schema"] = infer_schema(path_or_paths, salvage=quiet, **own)
    chosen = select(columns_of(schema, record_type_of(options.get("record_type", EXAMPLE))), columns)
    fields = pa.schema([(column.name, column.type) for column in chosen])
    return pa.Table.from_batches(read(path_or_paths, **options), fields)


def _refuse_pipes(files: list[str], record_type: str) -> None:
    """Refuse files that cannot be read once for their schema and once more; that of ByteArray is known without."""
    if record_type != BYTE_ARRAY:
        refuse_pipes(files)


def infer_schema(  # noqa: PLR0913  every one has a default
    path_or_paths: Paths,
    *,
    rules: str = CONNECTOR,
    record_type: str = EXAMPLE,
    compression: str | None = None,
    sample_records: int | None = None,
    salvage: bool | Damaged = False,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> "pa.Schema":
    """Return the schema of all records of all files, or of the first `sample_records`, by the rules of inference.py."""
    inference = Inference(record_type_of(record_type), rules)
    if inference.record_type == BYTE_ARRAY:
        return BYTE_ARRAY_SCHEMA
    for block in blocks(expand(path_or_paths), compression, max_record_bytes, salvage):
        left = len(block) if sample_records is None else sample_records - inference.records
        inference.add(block if left >= len(block) else block.slice(0, left))
        if sample_records is not None and inference.records >= sample_records:
            break
    return inference.schema()


def quietly(salvage: bool | Damaged) -> bool | Damaged:
    """Return `salvage` for a first pass: the second one reports the damage."""
    return (lambda _damage: None) if salvage else False


def blocks(
    files: Iterable[str],
    compression: str | None,
    max_record_bytes: int,
    salvage: bool | Damaged,
    size: int = BLOCK_BYTES,
) -> Iterator[Block]:
    """Yield the records of files in blocks; with `salvage`, damage ends a file and not the iteration."""
    for file in files:
        codec = codec_of(file, compression)
        with opened(file) as stream:
            try:
                yield from read_blocks(
                    decompressed(stream, codec), file, block_bytes=size, max_record_bytes=max_record_bytes
                )
            except DamagedFile as damage:
                if not salvage:
                    raise
                (salvage if callable(salvage) else warn)(damage)


def _batches(
    source: Iterator[Block], columns: list[Column], record_type: str, rows: int | None
) -> Iterator["pa.RecordBatch"]:
    for block in source:
        size = rows or len(block)
        for start in range(0, len(block), size):
            yield decode_block(block.slice(start, start + size), columns, record_type)


def select(columns: list[Column], names: Iterable[str] | None) -> list[Column]:
    """Return the columns that are named, in that order; raises SchemaError for one that the schema does not have."""
    if names is None:
        return columns
    if isinstance(names, str):
        raise SchemaError(f"columns must be a list of names, not `{printable(names)}`", f"use ['{printable(names)}']")
    known = {column.name: column for column in columns}
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name not in known:
            raise SchemaError(f"there is no {column_label(name)}", f"the columns are {printable(', '.join(known))}")
    return [known[name] for name in wanted]

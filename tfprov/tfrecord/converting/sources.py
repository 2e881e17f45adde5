"""Record files, Parquet and CSV as sources. Files of one conversion are one table, in their order."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from tfprov.errors import one_line
from tfprov.tfrecord.column_types import BYTE_ARRAY, columns_of
from tfprov.tfrecord.converting.source import ROWS, Looked, Source, chosen, size_of, text_file
from tfprov.tfrecord.errors import SchemaError, column_label
from tfprov.tfrecord.files import FileError, opened
from tfprov.tfrecord.framing import MAX_RECORD_BYTES
from tfprov.tfrecord.inference import CONNECTOR, Inference
from tfprov.tfrecord.reading import Damaged, blocks, quietly, read

_CSV_BLOCK = 4 << 20
_BAD_CELL = re.compile(r"In CSV column #(\d+): ")
_CSV_TYPES = (pa.null(), pa.int64(), pa.float64(), pa.string())
"""From the narrowest to the widest; booleans are only among themselves."""


def record_source(
    files: Sequence[str], columns: list[str] | None, looked: Looked, record_type: str, salvage: bool | Damaged
) -> Source:
    """Return TFRecord files, after a first pass over all of them for their schema."""
    inference = Inference(record_type, CONNECTOR)
    size = 0
    for block in blocks(files, None, MAX_RECORD_BYTES, quietly(salvage)):
        inference.add(block)
        size += len(block.data)
        looked(inference.records)
    schema = inference.schema()
    names = chosen(schema.names, columns)
    options: dict[str, Any] = {"schema": schema, "columns": names, "record_type": record_type, "salvage": salvage}
    fields = pa.schema([schema.field(name) for name in names])
    if record_type != BYTE_ARRAY:
        columns_of(fields, record_type)
    return Source(fields, inference.records, 2 * size, lambda: read(files, **options))


def parquet_source(files: Sequence[str], columns: list[str] | None, looked: Looked) -> Source:
    """Return Parquet files; dictionaries are their values."""
    schemas, rows, size = [], 0, 0
    for file in files:
        with _parquet(file) as parquet:
            schemas.append(pa.schema([(f.name, _plain_type(f.type)) for f in parquet.schema_arrow]))
            rows += parquet.metadata.num_rows
            groups = range(parquet.metadata.num_row_groups)
            size += sum(parquet.metadata.row_group(group).total_byte_size for group in groups)
            looked(rows)
    schema = unified(schemas, files)
    names = chosen(schema.names, columns)
    schema = pa.schema([schema.field(name) for name in names])

    def batches() -> Iterator[pa.RecordBatch]:
        for file in files:
            with _parquet(file) as parquet:
                here = [name for name in names if name in parquet.schema_arrow.names]
                for batch in parquet.iter_batches(batch_size=ROWS, columns=here):
                    yield _in_schema(batch, schema)

    return Source(schema, rows, 2 * size, batches)


def _plain_type(data_type: pa.DataType) -> pa.DataType:
    return data_type.value_type if pa.types.is_dictionary(data_type) else data_type


@contextmanager
def _parquet(file: str) -> Iterator[pq.ParquetFile]:
    with opened(file) as stream:
        try:
            yield pq.ParquetFile(stream)
        except (pa.ArrowException, OSError) as error:
            raise FileError(f"{one_line(file)}: it is no whole Parquet file: {one_line(str(error))[:160]}") from error


def unified(schemas: Sequence[pa.Schema], files: Sequence[str]) -> pa.Schema:
    """Return one schema for several files; raises SchemaError where a column has two types that have none in common."""
    whole = schemas[0]
    for file, schema in zip(files, schemas, strict=True):
        try:
            whole = pa.unify_schemas([whole, schema], promote_options="permissive")
        except pa.ArrowTypeError as error:
            what = (
                f"{one_line(file)}: its columns do not fit those of the files before it: {one_line(str(error))[:160]}"
            )
            raise SchemaError(what, "convert it by itself, or leave the column out") from error
    return whole


def _in_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with all columns of the schema in its types; null where it has none."""
    arrays = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(len(batch), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def csv_source(files: Sequence[str], columns: list[str] | None, looked: Looked) -> Source:
    """Return CSV files with a header, whose types a first pass over all rows finds; an empty cell is a null."""
    rows, size, schemas = 0, 0, []
    for file in files:
        with opened(file) as stream:
            size += size_of(stream)
        schema, count = _csv_types(file, looked, rows)
        rows += count
        schemas.append(schema)
    whole = unified([pa.schema([(f.name, _csv_type(f.type)) for f in each]) for each in schemas], files)
    names = chosen(whole.names, columns)
    fields = pa.schema([whole.field(name) for name in names])

    def batches() -> Iterator[pa.RecordBatch]:
        for file, own in zip(files, schemas, strict=True):
            with _csv(file, {field.name: field.type for field in own}) as reader:
                for batch in reader:
                    yield _in_schema(batch, fields)

    return Source(fields, rows, 4 * size, batches)


def _csv_type(data_type: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_null(data_type) else data_type


def _csv_types(file: str, looked: Looked, before: int) -> tuple[pa.Schema, int]:
    """Return the narrowest types that all rows of a file fit, and the number of rows."""
    known: dict[str, pa.DataType] = {}
    while True:
        try:
            with _csv(file, known) as reader:
                schema, rows = reader.schema, 0
                repeated = next((name for name in schema.names if schema.names.count(name) > 1), None)
                if repeated is not None:  # it may be empty
                    raise SchemaError(
                        f"{one_line(file)}: {column_label(repeated)} appears more than once", "rename one"
                    )
                if (text := next((f.name for f in schema if pa.types.is_binary(f.type)), None)) is not None:
                    raise _not_utf8(file, f"column `{one_line(text)}` has")
                wanted = {f.name: f.type for f in schema if f.type in _CSV_TYPES or pa.types.is_boolean(f.type)}
                known = {f.name: wanted.get(f.name, pa.string()) for f in schema} | known
                for batch in reader:
                    rows += len(batch)
                    looked(before + rows)
                return pa.schema(list(known.items())), rows
        except pa.ArrowInvalid as error:
            bad = _BAD_CELL.search(str(error))
            if bad is None or not known:
                what = f"{one_line(file)}: it is no CSV file with a header: {one_line(str(error))[:160]}"
                raise FileError(what) from error
            name = list(known)[int(bad[1])]
            if known[name] == pa.string():
                raise _not_utf8(file, f"column `{one_line(name)}` has") from error
            known[name] = _wider(known[name])
        except UnicodeDecodeError as error:
            raise _not_utf8(file, "the header has") from error


def _not_utf8(file: str, what: str) -> FileError:
    return FileError(f"{one_line(file)}: {what} text that is not UTF-8", "convert the file to UTF-8")


def _wider(data_type: pa.DataType) -> pa.DataType:
    return _CSV_TYPES[_CSV_TYPES.index(data_type) + 1] if data_type in _CSV_TYPES else pa.string()


@contextmanager
def _csv(file: str, types: dict[str, pa.DataType]) -> Iterator[Any]:
    with text_file(file) as stream:
        yield pc.open_csv(
            stream,
            read_options=pc.ReadOptions(block_size=_CSV_BLOCK),
            # Without it, a block may end inside a value with line breaks, and the whole file is refused.
            parse_options=pc.ParseOptions(newlines_in_values=True),
            convert_options=pc.ConvertOptions(
                column_types=types,
                null_values=[""],  # Arrow's own list has NA, nan and null, which are text or a number
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

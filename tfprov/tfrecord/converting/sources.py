"""Record files, Parquet and CSV as sources. Files of one conversion are one table, in their order."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pcompute
import pyarrow.csv as pc
import pyarrow.parquet as pq

from tfprov.errors import one_line
from tfprov.tfrecord.column_types import BYTE_ARRAY, columns_of
from tfprov.tfrecord.converting.source import ROWS, Looked, Source, chosen, size_of, text_file
from tfprov.tfrecord.errors import SchemaError, column_label
from tfprov.tfrecord.files import SCHEME, FileError, as_file_error, opened
from tfprov.tfrecord.framing import MAX_RECORD_BYTES
from tfprov.tfrecord.inference import CONNECTOR, Inference
from tfprov.tfrecord.reading import Damaged, blocks, quietly, read

_CSV_BLOCK = 4 << 20
_BAD_CELL = re.compile(r"In CSV column #(\d+): ")
_DIGITS, _LEADING_ZERO = r"^-?\d+$", r"^0\d+$"


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
    """Return the type of a column's values: CSV and NumPy files have neither dictionaries nor views."""
    if pa.types.is_dictionary(data_type):
        return _plain_type(data_type.value_type)
    if pa.types.is_string_view(data_type):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(data_type) else data_type


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
    rows, size = 0, 0
    types: dict[str, pa.DataType] = {}
    for file in files:
        with opened(file) as stream:
            size += size_of(stream)
        own, count = _csv_types(file, looked, rows)
        rows += count
        types |= {name: _common(types.get(name, pa.null()), each) for name, each in own.items()}
    whole = pa.schema([(name, pa.string() if pa.types.is_null(each) else each) for name, each in types.items()])
    names = chosen(whole.names, columns)
    fields = pa.schema([whole.field(name) for name in names])

    def batches() -> Iterator[pa.RecordBatch]:
        for file in files:
            with _csv(file, {field.name: field.type for field in whole}) as reader:
                for batch in reader:
                    yield _in_schema(batch, fields)

    return Source(fields, rows, 4 * size, batches)


def _common(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the type that the cells of both fit: those of a column of text in one file are text in all."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    return pa.float64() if {one, other} == {pa.int64(), pa.float64()} else pa.string()


class _Cells:
    """Which types all cells of a column fit; identifiers, which lose digits as numbers, are text."""

    def __init__(self) -> None:
        self._empty = self._integers = self._floats = self._digits = True

    def add(self, cells: pa.Array) -> None:
        cells = cells.drop_null()
        if not len(cells):
            return
        trimmed = pcompute.utf8_trim(cells, " \t")  # as Arrow's reader does for numbers
        self._empty = False
        self._integers = self._integers and _fits(trimmed, pa.int64())
        self._floats = self._floats and _fits(trimmed, pa.float64())
        self._digits = self._digits and bool(pcompute.all(_matches(trimmed, _DIGITS)).as_py())
        if (self._integers or self._floats) and pcompute.any(_matches(trimmed, _LEADING_ZERO)).as_py():
            self._integers = self._floats = False

    def type(self) -> pa.DataType:
        if self._empty:
            return pa.null()
        if self._integers:
            return pa.int64()
        return pa.float64() if self._floats and not self._digits else pa.string()


def _matches(cells: pa.Array, pattern: str) -> pa.Array:
    return pcompute.match_substring_regex(cells, pattern)


def _fits(cells: pa.Array, data_type: pa.DataType) -> bool:
    try:
        cells.cast(data_type)
    except pa.ArrowInvalid:
        return False
    return True


def _csv_types(file: str, looked: Looked, before: int) -> tuple[dict[str, pa.DataType], int]:
    """Return the narrowest types that all rows of a file fit, and the number of rows."""
    known: dict[str, pa.DataType] = {}
    while True:
        try:
            if not known:
                with _csv(file, {}) as reader:  # the types of its first rows
                    known, numbers = _first_types(file, reader.schema)
            with _csv(file, known) as reader:
                cells, rows = {name: _Cells() for name in numbers}, 0
                for batch in reader:
                    for name, column in cells.items():
                        column.add(batch.column(name))
                    rows += len(batch)
                    looked(before + rows)
                return known | {name: column.type() for name, column in cells.items()}, rows
        except pa.ArrowInvalid as error:
            bad = _BAD_CELL.search(str(error))
            if bad is None or not known:
                what = f"{one_line(file)}: it is no CSV file with a header: {one_line(str(error))[:160]}"
                raise FileError(what) from error
            name = list(known)[int(bad[1])]
            if known[name] == pa.string():
                raise _not_utf8(file, f"column `{one_line(name)}` has") from error
            known[name] = pa.string()  # it is no boolean
        except UnicodeDecodeError as error:
            raise _not_utf8(file, "the header has") from error


def _first_types(file: str, schema: pa.Schema) -> tuple[dict[str, pa.DataType], list[str]]:
    """Return types to read all rows with, and the columns that may be numbers, whose cells are read as text."""
    repeated = next((name for name in schema.names if schema.names.count(name) > 1), None)
    if repeated is not None:  # it may be empty
        raise SchemaError(f"{one_line(file)}: {column_label(repeated)} appears more than once", "rename one")
    if (text := next((f.name for f in schema if pa.types.is_binary(f.type)), None)) is not None:
        raise _not_utf8(file, f"column `{one_line(text)}` has")
    numbers = [f.name for f in schema if f.type in (pa.null(), pa.int64(), pa.float64())]
    return {f.name: f.type if pa.types.is_boolean(f.type) else pa.string() for f in schema}, numbers


def _not_utf8(file: str, what: str) -> FileError:
    return FileError(f"{one_line(file)}: {what} text that is not UTF-8", "convert the file to UTF-8")


@contextmanager
def _csv_bytes(file: str) -> Iterator[Any]:
    """Open a CSV file for Arrow, which reads ahead in a thread.

    Arrow opens a plain file itself: a thread that calls Python while the interpreter ends aborts the process.
    """
    if SCHEME.match(file) or file.lower().endswith((".gz", ".gzip")):
        with text_file(file) as stream:
            yield stream
        return
    with as_file_error(file):
        native = pa.OSFile(file)
    with native:
        yield native


@contextmanager
def _csv(file: str, types: dict[str, pa.DataType]) -> Iterator[Any]:
    with _csv_bytes(file) as stream:
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

"""Blocks of records to Arrow record batches: only the columns that are asked for are decoded."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from tfprov.tfrecord.arrays import array_of, base_type, cast, nested_value_of, replaced, value_of
from tfprov.tfrecord.column_types import BYTE_ARRAY, EXAMPLE, Column
from tfprov.tfrecord.errors import InvalidRecord, column_label
from tfprov.tfrecord.example_parser import Feature, Kind, parse_example, parse_sequence_example
from tfprov.tfrecord.feature_lists import Values, decode
from tfprov.tfrecord.framing import Block
from tfprov.tfrecord.walk import Entries, Keys, walk
from tfprov.tfrecord.wire import Mask, Wire, ranges

Parsed = TypeVar("Parsed")


def decode_block(block: Block, columns: Sequence[Column], record_type: str) -> pa.RecordBatch:
    """Return the records of a block; raises InvalidRecord for one that does not fit the columns."""
    if record_type == BYTE_ARRAY:
        arrays = [ranges(Wire.of(block.data), block.starts, block.ends - block.starts)] * len(columns)
    elif record_type == EXAMPLE:
        arrays = _examples(block, columns)
    else:
        arrays = _sequence_examples(block, columns)
    fields = [pa.field(column.name, column.type) for column in columns]
    whole = [cast(column, array, block) for column, array in zip(columns, arrays, strict=True)]
    if not columns:  # such as to count the records
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(block), pa.struct([])))
    return pa.RecordBatch.from_arrays(whole, schema=pa.schema(fields))


def _examples(block: Block, columns: Sequence[Column]) -> list[pa.Array]:
    wire = Wire.of(block.data)
    walked = walk(wire, block.starts, block.ends, Keys([column.key for column in columns]))
    irregular = walked.irregular
    decoded = [_values(wire, walked.columns.get(number), column) for number, column in enumerate(columns)]
    for column, values in zip(columns, decoded, strict=True):
        irregular[values.irregular] = True
        if column.depth == 0:
            irregular[values.rows[values.counts > 1]] = True
    arrays = [_array(column, values, irregular) for column, values in zip(columns, decoded, strict=True)]
    if not irregular.any():
        return arrays
    rows = np.flatnonzero(irregular).tolist()
    wanted = {column.key for column in columns}
    parsed = [parse(block, row, lambda data: parse_example(data, wanted), EXAMPLE) for row in rows]
    return [
        replaced(array, rows, _column_values(column, parsed, block, rows))
        for column, array in zip(columns, arrays, strict=True)
    ]


def _values(wire: Wire, entries: Entries | None, column: Column) -> Values:
    if entries is None or column.kind == Kind.UNSET:
        nothing = Entries.empty()
        return Values(nothing.rows, nothing.rows, pa.array([], base_type(replace(column, depth=0))), nothing.rows)
    return decode(wire, entries, column.kind)


def _array(column: Column, values: Values, irregular: Mask) -> pa.Array:
    if column.depth > 1 or column.kind == Kind.UNSET:
        return pa.nulls(len(irregular), base_type(column))
    return array_of(column, values, len(irregular))


def _column_values(
    column: Column, parsed: Sequence[Mapping[bytes, Feature]], block: Block, rows: Sequence[int]
) -> list[object]:
    key = column.key
    return [value_of(column, features.get(key), block, row) for features, row in zip(parsed, rows, strict=True)]


def _sequence_examples(block: Block, columns: Sequence[Column]) -> list[pa.Array]:
    wanted = {column.key for column in columns}
    values: list[list[object]] = [[] for _ in columns]
    for row in range(len(block)):
        context, lists = parse(block, row, lambda data: parse_sequence_example(data, wanted), "SequenceExample")
        for column, found in zip(columns, values, strict=True):
            key = column.key
            if key in context and key in lists:
                what = f"{column_label(column.name)} is in the context and in the feature lists"
                raise InvalidRecord(*block.place(row), what, "rename one of them, or leave the column out")
            if key in lists or column.depth == 2:
                found.append(_nested(column, context, lists.get(key), block, row))
            else:
                found.append(value_of(column, context.get(key), block, row))
    return [pa.array(found, base_type(column)) for column, found in zip(columns, values, strict=True)]


def _nested(
    column: Column, context: Mapping[bytes, Feature], features: Sequence[Feature] | None, block: Block, row: int
) -> object:
    if column.key in context:
        what = f"{column_label(column.name)} is in the context, and its type is {column.type}"
        raise InvalidRecord(*block.place(row), what, f"use {column.type.value_type}")
    return nested_value_of(column, features, block, row)


def parse(block: Block, row: int, parser: Callable[[bytes], Parsed], message: str) -> Parsed:
    """Return one parsed record; raises InvalidRecord for a malformed one."""
    try:
        return parser(block.record(row))
    except ValueError as error:
        fix = "check record_type; ByteArray reads any bytes"
        raise InvalidRecord(*block.place(row), f"it is no valid {message}: {error}", fix) from error

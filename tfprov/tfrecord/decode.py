"""Blocks of records to Arrow record batches: only the columns that are asked for are decoded."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa

from tfprov.tfrecord.arrays import array_of, base_type, cast, nested_array_of, nested_value_of, replaced, value_of
from tfprov.tfrecord.column_types import BYTE_ARRAY, EXAMPLE, Column
from tfprov.tfrecord.errors import InvalidRecord, column_label
from tfprov.tfrecord.example_parser import FeatureLists, Features, Kind, parse_example, parse_sequence_example
from tfprov.tfrecord.feature_lists import decode_as, items_of
from tfprov.tfrecord.framing import Block
from tfprov.tfrecord.messages import in_one_form
from tfprov.tfrecord.walk import Entries, Keys, features_of_examples, parts_of_sequence_examples, walk
from tfprov.tfrecord.wire import Positions, Wire, ranges

Parsed = TypeVar("Parsed")


def decode_block(block: Block, columns: Sequence[Column], record_type: str) -> pa.RecordBatch:
    """Return the records of a block; raises InvalidRecord for one that does not fit the columns."""
    if record_type == BYTE_ARRAY:
        arrays = [ranges(Wire.of(block.data), block.starts, block.ends - block.starts)] * len(columns)
    else:
        arrays = _arrays(block, columns, record_type)
    fields = [pa.field(column.name, column.type) for column in columns]
    whole = [cast(column, array, block) for column, array in zip(columns, arrays, strict=True)]
    if not columns:  # such as to count the records
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(block), pa.struct([])))
    return pa.RecordBatch.from_arrays(whole, schema=pa.schema(fields))


def _arrays(block: Block, columns: Sequence[Column], record_type: str) -> list[pa.Array]:
    """Return a column of each record: in lock-step, irregular ones in their regular form, and the rest one by one."""
    arrays, irregular = _lock_step(block, columns, record_type)
    if not len(irregular):
        return arrays
    again, refused = _lock_step(regular_block(block, irregular, record_type), columns, record_type)
    if len(refused):  # what protobuf refuses or does not fit the schema; most of it is an error
        rows = irregular[refused].tolist()
        values = _one_by_one(block, rows, columns, record_type)
        again = [replaced(array, refused, each) for array, each in zip(again, values, strict=True)]
    return [replaced(array, irregular, other) for array, other in zip(arrays, again, strict=True)]


def regular_block(block: Block, rows: Positions, record_type: str) -> Block:
    """Return irregular records in their regular form, and as they are if protobuf refuses them."""
    records = []
    for row in rows.tolist():
        record = block.record(row)
        form = in_one_form(record, record_type)
        records.append(record if form is None else form)
    return block.with_records(records)


def _lock_step(block: Block, columns: Sequence[Column], record_type: str) -> tuple[list[pa.Array], Positions]:
    """Return a column of each record, and the rows of those that are irregular, which may have any values."""
    wire, count = Wire.of(block.data), len(block)
    keys = [column.key for column in columns]
    if record_type == EXAMPLE:
        context, other = features_of_examples(wire, block.starts, block.ends)
        lists = Entries.empty()
    else:
        context, lists, other = parts_of_sequence_examples(wire, block.starts, block.ends)
    features = walk(wire, context, count, Keys(list(keys)))
    nested = walk(wire, lists, count, Keys(list(keys)))
    irregular = features.irregular | nested.irregular
    irregular[other] = True
    arrays = []
    for number, column in enumerate(columns):
        parts = [each.columns.get(number, Entries.empty()) for each in (features, nested)]
        array, misfits = _column(wire, parts[0], parts[1], column, count)
        irregular[misfits] = True
        arrays.append(array)
    return arrays, np.flatnonzero(irregular)


def _column(wire: Wire, features: Entries, lists: Entries, column: Column, count: int) -> tuple[pa.Array, Positions]:
    """Return the values of a column, and the rows that do not fit it."""
    if column.kind == Kind.UNSET:
        return pa.nulls(count, base_type(column)), np.intersect1d(features.rows, lists.rows)
    if column.depth > 1:
        array, misfits = _nested(wire, lists, column.kind, count)
        return array, np.concatenate([misfits, features.rows])
    values = decode_as(wire, features, column.kind)
    rows = [values.irregular, lists.rows]
    if column.depth == 0:
        rows.append(values.rows[values.counts > 1])
    return array_of(column, values, count), np.concatenate(rows)


def _nested(wire: Wire, lists: Entries, kind: Kind, count: int) -> tuple[pa.Array, Positions]:
    items = items_of(wire, lists)
    owners = np.repeat(lists.rows, items.counts)
    features = Entries(np.arange(len(items.starts)), items.starts, items.starts + items.sizes)
    inner = decode_as(wire, features, kind)
    misfits = np.concatenate([lists.rows[~items.regular], owners[inner.irregular]])
    return nested_array_of(lists.rows, items.counts, inner, count), misfits


def _one_by_one(block: Block, rows: Sequence[int], columns: Sequence[Column], record_type: str) -> list[pa.Array]:
    """Return a column of some records; raises InvalidRecord."""
    values: list[list[object]] = [[] for _ in columns]
    for row in rows:
        record = _parsed(block, row, columns, record_type)
        for column, each in zip(columns, values, strict=True):
            each.append(_value(column, record, block, row))
    return [pa.array(each, base_type(column)) for column, each in zip(columns, values, strict=True)]


def _parsed(block: Block, row: int, columns: Sequence[Column], record_type: str) -> tuple[Features, FeatureLists]:
    wanted = {column.key for column in columns}
    if record_type == EXAMPLE:
        return parse(block, row, lambda data: parse_example(data, wanted), record_type), {}
    return parse(block, row, lambda data: parse_sequence_example(data, wanted), record_type)


def _value(column: Column, record: tuple[Features, FeatureLists], block: Block, row: int) -> object:
    (context, lists), key = record, column.key
    if key in context and key in lists:
        what = f"{column_label(column.name)} is in the context and in the feature lists"
        raise InvalidRecord(*block.place(row), what, "rename one of them, or leave the column out")
    if key not in lists and column.depth < 2:
        return value_of(column, context.get(key), block, row)
    if key in context:
        what = f"{column_label(column.name)} is in the context, and its type is {column.type}"
        raise InvalidRecord(*block.place(row), what, f"use {column.type.value_type}")
    return nested_value_of(column, lists.get(key), block, row)


def parse(block: Block, row: int, parser: Callable[[bytes], Parsed], message: str) -> Parsed:
    """Return one parsed record; raises InvalidRecord for a malformed one."""
    try:
        return parser(block.record(row))
    except ValueError as error:
        fix = "check record_type; ByteArray reads any bytes"
        raise InvalidRecord(*block.place(row), f"it is no valid {message}: {error}", fix) from error

"""Decoded values to Arrow arrays, and to the types of a schema."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tfprov.errors import one_line
from tfprov.tfrecord.column_types import Column
from tfprov.tfrecord.errors import InvalidRecord, column_label
from tfprov.tfrecord.example_parser import Feature, Kind
from tfprov.tfrecord.feature_lists import Values
from tfprov.tfrecord.framing import Block
from tfprov.tfrecord.wire import Positions

_BASE = {Kind.BYTES: pa.large_binary(), Kind.FLOAT: pa.float32(), Kind.INT: pa.int64(), Kind.UNSET: pa.null()}
"""The type that each list is decoded to, before it is cast to the column's."""
_NOUNS = {Kind.BYTES: "bytes", Kind.FLOAT: "floats", Kind.INT: "integers"}


def base_type(column: Column) -> pa.DataType:
    """Return the type that a column is decoded to."""
    data_type = _BASE[column.kind]
    for _ in range(column.depth):
        data_type = pa.list_(data_type)
    return data_type


def array_of(column: Column, values: Values, count: int) -> pa.Array:
    """Return `count` rows of the decoded type, null where there are no values."""
    items = values.values if isinstance(values.values, pa.Array) else pa.array(values.values)
    if column.depth == 0:
        if len(values.rows) == count and (values.counts == 1).all():
            return items
        places = np.full(count, -1)
        single = values.counts == 1
        places[values.rows[single]] = (np.cumsum(values.counts) - values.counts)[single]
        return items.take(pa.array(places, mask=places < 0))
    counts, missing = np.zeros(count, np.int64), np.ones(count, bool)
    counts[values.rows], missing[values.rows] = values.counts, False
    mask = pa.array(missing) if missing.any() else None
    return pa.ListArray.from_arrays(pa.array(_offsets(counts)), items, mask=mask)


def nested_array_of(rows: Positions, counts: Positions, inner: Values, count: int) -> pa.Array:
    """Return `count` rows of lists of lists, null where `rows` has none: row `rows[i]` has the next `counts[i]` lists."""
    items = inner.values if isinstance(inner.values, pa.Array) else pa.array(inner.values)
    sizes = np.zeros(int(counts.sum()), np.int64)
    sizes[inner.rows] = inner.counts
    lists = pa.ListArray.from_arrays(pa.array(_offsets(sizes)), items)
    outer, missing = np.zeros(count, np.int64), np.ones(count, bool)
    outer[rows], missing[rows] = counts, False
    return pa.ListArray.from_arrays(pa.array(_offsets(outer)), lists, mask=pa.array(missing) if missing.any() else None)


def _offsets(sizes: Positions) -> NDArray[np.int32]:
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def replaced(array: pa.Array, rows: Positions, values: pa.Array) -> pa.Array:
    """Return `array` with other values at `rows`."""
    places = np.arange(len(array))
    places[rows] = len(array) + np.arange(len(rows))
    return pa.concat_arrays([array, values]).take(pa.array(places))


def value_of(column: Column, feature: Feature | None, block: Block, row: int) -> Any:
    """Return one parsed Feature as a value of the column's decoded type; raises InvalidRecord where it does not fit."""
    if feature is None or Kind.UNSET in (feature.kind, column.kind):
        return None
    values = _converted(column, feature, block, row)
    if column.depth:
        return values
    if len(values) > 1:
        raise _invalid(
            column, block, row, f"has {len(values)} values, and {column.type} holds one", f"use list<{column.type}>"
        )
    return values[0] if values else None


def nested_value_of(column: Column, features: Sequence[Feature] | None, block: Block, row: int) -> Any:
    """Return a parsed FeatureList as a value of the column's decoded type."""
    if features is None or column.kind == Kind.UNSET:
        return None
    if column.depth < 2:
        what = f"is a feature list, and its type is {column.type}"
        raise _invalid(column, block, row, what, f"use list<list<{column.leaf}>>")
    return [[] if each.kind == Kind.UNSET else _converted(column, each, block, row) for each in features]


def _converted(column: Column, feature: Feature, block: Block, row: int) -> Sequence[Any]:
    """Return the values with the numeric promotions that inference promises: integer to float to string."""
    if feature.kind == column.kind or not feature.values:
        return feature.values
    if feature.kind == Kind.INT and column.kind == Kind.FLOAT:
        return [float(np.float32(value)) for value in feature.values]
    if column.kind == Kind.BYTES:
        return [str(value).encode() for value in feature.values]
    what = f"has {_NOUNS[feature.kind]}, and its type is {column.type}"
    raise _invalid(column, block, row, what, "infer the schema of all files, or name another type")


def cast(column: Column, array: pa.Array, block: Block) -> pa.Array:
    """Return the array in the type of the column; raises InvalidRecord for the first value that does not fit."""
    if array.type == column.type:
        return array
    try:
        return array.cast(column.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError) as error:
        row, reason = _first_invalid(column, array, error)
    fix = "read it as binary" if "UTF8" in reason else "use a wider type"
    raise _invalid(column, block, row, f"does not fit {column.type} ({one_line(reason)[:120]})", fix)


def _first_invalid(column: Column, array: pa.Array, error: Exception) -> tuple[int, str]:
    """Return the first row that cannot be cast, and why."""
    start, stop = 0, len(array)
    while stop - start > 1:
        middle = (start + stop) // 2
        try:
            array.slice(start, middle - start).cast(column.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as earlier:
            stop, error = middle, earlier
        else:
            start = middle
    return start, str(error)


def _invalid(column: Column, block: Block, row: int, what: str, fix: str) -> InvalidRecord:
    return InvalidRecord(*block.place(row), f"{column_label(column.name)} {what}", fix)

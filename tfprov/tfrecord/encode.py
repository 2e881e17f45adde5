"""Arrow columns to Examples: every level of the message is made for all records at once, as one array of binaries.

A level is its content with a header that depends only on the content's length, and joining two arrays of binaries row by
row is one call of Arrow's. Regrouping values into lists only combines their offsets.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tfprov.errors import one_line
from tfprov.tfrecord.column_types import BYTE_ARRAY, SEQUENCE_EXAMPLE, Column, columns_of
from tfprov.tfrecord.errors import SchemaError, column_label
from tfprov.tfrecord.example_parser import Kind
from tfprov.tfrecord.feature_lists import TAGS

_ENTRY, _KEY, _VALUE, _ITEM = 0x0A, 0x0A, 0x12, 0x0A
_CONTEXT, _FEATURE_LISTS = 0x0A, 0x12
_SMALL = 1 << 16
Header = Callable[[int], bytes]


def encode_batch(batch: pa.RecordBatch, record_type: str) -> pa.Array:
    """Return the records of a batch as an array of large binaries; raises SchemaError for what records cannot have."""
    columns = columns_of(batch.schema, record_type)
    if record_type == BYTE_ARRAY:
        if batch.column(0).null_count:
            raise SchemaError(f"{column_label(columns[0].name)} has nulls, and a record of bytes cannot", "drop them")
        return _cast(columns[0], batch.column(0), pa.large_binary())
    features = [(column, array) for column, array in zip(columns, batch.columns, strict=True) if column.depth < 2]
    context = _joined([_feature_entry(column, array) for column, array in features], len(batch))
    context = _prefixed(context, lambda size: _sized(_CONTEXT, size))
    if record_type != SEQUENCE_EXAMPLE:
        return context
    nested = [(column, array) for column, array in zip(columns, batch.columns, strict=True) if column.depth == 2]
    lists = _joined([_feature_list_entry(column, array) for column, array in nested], len(batch))
    return _joined([context, _prefixed(lists, lambda size: _sized(_FEATURE_LISTS, size))], len(batch))


def _feature_entry(column: Column, array: pa.Array) -> pa.Array:
    """Return the map entry of each row, null for a null."""
    if column.kind == Kind.UNSET:
        return pa.nulls(len(array), pa.large_binary())
    content = _list_contents(column, array)
    return _prefixed(content, lambda size: _entry(column.key, _feature_header(column.kind, size), size))


def _feature_list_entry(column: Column, array: pa.Array) -> pa.Array:
    """Return the map entry of each row's list of lists."""
    if column.kind == Kind.UNSET:
        return pa.nulls(len(array), pa.large_binary())
    offsets, inner = _list_parts(column, array)
    content = _list_contents(column, inner)
    features = _prefixed(content, lambda size: _item_feature(column.kind, size))
    lists = _regrouped(features, offsets, array)
    return _prefixed(lists, lambda size: _entry(column.key, b"", size))


def _item_feature(kind: Kind, size: int) -> bytes:
    head = _feature_header(kind, size)
    return _sized(_ITEM, len(head) + size) + head


def _feature_header(kind: Kind, size: int) -> bytes:
    """Return what stands before the content of a list in its Feature; items of bytes have headers of their own."""
    packed = _sized(_ITEM, size) if size and kind != Kind.BYTES else b""
    return _sized(TAGS[kind], len(packed) + size) + packed


def _entry(key: bytes, head: bytes, size: int) -> bytes:
    """Return what stands before the content of a map entry, whose value begins with `head`."""
    before = _sized(_KEY, len(key)) + key + _sized(_VALUE, len(head) + size) + head
    return _sized(_ENTRY, len(before) + size) + before


def _sized(tag: int, size: int) -> bytes:
    """Return the header of a field with a length."""
    groups = bytearray((tag,))
    while size > 127:
        groups.append(size & 127 | 128)
        size >>= 7
    groups.append(size)
    return bytes(groups)


def _list_contents(column: Column, array: pa.Array) -> pa.Array:
    """Return the content of each row's innermost list, null for a null."""
    if column.depth == 0:
        offsets, values = np.arange(len(array) + 1), array
    else:
        offsets, values = _list_parts(column, array)
        if values.null_count:
            raise SchemaError(f"{column_label(column.name)} has a null inside a list", "records have none: drop it")
    return _regrouped(_item_contents(column, values), offsets, array)


def _list_parts(column: Column, array: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Return the offsets of the rows of an array of lists, and the values of all rows that are not null."""
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    values = array.flatten()
    sizes = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    if values.null_count and pa.types.is_nested(values.type):
        raise SchemaError(f"{column_label(column.name)} has a null inside a list", "records have none: drop it")
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets, values


def _item_contents(column: Column, values: pa.Array) -> pa.Array:
    """Return what each value adds to the content of its list; nulls, which only scalars have, may add anything."""
    if column.kind == Kind.BYTES:
        binaries = _cast(column, values, pa.large_binary())
        return _prefixed(pc.fill_null(binaries, _NOTHING) if binaries.null_count else binaries, _item)
    if column.kind == Kind.FLOAT:
        floats = _numpy(_cast(column, values, pa.float32()))
        return _binaries(np.arange(0, 4 * len(floats) + 1, 4), floats.astype("<f4", copy=False), None)
    return _varints(_numpy(_cast(column, values, pa.int64())))


def _item(size: int) -> bytes:
    return _sized(_ITEM, size)


def _numpy(array: pa.Array) -> "NDArray[np.int64] | NDArray[np.float32]":
    filled: NDArray[np.int64] = (pc.fill_null(array, 0) if array.null_count else array).to_numpy()
    return filled


def _cast(column: Column, array: pa.Array, data_type: pa.DataType) -> pa.Array:
    try:
        if pa.types.is_fixed_size_binary(array.type):
            array = array.cast(pa.binary())
        safe = data_type != pa.float32()  # double to float loses digits, as in every writer of Examples
        return array.cast(data_type, safe=safe)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        what = f"{column_label(column.name)} cannot be written as {data_type}: {one_line(str(error))[:120]}"
        raise SchemaError(what, "cast it to a type that records have") from error


def _varints(values: "NDArray[np.int64] | NDArray[np.float32]") -> pa.Array:
    left = np.ascontiguousarray(values, "<i8").view(np.uint64)
    longest = max((int(left.max(initial=0)).bit_length() + 6) // 7, 1)
    if longest == 1:
        return _binaries(np.arange(len(left) + 1), left.astype(np.uint8), None)
    groups = np.empty((len(left), longest), np.uint8)
    sizes = np.ones(len(left), np.int64)
    for place in range(longest):
        rest = left >> np.uint64(7 * place)
        groups[:, place] = (rest & np.uint64(0x7F)).astype(np.uint8) | (rest > 0x7F).astype(np.uint8) << 7
        if place:
            sizes += rest > 0
    return _binaries(_offsets(sizes), groups[np.arange(longest) < sizes[:, None]], None)


def _offsets(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def _regrouped(items: pa.Array, offsets: NDArray[np.int64], rows: pa.Array) -> pa.Array:
    """Return binaries that have several items each, null where `rows` is."""
    _, starts, data = items.buffers()
    bounds = np.frombuffer(starts, np.int64)[items.offset : items.offset + len(items) + 1]
    valid = None if rows.null_count == 0 else pa.array(rows.is_valid()).buffers()[1]
    return _binaries(bounds[offsets], data, valid)


def _binaries(offsets: NDArray[np.int64], data: object, valid: pa.Buffer | None) -> pa.Array:
    buffers = [
        valid,
        pa.py_buffer(np.ascontiguousarray(offsets, np.int64)),
        pa.py_buffer(b"" if data is None else data),
    ]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _prefixed(contents: pa.Array, header: Header) -> pa.Array:
    """Return binaries with the header of their length in front; nulls stay null."""
    sizes = pc.fill_null(pc.binary_length(contents), 0).to_numpy(zero_copy_only=False)
    if not len(sizes):
        return contents
    if (sizes == sizes[0]).all():
        head = pa.scalar(header(int(sizes[0])), pa.large_binary())
        return pc.binary_join_element_wise(head, contents, _NOTHING)
    distinct, places = _distinct(sizes)
    heads = pa.array([header(size) for size in distinct.tolist()], pa.large_binary())
    return pc.binary_join_element_wise(heads.take(pa.array(places)), contents, _NOTHING)


_NOTHING = pa.scalar(b"", pa.large_binary())


def _distinct(sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct sizes, and which one each is."""
    if sizes.max() >= _SMALL:
        distinct, places = np.unique(sizes, return_inverse=True)
        return distinct, places
    present = np.zeros(int(sizes.max()) + 1, np.int64)
    present[sizes] = 1
    return np.flatnonzero(present), (np.cumsum(present) - 1)[sizes]


def _joined(parts: Sequence[pa.Array], count: int) -> pa.Array:
    """Return the parts of each row one after the other, without those that are null."""
    if not parts:
        return _binaries(np.zeros(count + 1, np.int64), None, None)
    # Not "skip": it returns no row at all where every part is null (measured with pyarrow 26).
    return pc.binary_join_element_wise(*parts, _NOTHING, null_handling="replace", null_replacement="")

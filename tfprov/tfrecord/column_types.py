"""Which Arrow types record files can have, and the list of a Feature that holds each."""

from dataclasses import dataclass

import pyarrow as pa

from tfprov.errors import one_line
from tfprov.tfrecord.errors import SchemaError, column_label
from tfprov.tfrecord.example_parser import Kind

EXAMPLE, SEQUENCE_EXAMPLE, BYTE_ARRAY = "Example", "SequenceExample", "ByteArray"
RECORD_TYPES = (EXAMPLE, SEQUENCE_EXAMPLE, BYTE_ARRAY)
BYTE_ARRAY_COLUMN = "byteArray"
"""The one column of files of the record type ByteArray."""
BYTE_ARRAY_SCHEMA = pa.schema([(BYTE_ARRAY_COLUMN, pa.binary())])


@dataclass(frozen=True)
class Column:
    """A column: its type, the type of its innermost values, the list that holds them, and how deep they are nested."""

    name: str
    type: pa.DataType
    leaf: pa.DataType
    kind: Kind
    depth: int

    @property
    def key(self) -> bytes:
        """The key in the map of features."""
        return self.name.encode()


def record_type_of(name: str) -> str:
    """Return a record type by its name in any case; raises SchemaError."""
    for known in RECORD_TYPES:
        if name.lower().replace("_", "") == known.lower():
            return known
    raise SchemaError(f"unknown record type `{one_line(name)}`", f"use {', '.join(RECORD_TYPES)}")


def columns_of(schema: pa.Schema, record_type: str) -> list[Column]:
    """Return the columns of a schema; raises SchemaError for types that this record type cannot have."""
    names = schema.names
    if (repeated := next((name for name in names if names.count(name) > 1), None)) is not None:
        raise SchemaError(f"{column_label(repeated)} appears more than once", "rename one of them")
    if record_type == BYTE_ARRAY:
        _check_byte_array(schema)
    return [_column(field.name, field.type, record_type) for field in schema]


def _check_byte_array(schema: pa.Schema) -> None:
    if len(schema) != 1 or _kind(schema[0].type) != Kind.BYTES:
        columns = ", ".join(f"{field.name}: {field.type}" for field in schema)
        raise SchemaError(
            f"ByteArray records have one column of binary or string, not `{one_line(columns)}`",
            "select that column, or use the record type Example",
        )


def _column(name: str, data_type: pa.DataType, record_type: str) -> Column:
    leaf, depth = data_type, 0
    while _is_list(leaf):
        leaf, depth = leaf.value_type, depth + 1
    kind = _kind(leaf)
    if kind is None:
        raise SchemaError(f"{column_label(name)} has the type {data_type}, which records cannot have", _cast_to(leaf))
    deepest = 2 if record_type == SEQUENCE_EXAMPLE else 1
    if depth > deepest:
        fix = "use the record type SequenceExample" if depth == 2 else "flatten it"
        raise SchemaError(f"{column_label(name)} has {depth} levels of lists, and {record_type} has {deepest}", fix)
    return Column(name, data_type, leaf, kind, depth)


def _is_list(data_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(data_type) or pa.types.is_large_list(data_type) or pa.types.is_fixed_size_list(data_type)
    )


def _kind(leaf: pa.DataType) -> Kind | None:
    types = pa.types
    if types.is_boolean(leaf) or types.is_integer(leaf):
        return Kind.INT
    if types.is_floating(leaf) or types.is_decimal(leaf):
        return Kind.FLOAT
    if (
        types.is_string(leaf)
        or types.is_large_string(leaf)
        or types.is_binary(leaf)
        or types.is_large_binary(leaf)
        or types.is_fixed_size_binary(leaf)
        or types.is_string_view(leaf)
        or types.is_binary_view(leaf)
    ):
        return Kind.BYTES
    return Kind.UNSET if types.is_null(leaf) else None


def _cast_to(leaf: pa.DataType) -> str:
    if pa.types.is_temporal(leaf):
        return "cast it to int64 or string"
    if pa.types.is_dictionary(leaf):
        return f"cast it to {leaf.value_type}"
    return "use integers, floats, decimals, booleans, strings, binaries, or lists of them"

"""Spark's schemas and Arrow's: of files that are read, and of rows that are written."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema, to_arrow_type
from pyspark.sql.types import StructField, StructType

from tfprov.spark.listing import DataFile
from tfprov.spark.options import Options
from tfprov.spark.partition_paths import keys_of, type_of
from tfprov.tfrecord.column_types import Column, columns_of
from tfprov.tfrecord.errors import SchemaError, column_label
from tfprov.tfrecord.reading import infer_schema


def inferred(files: Sequence[DataFile], options: Options) -> StructType:
    """Return the schema of files by the rules of tfprov.tfrecord, with their partition columns behind it."""
    keys = keys_of((file.path, file.pairs) for file in files)
    schema = infer_schema(
        [file.path for file in files],
        rules=options.rules,
        record_type=options.record_type,
        compression=options.compression,
        sample_records=options.sample_records,
        salvage=(lambda _damage: None) if options.salvage else False,
        max_record_bytes=options.max_record_bytes,
    )
    fields = [field for field in schema if field.name not in keys]
    for number, key in enumerate(keys):
        kind = type_of((file.pairs[number][1] for file in files), infer=options.infer_partition_types)
        fields.append(pa.field(key, kind))
    return from_arrow_schema(pa.schema(fields))


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects of batches; vectors of Spark's ML are lists of doubles.

    Raises SchemaError for types that have no Arrow type, or one that depends on the session, such as timestamps.
    """
    lists = plain(schema)
    for field in lists:
        try:
            to_arrow_type(field.dataType)
        except Exception as error:  # of several kinds, also assertions
            what = f"{column_label(field.name)} has the type {field.dataType.simpleString()}, which records cannot have"
            raise SchemaError(what, "cast it to bigint or string") from error
    return to_arrow_schema(lists)


def plain(schema: StructType) -> StructType:
    """Return a schema in which a vector of Spark's ML is a list."""
    from pyspark.sql.types import ArrayType, DoubleType  # noqa: PLC0415  nothing else needs them

    return StructType(
        [
            StructField(field.name, ArrayType(DoubleType(), containsNull=False), field.nullable)
            if is_vector(field.dataType)
            else field
            for field in schema
        ]
    )


def is_vector(data_type: Any) -> bool:
    """Whether a type is a vector of Spark's ML, or of the older MLlib."""
    return type(data_type).__name__ == "VectorUDT"


def data_columns(schema: pa.Schema, partition_names: Sequence[str], record_type: str) -> list[Column]:
    """Return the columns that are in the records; raises SchemaError for types that records cannot have."""
    if missing := [name for name in partition_names if name not in schema.names]:
        raise SchemaError(f"there is no {column_label(missing[0])} to partition by")
    fields = [field for field in schema if field.name not in partition_names]
    if not len(schema):
        raise SchemaError("the DataFrame has no columns", "select one")
    if not fields:
        raise SchemaError("all columns are partition columns", "leave one for the records")
    return columns_of(pa.schema(fields), record_type)

"""A column of Examples: each row as the bytes of a record, for what writes them elsewhere (Kafka, a table, a socket)."""

from typing import Any

import pyarrow as pa
from pyspark.sql import functions
from pyspark.sql.types import BinaryType

from tfprov.tfrecord.column_types import EXAMPLE, record_type_of
from tfprov.tfrecord.encode import encode_batch


def to_example(*columns: Any, record_type: str = EXAMPLE) -> Any:
    """Return a column of binaries: the Example, or SequenceExample, that has these columns of a row as features.

        df.select(to_example("label", "image").alias("value"))

    Nulls are missing features. Raises SchemaError, in the query, for types that records cannot have.
    """
    kind = record_type_of(record_type)

    def encoded(rows: pa.Array) -> pa.Array:
        batch = pa.RecordBatch.from_struct_array(rows)
        return encode_batch(batch, kind).cast(pa.binary())

    return functions.arrow_udf(encoded, BinaryType())(functions.struct(*columns))

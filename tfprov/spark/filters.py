"""Filters of Spark's as predicates of Arrow columns, where both mean the same."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "EqualTo": pc.equal,
    "GreaterThan": pc.greater,
    "GreaterThanOrEqual": pc.greater_equal,
    "LessThan": pc.less,
    "LessThanOrEqual": pc.less_equal,
}
_TEXT: dict[str, Callable[[Any, str], Any]] = {
    "StringStartsWith": pc.starts_with,
    "StringEndsWith": pc.ends_with,
    "StringContains": pc.match_substring,
}


@dataclass(frozen=True)
class Predicate:
    """A filter of one column. A row passes where it is true: false and null do not pass."""

    name: str
    kind: str
    value: Any
    negated: bool

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Return for each row of a batch whether it passes."""
        return self.passes(batch.column(batch.schema.names.index(self.name)))

    def passes(self, array: pa.Array) -> pa.Array:
        """Return for each value whether it passes."""
        result = self._compared(array)
        return pc.fill_null(pc.invert(result) if self.negated else result, fill_value=False)

    def _compared(self, array: pa.Array) -> pa.Array:
        if self.kind == "IsNull":
            return pc.is_null(array)
        if self.kind == "IsNotNull":
            return pc.is_valid(array)
        if self.kind == "In":
            return pc.if_else(pc.is_valid(array), pc.is_in(array, pa.array(self.value, array.type)), None)
        if self.kind in _TEXT:
            return _TEXT[self.kind](array, self.value)
        return _COMPARISONS[self.kind](array, pa.scalar(self.value, array.type))


def predicate_of(spark_filter: "datasource.Filter", schema: pa.Schema) -> Predicate | None:
    """Return a filter as a predicate, or None for one that Spark has to test.

    Floats are left to Spark, where NaN is equal to itself and greater than all numbers; so are lists and decimals.
    """
    negated = isinstance(spark_filter, datasource.Not)
    inner = spark_filter.child if negated else spark_filter
    kind = type(inner).__name__
    path: tuple[str, ...] = getattr(inner, "attribute", ())
    if len(path) != 1 or path[0] not in schema.names:
        return None
    if kind in ("IsNull", "IsNotNull"):
        return Predicate(path[0], kind, None, negated)
    data_type = schema.field(path[0]).type
    if kind not in (*_COMPARISONS, *_TEXT, "In") or not _is_simple(data_type):
        return None
    value = inner.value
    return Predicate(path[0], kind, value, negated) if _fits(value, data_type, kind) else None


def _is_simple(data_type: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_integer(data_type)
        or types.is_boolean(data_type)
        or types.is_string(data_type)
        or types.is_date32(data_type)
    )


def _fits(value: Any, data_type: pa.DataType, kind: str) -> bool:
    values = value if kind == "In" else (value,)
    if any(each is None for each in values) or (kind in _TEXT and not pa.types.is_string(data_type)):
        return False
    try:
        pa.array(values, data_type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return False
    return True


def is_kept(predicate: Predicate, values: Mapping[str, pa.Array]) -> bool:
    """Whether the one value of a partition column passes."""
    return predicate.name not in values or bool(predicate.passes(values[predicate.name])[0].as_py())

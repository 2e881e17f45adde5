"""Directories named `key=value`: what they say about the rows below them, as Spark and Hive name them."""

import datetime
import re
from collections.abc import Iterable, Sequence
from urllib.parse import unquote

import pyarrow as pa

from tfprov.errors import printable
from tfprov.tfrecord.errors import SchemaError

NULL = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = frozenset("\"#%'*/:=?\\{}[]^\x7f") | {chr(code) for code in range(32)}
"""The characters that Spark writes as a percent sign and two digits."""
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_FLOAT = re.compile(r"-?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][+-]?[0-9]+)?")
"""What Arrow reads as a number, too: no plus, and no digits of other scripts."""

Value = str | None
Pair = tuple[str, Value]


def directory(names: Sequence[str], values: Sequence[Value]) -> str:
    """Return the path of a partition below its table, such as `day=2026-01-01/label=1`."""
    return "/".join(f"{_escape(name)}={_escape(NULL if value in (None, '') else str(value))}"
                    for name, value in zip(names, values, strict=True))  # fmt: skip


def _escape(text: str) -> str:
    return "".join(f"%{ord(letter):02X}" if letter in _ESCAPED else letter for letter in text)


def pair_of(segment: str) -> Pair | None:
    """Return what a directory's name says, or None for one that is no partition."""
    name, equals, value = segment.partition("=")
    if not name or not equals:
        return None
    return unquote(name), None if value == NULL else unquote(value)


def keys_of(files: Iterable[tuple[str, Sequence[Pair]]]) -> tuple[str, ...]:
    """Return the names of the partition columns of all files; raises SchemaError where they differ."""
    first: tuple[str, tuple[str, ...]] | None = None
    for file, pairs in files:
        keys = tuple(name for name, _ in pairs)
        if first is None:
            first = file, keys
        elif keys != first[1]:
            what = f"partitions differ: {first[0]} has ({', '.join(first[1])}), and {file} has ({', '.join(keys)})"
            raise SchemaError(what, "load directories of one form, or set the option basePath or recursiveFileLookup")
    return first[1] if first else ()


def type_of(values: Iterable[Value], *, infer: bool) -> pa.DataType:
    """Return the narrowest type for all values of a column: int32, int64, double, date, or string."""
    present = [value for value in values if value is not None]
    if not infer or not present:
        return pa.string()
    if all(map(_INTEGER.fullmatch, present)) and all(-(2**63) <= int(value) < 2**63 for value in present):
        return pa.int32() if all(-(2**31) <= int(value) < 2**31 for value in present) else pa.int64()
    if all(map(_FLOAT.fullmatch, present)):
        return pa.float64()
    return pa.date32() if all(map(_is_date, present)) else pa.string()


def _is_date(text: str) -> bool:
    try:
        return len(text) == 10 and bool(datetime.date.fromisoformat(text))
    except ValueError:
        return False


def column(name: str, value: Value, data_type: pa.DataType, rows: int) -> pa.Array:
    """Return a column that has one value in all rows; raises SchemaError for a value that is not of the type."""
    try:
        scalar = pa.scalar(value, pa.string()).cast(data_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        what = f"partition {printable(name)}={printable(value)} is not {data_type}"
        raise SchemaError(what, "name another type in the schema, such as STRING") from None
    return pa.repeat(scalar, rows)

"""`write`: a DataFrame to TFRecord files with all modes of Spark's, and partitions."""

import json
from collections.abc import Sequence
from typing import Any

from tfprov.errors import one_line, printable
from tfprov.spark.options import LOCALITIES, absolute, hadoop_codec
from tfprov.spark.schemas import is_vector
from tfprov.spark.source import NAME, register
from tfprov.spark.storage import Storage
from tfprov.tfrecord.column_types import EXAMPLE, record_type_of
from tfprov.tfrecord.errors import SchemaError, column_label
from tfprov.tfrecord.files import FileError

MODES = {"error": "error", "errorifexists": "error", "default": "error", "ignore": "ignore", "append": "append",
         "overwrite": "overwrite"}  # fmt: skip
_PARTITION_MODE = "spark.sql.sources.partitionOverwriteMode"


def write(  # noqa: PLR0913  every one has a default
    df: Any,
    path: str,
    *,
    mode: str = "error",
    partition_by: str | Sequence[str] = (),
    codec: str = "",
    record_type: str = EXAMPLE,
    write_locality: str = "distributed",
) -> None:
    """Write a DataFrame as a directory of TFRecord files, one or more for each of its partitions.

    `mode` is error (the default), ignore, append or overwrite. `partition_by` names columns that become directories
    `key=value`. `codec` is none, gzip, zlib or a class of Hadoop's. With `write_locality="local"`, each executor writes
    to its own disk: modes other than error and append are refused, since nobody sees all of these disks.

    Raises FileError where the path exists, and SchemaError for columns and options that record files cannot have.
    """
    mode = _mode(mode, write_locality)
    names = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
    _check_partitions(df.columns, names)
    path = absolute(path)
    options = {"recordType": record_type_of(record_type), "codec": hadoop_codec(codec), "writeLocality": write_locality}
    if write_locality != "local" and mode in ("error", "ignore") and _exists(path):
        if mode == "ignore":
            return
        raise FileError(f"{one_line(path)}: the path exists", "use mode=`append` or `overwrite`, or another path")
    spark = df.sparkSession
    register(spark)
    options["partitionOverwriteMode"] = str(spark.conf.get(_PARTITION_MODE, "static"))
    rows = _without_vectors(df)
    if names:
        options["partitionBy"] = json.dumps(names)
        rows = rows.sortWithinPartitions(*(f"`{name.replace('`', '``')}`" for name in names))
    rows.write.format(NAME).options(**options).mode("overwrite" if mode == "overwrite" else "append").save(path)


def _mode(name: str, locality: str) -> str:
    mode = MODES.get(name.lower())
    if mode is None:
        raise SchemaError(f"unknown mode `{printable(name)}`", "use error, ignore, append or overwrite")
    if locality not in LOCALITIES:
        raise SchemaError(f"unknown write_locality `{printable(locality)}`", f"use {' or '.join(LOCALITIES)}")
    if locality == "local" and mode not in ("error", "append"):
        raise SchemaError(
            f"mode `{mode}` and write_locality `local` exclude each other", "remove the files on each host"
        )
    return mode


def _check_partitions(columns: Sequence[str], names: Sequence[str]) -> None:
    for name in names:
        if name not in columns:
            raise SchemaError(
                f"there is no {column_label(name)} to partition by", f"the columns are {', '.join(columns)}"
            )
    if names and set(names) == set(columns):
        raise SchemaError("all columns are partition columns", "leave one for the records")
    if len(set(names)) < len(names):
        raise SchemaError("partition_by names a column twice")


def _exists(path: str) -> bool:
    storage = Storage(path)
    return storage.info(storage.root) is not None


def _without_vectors(df: Any) -> Any:
    """Return the DataFrame with vectors of Spark's ML as lists: batches of Arrow have no vectors."""
    names = [field.name for field in df.schema if is_vector(field.dataType)]
    if not names:
        return df
    from pyspark.ml.functions import vector_to_array  # noqa: PLC0415  needs all of Spark's ML

    return df.withColumns({name: vector_to_array(df[name]) for name in names})

"""The data source `tfrecord`, as Spark knows it."""

from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
)
from pyspark.sql.types import StructType

from tfprov.spark.listing import listed
from tfprov.spark.options import parse
from tfprov.spark.reader import BatchReader, FilteringReader
from tfprov.spark.schemas import inferred
from tfprov.spark.streaming import AvailableNowReader, StreamWriter
from tfprov.spark.writer import BatchWriter

NAME = "tfrecord"
_FILTERS = "spark.sql.python.filterPushdown.enabled"


class TfRecordSource(DataSource):
    """TFRecord files as a table."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return NAME

    def schema(self) -> StructType:
        """Return the schema of all files, in a pass over them."""
        options = parse(self.options)
        return inferred(listed(options), options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the files there are."""
        return BatchReader(parse(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return what writes a DataFrame."""
        return BatchWriter(parse(self.options), schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        """Return what reads the files that appear."""
        return AvailableNowReader(parse(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Return what writes micro-batches."""
        return StreamWriter(parse(self.options), schema)


class FilteringSource(TfRecordSource):
    """The same for sessions that push filters into Python sources."""

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the files there are, and tests filters."""
        return FilteringReader(parse(self.options), schema)


def register(spark: Any) -> None:
    """Make the format `tfrecord` known to a SparkSession, in place of one that has that name.

    Filters reach the source only if the session has `spark.sql.python.filterPushdown.enabled` now: Spark refuses a source
    that takes filters where it is off, so call `register` again after changing it.
    """
    enabled = str(spark.conf.get(_FILTERS, "false")).lower() == "true"
    spark.dataSource.register(FilteringSource if enabled else TfRecordSource)

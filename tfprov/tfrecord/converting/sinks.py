"""What a conversion writes: one file of a format, row by row."""

import gzip
import json
from contextlib import ExitStack
from dataclasses import dataclass
from typing import BinaryIO, Protocol

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from tfprov.errors import printable
from tfprov.tfrecord.column_types import columns_of
from tfprov.tfrecord.compression import codec_of, compressor
from tfprov.tfrecord.converting.formats import CSV, JSON, NUMPY, PARQUET, TFRECORD
from tfprov.tfrecord.converting.json_lines import plain
from tfprov.tfrecord.converting.numpy_files import NumpySink
from tfprov.tfrecord.encode import encode_batch
from tfprov.tfrecord.errors import SchemaError, column_label
from tfprov.tfrecord.framing import framed
from tfprov.tfrecord.writing import pieces

_PARQUET = ("none", "snappy", "gzip", "zstd", "brotli", "lz4")


class Sink(Protocol):
    """A file that is being written."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch."""

    def finish(self) -> None:
        """Write what is left; the file is not closed."""


def codec_for(name: str, path: str, option: str | None) -> str:
    """Return the compression of a format: what `option` names, else by the path's extension; raises SchemaError."""
    option = None if option is None else option.lower()
    if name == TFRECORD:
        return codec_of(path, option)
    if name == PARQUET:
        codec = "snappy" if option in (None, "auto") else str(option)
        return _one_of(codec, _PARQUET, option)
    if name in (CSV, JSON):
        by_name = "gzip" if path.lower().endswith((".gz", ".gzip")) else "none"
        return _one_of(by_name if option in (None, "auto") else str(option), ("none", "gzip"), option)
    return _one_of("none" if option in (None, "auto") else str(option), ("none",), option)


def _one_of(codec: str, codecs: tuple[str, ...], option: str | None) -> str:
    if codec not in codecs:
        raise SchemaError(f"unknown compression `{printable(option)}` for this format", f"use {', '.join(codecs)}")
    return codec


@dataclass(frozen=True)
class Form:
    """How files are written: format, compression, and the record type of record files."""

    format: str
    codec: str
    record_type: str


def sink(form: Form, stream: BinaryIO, path: str, schema: pa.Schema, stack: ExitStack) -> Sink:
    """Return a file in `stream`; `stack` closes its temporary files. Raises SchemaError for columns that it cannot have."""
    if form.format == TFRECORD:
        return _RecordSink(stream, schema, form)
    if form.format == PARQUET:
        return _ParquetSink(stream, schema, form.codec, stack)
    if form.format == NUMPY:
        return NumpySink(stream, path, schema, stack)
    return (_CsvSink if form.format == CSV else _JsonSink)(stream, schema, form.codec)


class _RecordSink:
    def __init__(self, stream: BinaryIO, schema: pa.Schema, form: Form) -> None:
        columns_of(schema, form.record_type)
        self._record_type = form.record_type
        self._write, self._finish = compressor(stream, form.codec)

    def write(self, batch: pa.RecordBatch) -> None:
        for piece in pieces(batch, self._record_type):
            self._write(framed(encode_batch(piece, self._record_type)))

    def finish(self) -> None:
        self._finish()


class _ParquetSink:
    def __init__(self, stream: BinaryIO, schema: pa.Schema, codec: str, stack: ExitStack) -> None:
        self._file = pa.PythonFile(stream, mode="w")
        self._writer = pq.ParquetWriter(self._file, schema, compression=codec)
        # After an error the stream is closed: the writer would print a traceback when it is collected.
        stack.callback(setattr, self._writer, "is_open", False)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def finish(self) -> None:
        self._writer.close()


class _Text:
    """A stream of text, compressed or not."""

    def __init__(self, stream: BinaryIO, codec: str) -> None:
        self._gzip = None
        if codec == "gzip":  # without the time, so that the same rows are the same bytes
            self._gzip = gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0)
        self.out: BinaryIO = stream if self._gzip is None else self._gzip  # type: ignore[assignment]

    def close(self) -> None:
        if self._gzip is not None:
            self._gzip.close()


class _CsvSink:
    """Binary values are written in base64, as in JSON."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema, codec: str) -> None:
        for field in schema:
            if pa.types.is_nested(field.type):
                what = f"{column_label(field.name)} has lists, which CSV files have not"
                raise SchemaError(what, "leave it out with --columns, or write JSON lines or Parquet")
        self._text = _Text(stream, codec)
        self._schema = pa.schema([(f.name, pa.string() if _is_binary(f.type) else f.type) for f in schema])
        self._file = pa.PythonFile(self._text.out, mode="w")
        self._writer = pc.CSVWriter(self._file, self._schema)

    def write(self, batch: pa.RecordBatch) -> None:
        arrays = [
            pa.array(plain(array.to_pylist()), pa.string()) if _is_binary(array.type) else array
            for array in batch.columns
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def finish(self) -> None:
        self._writer.close()
        self._text.close()


def _is_binary(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_binary(data_type) or pa.types.is_large_binary(data_type))


class _JsonSink:
    def __init__(self, stream: BinaryIO, schema: pa.Schema, codec: str) -> None:
        self._text = _Text(stream, codec)

    def write(self, batch: pa.RecordBatch) -> None:
        lines = (json.dumps(plain(row), ensure_ascii=False) for row in batch.to_pylist())
        self._text.out.write("".join(f"{line}\n" for line in lines).encode())

    def finish(self) -> None:
        self._text.close()

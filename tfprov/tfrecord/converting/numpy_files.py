"""NumPy's files: .npy is one column, or the fields of a structured array; .npz has a column for each array.

The first dimension is the rows; the others are one list for each row. Arrays are read and written in pieces.
"""

import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from tokenize import TokenError
from typing import IO, Any, BinaryIO

import numpy as np
import pyarrow as pa

from tfprov.errors import one_line
from tfprov.tfrecord.converting.source import BATCH_BYTES, ROWS, Looked, Source, chosen
from tfprov.tfrecord.errors import SchemaError, column_label
from tfprov.tfrecord.files import FileError, opened

VALUE = "value"
"""The column of a .npy file without fields."""
Array = np.ndarray[Any, np.dtype[Any]]


class _Stored:
    """An array in a stream, behind its header."""

    def __init__(self, name: str, stream: IO[bytes]) -> None:
        self.name, self._stream = name, stream
        version = np.lib.format.read_magic(stream)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        self.shape, fortran, self.dtype = read_header(stream)
        if min(self.shape, default=0) < 0:
            raise ValueError(f"array `{name}` has the shape {self.shape}")
        if not self.shape or self.dtype.hasobject or (fortran and len(self.shape) > 1):
            raise ValueError(
                f"array `{name}` "
                + (
                    "has objects"
                    if self.dtype.hasobject
                    else "has no rows"
                    if not self.shape
                    else "is in Fortran's order"
                )
            )
        self.row = int(np.prod(self.shape[1:], dtype=np.int64))

    def next(self, rows: int) -> Array:
        size = rows * self.row * self.dtype.itemsize
        data = bytearray()
        while len(data) < size:
            more = self._stream.read(min(size - len(data), 1 << 20))
            if not more:
                raise ValueError(f"array `{self.name}` ends too early")
            data += more
        return np.frombuffer(data, self.dtype).reshape(rows, *self.shape[1:])

    def columns(self, rows: int) -> dict[str, pa.Array]:
        values = self.next(rows)
        if self.dtype.names:
            return {name: _column(values[name]) for name in self.dtype.names}
        return {self.name: _column(values)}


def _column(values: Array) -> pa.Array:
    values = np.ascontiguousarray(values)
    flat = values.reshape(-1)
    flat = flat.astype(flat.dtype.newbyteorder("="), copy=False)
    items = pa.array(flat.tolist() if flat.dtype.kind in "US" else flat)
    if values.ndim == 1:
        return items
    size = int(np.prod(values.shape[1:], dtype=np.int64))
    return pa.ListArray.from_arrays(pa.array(np.arange(len(values) + 1, dtype=np.int32) * np.int32(size)), items)


@contextmanager
def _arrays(file: str) -> Iterator[list[_Stored]]:
    with ExitStack() as stack, opened(file) as stream:
        try:
            if stream.read(2) == b"PK":
                stream.seek(0)
                archive = stack.enter_context(zipfile.ZipFile(stream))
                arrays = [
                    _Stored(n.removesuffix(".npy"), stack.enter_context(archive.open(n))) for n in archive.namelist()
                ]
            else:
                stream.seek(0)
                arrays = [_Stored(VALUE, stream)]
            yield _same_rows(arrays)
        # Arrow has no complex numbers, and NumPy's parser of headers does not expect every damage.
        except (ValueError, OSError, zipfile.BadZipFile, pa.ArrowException, TokenError) as error:
            raise FileError(
                f"{one_line(file)}: it is no NumPy file with columns: {one_line(str(error))[:160]}"
            ) from error


def _same_rows(arrays: list[_Stored]) -> list[_Stored]:
    if len({array.shape[0] for array in arrays}) > 1:
        lengths = ", ".join(f"{array.name}: {array.shape[0]}" for array in arrays)
        raise ValueError(f"its arrays have different numbers of rows ({lengths})")
    return arrays


def numpy_source(files: Sequence[str], columns: list[str] | None, looked: Looked) -> Source:
    """Return .npy and .npz files; no pickled objects are read."""
    schema, rows, size = None, 0, 0
    for file in files:
        with _arrays(file) as arrays:
            own = pa.schema(
                [(name, each.type) for array in arrays for name, each in array.columns(min(1, array.shape[0])).items()]
            )
            if schema is not None and own != schema:
                raise SchemaError(
                    f"{one_line(file)}: its columns are not those of {one_line(files[0])}", "convert it by itself"
                )
            schema = own
            rows += arrays[0].shape[0] if arrays else 0
            size += sum(array.shape[0] * array.row * array.dtype.itemsize for array in arrays)
            looked(rows)
    names = chosen(schema.names if schema is not None else [], columns)
    fields = pa.schema([schema.field(name) for name in names] if schema is not None else [])

    def batches() -> Iterator[pa.RecordBatch]:
        for file in files:
            with _arrays(file) as arrays:
                left = arrays[0].shape[0] if arrays else 0
                width = sum(array.row * array.dtype.itemsize for array in arrays)
                step = max(1, min(ROWS, BATCH_BYTES // max(width, 1)))
                while left:
                    count = min(step, left)
                    values = {name: each for array in arrays for name, each in array.columns(count).items()}
                    yield pa.RecordBatch.from_arrays([values[name] for name in names], schema=fields)
                    left -= count

    return Source(fields, rows, size, batches)


class NumpySink:
    """Writes .npz, or .npy for the one column there is.

    Each column is collected in a file without a name, which `stack` closes.
    A column is numbers, or lists of numbers of one length; a null of floats is NaN. Strings are kept in memory: the
    longest one decides the type.
    """

    def __init__(self, stream: BinaryIO, path: str, schema: pa.Schema, stack: ExitStack) -> None:
        self._stream, self._one = stream, path.lower().endswith(".npy")
        if self._one and len(schema) != 1:
            raise SchemaError(
                f"a .npy file has one column, and there are {len(schema)}", "write .npz, or use --columns"
            )
        self._columns = [_Collected(field.name, field.type, stack) for field in schema]

    def write(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch."""
        for column, array in zip(self._columns, batch.columns, strict=True):
            column.add(array)

    def finish(self) -> None:
        """Write the file."""
        if self._one:
            self._columns[0].save(self._stream)
            return
        with zipfile.ZipFile(self._stream, "w", allowZip64=True) as archive:
            for column in self._columns:
                with archive.open(f"{column.name}.npy", "w", force_zip64=True) as member:
                    column.save(member)


class _Collected:
    def __init__(self, name: str, data_type: pa.DataType, stack: ExitStack) -> None:
        self.name = name
        while pa.types.is_nested(data_type) and hasattr(data_type, "value_type"):  # a structure has none
            data_type = data_type.value_type
        types = pa.types
        self._text = types.is_string(data_type) or types.is_large_string(data_type)
        if not (
            self._text or types.is_integer(data_type) or types.is_floating(data_type) or types.is_boolean(data_type)
        ):
            what = f"{column_label(name)} has the type {data_type}, which NumPy files have not"
            raise SchemaError(what, "leave it out with --columns, or write Parquet")
        self._file = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115  it is entered
        self._texts: list[str] = []
        self._rows = 0
        self._inner: tuple[int, ...] | None = None
        self._dtype = np.dtype(str if self._text else data_type.to_pandas_dtype())

    def add(self, array: pa.Array) -> None:
        inner: tuple[int, ...] = ()
        rows = len(array)
        while pa.types.is_nested(array.type):
            sizes = set(array.value_lengths().to_pylist())
            if len(sizes) > 1 or None in sizes:
                raise SchemaError(
                    f"{column_label(self.name)} has lists of different lengths, which NumPy files have not",
                    "leave it out with --columns, or write Parquet",
                )
            inner += (sizes.pop() if sizes else 0,)
            array = array.flatten()
        if rows and self._inner not in (None, inner):
            raise SchemaError(f"{column_label(self.name)} has lists of different lengths", "write Parquet")
        self._inner = inner if rows else self._inner
        if array.null_count and not pa.types.is_floating(array.type):
            raise SchemaError(f"{column_label(self.name)} has nulls, which NumPy files have not", "write Parquet")
        if self._text:
            self._texts += array.to_pylist()
        else:
            self._file.write(np.ascontiguousarray(array.to_numpy(zero_copy_only=False), self._dtype).tobytes())
        self._rows += rows

    def save(self, stream: IO[bytes]) -> None:
        shape = (self._rows, *(self._inner or ()))
        if self._text:
            np.lib.format.write_array(stream, np.array(self._texts, str).reshape(shape), allow_pickle=False)
            return
        header = {"descr": np.lib.format.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, header)
        self._file.seek(0)
        while data := self._file.read(1 << 20):
            stream.write(data)

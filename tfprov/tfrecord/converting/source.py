"""What a conversion reads: a schema, the number of its rows, and its rows as often as they are needed."""

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from tfprov.errors import one_line
from tfprov.tfrecord.errors import SchemaError, column_label
from tfprov.tfrecord.files import FileError, opened

ROWS = 8192
"""Rows read at a time."""
BATCH_BYTES = 16 << 20
"""Bytes read at a time, about, where a row's size is known before."""
Looked = Callable[[int], None]
"""Called with the number of rows that the first pass has looked at."""


@dataclass(frozen=True)
class Source:
    """Rows of files. `size` is the number of their bytes in memory, about; `batches()` reads them from the beginning."""

    schema: pa.Schema
    rows: int
    size: int
    batches: Callable[[], Iterator[pa.RecordBatch]]


def chosen(names: list[str], columns: list[str] | None) -> list[str]:
    """Return the columns that are asked for; raises SchemaError for one that there is not."""
    for name in columns or ():
        if name not in names:
            raise SchemaError(f"there is no {column_label(name)}", f"the columns are {', '.join(names)}")
    return names if columns is None else list(dict.fromkeys(columns))


@contextmanager
def text_file(file: str) -> Iterator[BinaryIO]:
    """Open a text file, decompressed if its extension is that of gzip."""
    with opened(file) as raw:
        packed = file.lower().endswith((".gz", ".gzip"))
        stream: Any = gzip.GzipFile(fileobj=raw) if packed else raw
        try:
            yield io.BufferedReader(stream)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            what = f"{one_line(file)}: the gzip data is damaged ({one_line(str(error))})"
            raise FileError(what, "restore the file") from error


def size_of(stream: BinaryIO) -> int:
    """Return the number of bytes of a file that is open at its beginning."""
    size = stream.seek(0, 2)
    stream.seek(0)
    return size

"""Conversion between record files and other formats: rows of a source, shuffled or not, into files of a destination."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tfprov.atomic_write import sync
from tfprov.errors import one_line
from tfprov.tfrecord.column_types import EXAMPLE, record_type_of
from tfprov.tfrecord.converting.formats import (
    CSV,
    EXTENSIONS,
    IMAGES,
    JSON,
    NUMPY,
    PARQUET,
    TFRECORD,
    format_named,
    format_of,
    source_files,
)
from tfprov.tfrecord.converting.images import ImageSink, image_source
from tfprov.tfrecord.converting.json_lines import json_source
from tfprov.tfrecord.converting.numpy_files import numpy_source
from tfprov.tfrecord.converting.shuffling import shuffled
from tfprov.tfrecord.converting.sinks import Form, Sink, codec_for, sink
from tfprov.tfrecord.converting.source import Looked, Source
from tfprov.tfrecord.converting.sources import csv_source, parquet_source, record_source
from tfprov.tfrecord.errors import SchemaError
from tfprov.tfrecord.files import (
    SCHEME,
    FileError,
    PathLike,
    existing,
    is_shard,
    named,
    refuse_pipes,
    shard_paths,
    written,
)
from tfprov.tfrecord.reading import Damaged

Progress = Callable[[str, int, int | None], None]
"""Called with what is done (`reading`, `shuffling`, `writing`), the rows done, and how many there are if that is known."""
_SOURCES: dict[str, Callable[[list[str], list[str] | None, Looked], Source]] = {
    PARQUET: parquet_source,
    CSV: csv_source,
    JSON: json_source,
    NUMPY: numpy_source,
    IMAGES: image_source,
}
_CODEC_EXTENSIONS = {"gzip": ".gz", "zlib": ".zlib"}


@dataclass(frozen=True)
class Converted:
    """What a conversion wrote: its files, or the directory of images, and the number of records."""

    files: tuple[str, ...]
    records: int

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {"files": list(self.files), "records": self.records}


def convert(  # noqa: PLR0913  every one has a default
    source: PathLike | Iterable[PathLike],
    destination: PathLike,
    *,
    source_format: str | None = None,
    destination_format: str | None = None,
    shards: int | None = None,
    shuffle: bool = False,
    seed: int = 0,
    compression: str | None = None,
    record_type: str = EXAMPLE,
    columns: Iterable[str] | None = None,
    overwrite: bool = False,
    salvage: bool | Damaged = False,
    progress: Progress | None = None,
) -> Converted:
    """Convert files between TFRecord, Parquet, CSV, JSON lines, NumPy and a directory of images.

    Formats go by the extensions unless they are named. With `shards`, the destination is a directory, of TFRecord files
    unless another format is named, and each `part-00000-of-00010.tfrecord` and so on has the next part of the rows.
    `shuffle` puts the rows into an order that depends on `seed`. `compression` is that of the destination; the source's
    goes by its extension.

    What is there already is refused unless `overwrite`, and then replaced once the new files are whole. Raises TfprovError.
    """
    report = progress or (lambda _what, _done, _count: None)
    record_type = record_type_of(record_type)
    path = named(destination)
    form = _form(path, destination_format, shards is not None, compression, record_type)
    target = _target(path, form, shards, overwrite)
    kind, files = source_files(source, None if source_format is None else format_named(source_format))
    if kind != IMAGES:
        refuse_pipes(files)
    names = None if columns is None else list(columns)

    def looked(rows: int) -> None:
        report("reading", rows, None)

    if kind == TFRECORD:
        opened = record_source(files, names, looked, record_type, salvage)
    else:
        opened = _SOURCES[kind](files, names, looked)
    if not opened.schema.names:
        raise SchemaError(f"{one_line(files[0])}: there are no columns", "check the source")
    _refuse_own_source(target, files)
    rows = _rows(opened, seed if shuffle else None, target.directory, report)
    _write(_counted(rows, opened.rows, files[0], report), opened, target)
    return Converted(tuple(target.files), opened.rows)


@dataclass(frozen=True)
class _Target:
    """Where a conversion writes to. `old` are files of another conversion, which are removed at the end."""

    form: Form
    files: list[str]
    old: list[str]

    @property
    def directory(self) -> Path | None:
        """The directory beside which temporary files can lie: None for a file system of fsspec."""
        return None if SCHEME.match(self.files[0]) else Path(self.files[0]).resolve().parent


def _target(path: str, form: Form, shards: int | None, overwrite: bool) -> _Target:
    if form.format == IMAGES and (shards is not None or SCHEME.match(path)):
        what = "images are written into one directory of this machine"
        raise SchemaError(what, "leave --shards out, or name a directory")
    if shards is None:
        exists, is_directory = existing(path)
        if exists and not overwrite:
            raise FileError(f"{one_line(path)}: it exists", "name another destination, or pass --overwrite")
        if form.format != IMAGES and is_directory:
            raise FileError(f"{one_line(path)}: it is a directory", "name a file, or pass --shards")
        return _Target(form, [path], [])
    extension = EXTENSIONS[form.format] + ("" if form.format == PARQUET else _CODEC_EXTENSIONS.get(form.codec, ""))
    files, old = shard_paths(path, shards, extension)
    if old and not overwrite:
        raise FileError(f"{one_line(path)}: the directory has such files", "name another one, or pass --overwrite")
    return _Target(form, files, [file for file in old if is_shard(file) and file not in files])


def _form(path: str, named: str | None, sharded: bool, compression: str | None, record_type: str) -> Form:
    name = TFRECORD if sharded and named is None else named
    kind = format_of(path, "--to") if name is None else format_named(name)
    return Form(kind, codec_for(kind, "" if sharded else path, compression), record_type)


def _refuse_own_source(target: _Target, files: Iterable[str]) -> None:
    """Refuse a destination that would remove a source."""
    own = {os.path.realpath(file) for file in files}
    for file in (*target.files, *target.old):
        path = os.path.realpath(file)
        if path in own:
            raise FileError(f"{one_line(file)}: it is a source and the destination", "name another destination")
        if any(each.startswith(f"{path.rstrip('/')}/") for each in own):  # a directory of images is replaced whole
            raise FileError(f"{one_line(file)}: a source lies in it, and it is replaced", "name another destination")


def _rows(source: Source, seed: int | None, directory: Path | None, report: Progress) -> Iterator[pa.RecordBatch]:
    if seed is None:
        return source.batches()
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True)
    place = directory or Path(tempfile.gettempdir())
    return shuffled(source, seed, place, lambda done: report("shuffling", done, source.rows))


def _counted(rows: Iterator[pa.RecordBatch], count: int, first: str, report: Progress) -> Iterator[pa.RecordBatch]:
    """Yield the rows; raises FileError at their end, before anything is replaced, if there are not `count` of them."""
    done = 0
    for batch in rows:
        yield batch
        done += batch.num_rows
        report("writing", done, count)
    if done != count:
        what = f"{one_line(first)}: the sources had {count:,} records at first and {done:,} afterwards"
        raise FileError(what, "convert files that do not change meanwhile")


def _write(rows: Iterator[pa.RecordBatch], source: Source, target: _Target) -> None:
    if target.form.format == IMAGES:
        with _new_directory(Path(target.files[0])) as directory:
            images = ImageSink(directory, source.schema)
            for batch in rows:
                images.write(batch)
        return
    with ExitStack() as stack, written(target.files, target.old) as streams:
        sinks = [
            sink(target.form, stream, path, source.schema, stack)
            for path, stream in zip(target.files, streams, strict=True)
        ]
        _deal(rows, source.rows, sinks)


def _deal(rows: Iterator[pa.RecordBatch], count: int, sinks: list[Sink]) -> None:
    """Write the next part of the rows into each file."""
    number = done = 0
    for batch in rows:
        start = 0
        while start < len(batch):
            while done >= (end := count * (number + 1) // len(sinks)) and number < len(sinks) - 1:
                sinks[number].finish()
                number += 1
            some = batch.slice(start, end - done if number < len(sinks) - 1 else None)
            sinks[number].write(some)
            start, done = start + len(some), done + len(some)
    for each in sinks[number:]:
        each.finish()


@contextmanager
def _new_directory(path: Path) -> Iterator[Path]:
    """Yield a directory that becomes `path` once it is whole, in place of the one that is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{path.name[:100]}.", suffix=".part", dir=path.parent))
    try:
        yield new
        new.chmod(0o755)
        old = new.with_suffix(".old")
        if os.path.lexists(path):
            path.rename(old)
        new.rename(path)
        sync(path.parent)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(new, ignore_errors=True)

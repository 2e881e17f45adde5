"""The files that a read means, with their partitions: directories, files, patterns, and lists of them."""

import glob
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tfprov.errors import one_line
from tfprov.spark.options import Options
from tfprov.spark.partition_paths import Pair, keys_of, pair_of
from tfprov.spark.storage import Entry, Storage, is_hidden
from tfprov.tfrecord.errors import SchemaError
from tfprov.tfrecord.files import FileError


@dataclass(frozen=True)
class DataFile:
    """A file of records: its path as tfprov.tfrecord opens it, and what its directories say."""

    path: str
    size: int
    modified: float
    pairs: tuple[Pair, ...]


def listed(options: Options) -> list[DataFile]:
    """Return the files of all paths; raises FileError for a path that is not there."""
    if not options.paths:
        raise SchemaError("there is no path to read", "use .load(path)")
    files = [file for path in options.paths for file in _files(path, options)]
    keys_of((file.path, file.pairs) for file in files)
    return files


def _files(path: str, options: Options) -> list[DataFile]:
    storage = Storage(path)
    entry = storage.info(storage.root)
    if entry is not None:
        starts = [entry]
    elif glob.has_magic(storage.root):
        matches = (storage.info(name) for name in storage.glob(storage.root))
        starts = [match for match in matches if match is not None and not is_hidden(match.name)]
    else:
        starts = []
    if not starts:
        raise FileError(f"{one_line(path)}: there are no files", "check the path")
    files = [file for start in starts for file in _below(storage, start, options)]
    return list({file.path: file for file in reversed(files)}.values())[
        ::-1
    ]  # `**` matches directories and their files


def _below(storage: Storage, start: Entry, options: Options) -> Iterator[DataFile]:
    base = Storage(options.base_path).root if options.base_path else start.name
    if not start.is_directory:
        yield _data_file(storage, start, _pairs(start.name.rpartition("/")[0], base, options))
        return
    directories = [start]
    while directories:
        directory = directories.pop()
        pairs = _pairs(directory.name, base, options)
        inner = [entry for entry in storage.entries(directory.name) if not is_hidden(entry.name)]
        yield from (_data_file(storage, entry, pairs) for entry in inner if not entry.is_directory)
        directories += [entry for entry in reversed(inner) if entry.is_directory and _is_read(entry.name, options)]


def _is_read(directory: str, options: Options) -> bool:
    return options.recursive or pair_of(directory.rpartition("/")[2]) is not None


def _pairs(directory: str, base: str, options: Options) -> tuple[Pair, ...]:
    """Return the partition of a directory: what its path below `base` says."""
    base = base.rstrip("/")
    if options.recursive or not directory.startswith(f"{base}/"):
        return ()
    return _present(pair_of(segment) for segment in directory[len(base) + 1 :].split("/"))


def _present(pairs: Iterable[Pair | None]) -> tuple[Pair, ...]:
    return tuple(pair for pair in pairs if pair is not None)


def _data_file(storage: Storage, entry: Entry, pairs: tuple[Pair, ...]) -> DataFile:
    return DataFile(storage.url(entry.name), entry.size, entry.modified, pairs)

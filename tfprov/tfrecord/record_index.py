"""An index of where the records of a file begin, by which several tasks can share the file.

`_NAME.idx` lies beside the file `NAME`: a line `OFFSET SIZE` for each record, or for some and the last one,
as NVIDIA's DALI has it. Readers pass over names that begin with `_`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tfprov.errors import one_line
from tfprov.tfrecord.compression import codec_of
from tfprov.tfrecord.errors import SALVAGE, DamagedFile, SchemaError
from tfprov.tfrecord.files import expand, written
from tfprov.tfrecord.framing import MAX_RECORD_BYTES, Block
from tfprov.tfrecord.reading import Paths, blocks

_HEADER, _FRAME = 12, 16
_CONVERT = "restore the file, or write the records before it into another with `tfprov records convert --salvage`"


@dataclass(frozen=True)
class Indexed:
    """A file, its index, and how many records both have."""

    file: str
    index: str
    records: int
    entries: int


def index_path(file: str) -> str:
    """Return the name of the index of a file."""
    directory, slash, name = file.rpartition("/")
    return f"{directory}{slash}_{name}.idx"


def write_index(path_or_paths: Paths, *, every: int = 1, max_record_bytes: int = MAX_RECORD_BYTES) -> list[Indexed]:
    """Write the index of each file, with every `every`th record; all checksums are verified meanwhile.

    Raises DamagedFile, and SchemaError for a compressed file, which cannot be read from its middle.
    """
    if every < 1:
        raise SchemaError(f"every must be at least 1, not {every}")
    try:
        return [_write(file, every, max_record_bytes) for file in expand(path_or_paths)]
    except DamagedFile as error:  # an index of a part would leave the rest out silently: nothing is salvaged here
        if error.fix != SALVAGE:
            raise
        raise DamagedFile(error.file, error.offset, error.record, error.reason, _CONVERT) from None


def _write(file: str, every: int, max_record_bytes: int) -> Indexed:
    if codec_of(file, None) != "none":
        raise SchemaError(f"{one_line(file)}: a compressed file cannot be indexed", "write it without compression")
    records = entries = 0
    path = index_path(file)
    last = ""
    with written([path]) as (stream,):
        for block in blocks([file], "none", max_record_bytes, salvage=False):
            for line in _lines(block):
                last = line if records % every else ""
                if not last:
                    stream.write(line.encode())
                    entries += 1
                records += 1
        if last:
            stream.write(last.encode())
            entries += 1
    return Indexed(file, path, records, entries)


def _lines(block: Block) -> Iterator[str]:
    offsets = block.offset + block.starts - _HEADER
    sizes = block.ends - block.starts + np.int64(_FRAME)
    return (f"{offset} {size}\n" for offset, size in zip(offsets.tolist(), sizes.tolist(), strict=True))

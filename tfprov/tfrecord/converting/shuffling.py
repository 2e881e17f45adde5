"""Rows in random order, with memory bounded by a bucket: the same seed and source give the same order.

Every row goes into a random one of some temporary files, and each file is then shuffled in memory, one after the other: all
orders are equally likely. Neither step depends on how the rows are cut into batches.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from tfprov.tfrecord.converting.source import ROWS, Source

BUCKET_BYTES = 64 << 20
"""Bytes of a bucket in memory, about."""
_MOST = 256


def shuffled(source: Source, seed: int, directory: Path, done: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a source in random order; temporary files lie in `directory` for the time.

    `done` is called with the number of rows that are in temporary files.
    """
    dice = np.random.Generator(np.random.PCG64(seed))
    count = max(1, min(-(-source.size // BUCKET_BYTES), _MOST))
    if count == 1:
        yield from _in_random_order(pa.Table.from_batches(source.batches(), source.schema), dice)
        return
    with tempfile.TemporaryDirectory(prefix=".shuffle.", dir=directory) as name:
        files = [Path(name) / str(number) for number in range(count)]
        _scatter(source, files, dice, done)
        for file in files:
            with pa.OSFile(str(file)) as stream:
                table = pa.ipc.open_stream(stream).read_all()
            file.unlink()
            yield from _in_random_order(table, dice)


def _scatter(source: Source, files: list[Path], dice: np.random.Generator, done: Callable[[int], None]) -> None:
    streams = [pa.OSFile(str(file), "wb") for file in files]
    writers = [pa.ipc.new_stream(stream, source.schema) for stream in streams]
    rows = 0
    try:
        for batch in source.batches():
            # One number between 0 and 1 for each row, however many rows a batch has.
            buckets = (dice.random(len(batch)) * len(files)).astype(np.int64)
            for number in np.unique(buckets).tolist():
                writers[number].write_batch(batch.take(pa.array(np.flatnonzero(buckets == number))))
            rows += len(batch)
            done(rows)
    finally:
        for writer, stream in zip(writers, streams, strict=True):
            writer.close()
            stream.close()


def _in_random_order(table: pa.Table, dice: np.random.Generator) -> Iterator[pa.RecordBatch]:
    order = np.argsort(dice.random(len(table)), kind="stable")
    for start in range(0, len(table), ROWS):
        some = table.take(pa.array(order[start : start + ROWS])).combine_chunks()
        yield from some.to_batches()

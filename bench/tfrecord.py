"""How fast record files are decoded and encoded, on one core, beside other readers and writers.

Each contender is a process of its own that measures itself. The package `tfrecord`, in the peers' environment, decodes
records to dictionaries of arrays and verifies no checksum; the reader of `tfprov.formats.tfrecord` verifies checksums and
decodes nothing; TensorFlow is measured where it is installed.
"""

import importlib.util
import os
import statistics
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .measure import Figure, Ran, alone, environment, in_turn, itself, say

ROWS = 100_000
DECODE, ENCODE = 400_000, 350_000
"""The goals, in rows per second."""
TIMES = 15
"""The goal beside the package `tfrecord`: so many times its speed."""
_SELF = "bench.tfrecord"
_INCLUDES = (
    f"{ROWS} Examples of 10 features (5 integers, 3 floats, 2 strings), some 210 bytes each, both checksums verified or "
    "written; not the interpreter's start and imports. The CPU time of each process, on one core"
)


def figures(rounds: int, peers: Path) -> list[Figure]:
    """Write a file, and let the contenders read it in turn; `peers` is where the peers' Python is."""
    say(f"{ROWS} records, {rounds} rounds")
    contenders = dict.fromkeys(("decode", "encode", "irregular", "sequences", "standard-library"), sys.executable)
    if (peers / "python").exists():
        contenders |= dict.fromkeys(("package-decode", "package-encode"), str(peers / "python"))
    if importlib.util.find_spec("tensorflow"):
        contenders["tensorflow"] = sys.executable
    with TemporaryDirectory() as directory:
        path = str(Path(directory) / "records")
        env = environment({"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}, Path(directory) / "byte-code")
        alone(_SELF, ["write", path], env)
        runs = in_turn(
            {name: partial(alone, _SELF, [name, path], env, python) for name, python in contenders.items()}, rounds
        )
    speeds = {name: _speed(each) for name, each in runs.items()}
    pairs = [("decode", "standard-library", DECODE), ("encode", "standard-library", ENCODE)]
    pairs += [("irregular", "decode", 0), ("sequences", "decode", 0), ("decode", "tensorflow", DECODE)]
    lines = [_figure(what, speeds, peer, goal) for what, peer, goal in pairs if peer in speeds]
    return lines + [_times(what, speeds) for what in ("decode", "encode") if f"package-{what}" in speeds]


def _speed(runs: Sequence[Ran]) -> float:
    return ROWS / statistics.median(run.cpu for run in runs)


def _figure(what: str, speeds: dict[str, float], peer: str, goal: int) -> Figure:
    ours, theirs = speeds[what], speeds[peer]
    return Figure(
        f"{what} records; {peer} reads", f"{ours / 1000:.0f} k rows/s", f"{theirs / 1000:.0f} k rows/s", ours / theirs,
        f">= {goal // 1000} k rows/s" if goal else "", ours >= goal if goal else None, includes=_INCLUDES,
    )  # fmt: skip


def _times(what: str, speeds: dict[str, float]) -> Figure:
    ours, theirs = speeds[what], speeds[f"package-{what}"]
    return Figure(
        f"{what} records; package tfrecord", f"{ours / 1000:.0f} k rows/s", f"{theirs / 1000:.1f} k rows/s", ours / theirs,
        f">= {TIMES} x", ours >= TIMES * theirs, includes=_INCLUDES,
    )  # fmt: skip


def main(arguments: Sequence[str]) -> None:
    """Be the process that measures itself."""
    what, path = arguments
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    parts = {"write": _write, "decode": _decode, "encode": _encode, "irregular": _irregular, "sequences": _sequences}
    peers = {"tensorflow": _tensorflow, "standard-library": _standard}
    peers |= {"package-decode": _package_decode, "package-encode": _package_encode}
    (parts | peers)[what](path)


def _columns() -> dict[str, list[int] | list[float] | list[str]]:
    rows = range(ROWS)
    return {
        "user_id": list(rows),
        "item_id": [row * 7 % 1000 for row in rows],
        "clicks": [row % 5 for row in rows],
        "label": [row % 2 for row in rows],
        "hour": [row % 24 for row in rows],
        "age": [row / 3 for row in rows],
        "price": [row / 7 for row in rows],
        "rating": [0.5] * ROWS,
        "country": ["US", "DE"] * (ROWS // 2),
        "name": [f"user-{row}" for row in rows],
    }


_KINDS = {"age": "float", "price": "float", "rating": "float", "country": "byte", "name": "byte"}
"""The kind of each column in the words of the package `tfrecord`; the others are integers."""


def _table() -> "object":
    import pyarrow as pa  # noqa: PLC0415

    columns = _columns()
    return pa.table({name: pa.array(values, _arrow_type(pa, name)) for name, values in columns.items()})


def _arrow_type(pa: Any, name: str) -> Any:
    return {"float": pa.float32(), "byte": pa.string()}.get(_KINDS.get(name, ""), pa.int64())


def _write(path: str) -> None:
    from tfprov.tfrecord.writing import write  # noqa: PLC0415

    table = _table()
    with itself():
        write(path, table)


def _encode(path: str) -> None:
    from tfprov.tfrecord.encode import encode_batch  # noqa: PLC0415
    from tfprov.tfrecord.framing import framed  # noqa: PLC0415
    from tfprov.tfrecord.reading import read_table  # noqa: PLC0415

    batches = read_table(path).to_batches(max_chunksize=8192)
    with itself():
        for batch in batches:
            framed(encode_batch(batch, "Example"))


def _decode(path: str) -> None:
    from tfprov.tfrecord.reading import infer_schema, read  # noqa: PLC0415

    schema = infer_schema(path)
    with itself():
        count = sum(batch.num_rows for batch in read(path, schema=schema))
    if count != ROWS:
        raise RuntimeError(f"{count} records instead of {ROWS}")


def _irregular(path: str) -> None:
    """Decode records that each have an unknown field, so that none is regular."""
    from tfprov.tfrecord.column_types import columns_of  # noqa: PLC0415
    from tfprov.tfrecord.decode import decode_block  # noqa: PLC0415
    from tfprov.tfrecord.framing import MAX_RECORD_BYTES  # noqa: PLC0415
    from tfprov.tfrecord.reading import blocks, infer_schema  # noqa: PLC0415

    columns = columns_of(infer_schema(path), "Example")
    some = [
        block.with_records([block.record(row) + b"\x28\x05" for row in range(len(block))])
        for block in blocks([path], None, MAX_RECORD_BYTES, False)
    ]
    with itself():
        for block in some:
            decode_block(block, columns, "Example")


def _sequences(path: str) -> None:
    from tfprov.tfrecord.reading import infer_schema, read  # noqa: PLC0415

    schema = infer_schema(path)
    with itself():  # an Example without feature lists is a SequenceExample with a context
        for _ in read(path, schema=schema, record_type="SequenceExample"):
            pass


def _package_decode(path: str) -> None:
    from tfrecord.reader import tfrecord_loader  # noqa: PLC0415

    description = {name: _KINDS.get(name, "int") for name in _columns()}
    with itself():
        count = sum(1 for _ in tfrecord_loader(path, None, description))
    if count != ROWS:
        raise RuntimeError(f"{count} records instead of {ROWS}")


def _package_encode(path: str) -> None:
    from tfrecord.writer import TFRecordWriter  # noqa: PLC0415

    columns = _columns()
    rows = [
        {name: (value.encode() if isinstance(value, str) else value, _KINDS.get(name, "int")) for name, value in row}
        for row in (list(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
    ]
    writer = TFRecordWriter(os.devnull)
    with itself():
        for row in rows:
            writer.write(row)


def _standard(path: str) -> None:
    from tfprov.formats.tfrecord import read_records  # noqa: PLC0415

    with itself(), Path(path).open("rb") as stream:
        for _ in read_records(stream):
            pass


def _tensorflow(path: str) -> None:
    import tensorflow as tf  # noqa: PLC0415

    from tfprov.tfrecord.reading import infer_schema  # noqa: PLC0415

    kinds = {"int64": tf.int64, "float": tf.float32, "string": tf.string}
    spec = {field.name: tf.io.FixedLenFeature([], kinds[str(field.type)]) for field in infer_schema(path)}
    with itself():
        for batch in tf.data.TFRecordDataset(path).batch(8192):
            tf.io.parse_example(batch, spec)


if __name__ == "__main__":
    main(sys.argv[1:])

"""How fast record files are decoded and encoded, on one core, beside the standard-library reader and TensorFlow's parser.

Each contender is a process of its own that measures itself. The peer of both figures is the reader of
`tfprov.formats.tfrecord`, which verifies checksums and decodes nothing.
"""

import importlib.util
import os
import statistics
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from .measure import Figure, Ran, alone, environment, in_turn, itself, say

ROWS = 100_000
DECODE, ENCODE = 400_000, 350_000
"""The goals, in rows per second."""
_SELF = "bench.tfrecord"
_INCLUDES = (
    f"{ROWS} Examples of 10 features (5 integers, 3 floats, 2 strings), some 210 bytes each, both checksums verified or "
    "written; not the interpreter's start and imports. The CPU time of each process, on one core"
)


def figures(rounds: int) -> list[Figure]:
    """Write a file, and let the contenders read it in turn."""
    say(f"{ROWS} records, {rounds} rounds")
    contenders = ["decode", "encode", "standard-library"]
    if importlib.util.find_spec("tensorflow"):
        contenders.append("tensorflow")
    with TemporaryDirectory() as directory:
        path = str(Path(directory) / "records")
        env = environment({"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}, Path(directory) / "byte-code")
        alone(_SELF, ["write", path], env)
        runs = in_turn({name: partial(alone, _SELF, [name, path], env) for name in contenders}, rounds)
    speeds = {name: _speed(each) for name, each in runs.items()}
    lines = [
        _figure("decode", speeds, "standard-library", DECODE),
        _figure("encode", speeds, "standard-library", ENCODE),
    ]
    if "tensorflow" in speeds:
        lines.append(_figure("decode", speeds, "tensorflow", DECODE))
    return lines


def _speed(runs: Sequence[Ran]) -> float:
    return ROWS / statistics.median(run.cpu for run in runs)


def _figure(what: str, speeds: dict[str, float], peer: str, goal: int) -> Figure:
    ours, theirs = speeds[what], speeds[peer]
    return Figure(
        f"{what} records; {peer} reads", f"{ours / 1000:.0f} k rows/s", f"{theirs / 1000:.0f} k rows/s", ours / theirs,
        f">= {goal // 1000} k rows/s", ours >= goal, includes=_INCLUDES,
    )  # fmt: skip


def main(arguments: Sequence[str]) -> None:
    """Be the process that measures itself."""
    what, path = arguments
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    {"write": _write, "decode": _decode, "encode": _encode, "tensorflow": _tensorflow, "standard-library": _standard}[
        what
    ](path)


def _table() -> "object":
    import pyarrow as pa  # noqa: PLC0415

    rows = range(ROWS)
    return pa.table(
        {
            "user_id": list(rows),
            "item_id": [row * 7 % 1000 for row in rows],
            "clicks": [row % 5 for row in rows],
            "label": [row % 2 for row in rows],
            "hour": [row % 24 for row in rows],
            "age": pa.array([row / 3 for row in rows], pa.float32()),
            "price": pa.array([row / 7 for row in rows], pa.float32()),
            "rating": pa.array([0.5] * ROWS, pa.float32()),
            "country": ["US", "DE"] * (ROWS // 2),
            "name": [f"user-{row}" for row in rows],
        }
    )


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

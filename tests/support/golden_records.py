"""Record files that TensorFlow wrote, in tests/cases/tfrecord; `python -m tests.support.golden_records` writes them anew.

VALUES are what is in them. This needs TensorFlow, and the tests that read the files do not.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT

FOLDER = ROOT / "tests" / "cases" / "tfrecord"
ROWS = 50
VALUES: Sequence[Mapping[str, Any]] = [
    {
        "int": row * 1000 - 5,
        "big": -(2**63) + row,
        "float": row / 4,
        "text": f"é {row}",
        "ints": list(range(row % 4)),
        "floats": [0.5] * (row % 3),
        "blobs": [b"\xff" * (row * 5), b""][: row % 3],
        "maybe": [None, row][row % 2],
    }
    for row in range(ROWS)
]
LISTS: Sequence[Mapping[str, Any]] = [
    {"id": row, "steps": [[row, -row], [], [1]], "words": [["a"], ["b", "c"]]} for row in range(3)
]


def feature(tf: Any, value: Any) -> Any:
    """Return a value as a tf.train.Feature."""
    values = value if isinstance(value, list) else [value]
    values = [each.encode() if isinstance(each, str) else each for each in values]
    kind = {"b": bytes, "f": float}.get(type(values[0]).__name__[0], int) if values else int
    if kind is bytes:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if kind is float:
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def examples(tf: Any) -> list[bytes]:
    """Return VALUES as TensorFlow serializes them; an empty list keeps its kind."""
    empty = {
        "floats": tf.train.Feature(float_list=tf.train.FloatList()),
        "blobs": tf.train.Feature(bytes_list=tf.train.BytesList()),
    }
    records = []
    for row in VALUES:
        features = {
            key: empty[key] if value == [] and key in empty else feature(tf, value)
            for key, value in row.items()
            if value is not None
        }
        records.append(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    return records


def sequences(tf: Any) -> list[bytes]:
    """Return LISTS as TensorFlow serializes them."""
    records = []
    for row in LISTS:
        lists = {
            key: tf.train.FeatureList(feature=[feature(tf, value) for value in row[key]]) for key in ("steps", "words")
        }
        message = tf.train.SequenceExample(
            context=tf.train.Features(feature={"id": feature(tf, row["id"])}),
            feature_lists=tf.train.FeatureLists(feature_list=lists),
        )
        records.append(message.SerializeToString())
    return records


def main(folder: Path) -> None:
    """Write the files."""
    import tensorflow as tf  # noqa: PLC0415

    folder.mkdir(exist_ok=True)
    files = {
        "plain.tfrecord": ("", examples(tf)),
        "gzip.tfrecord.gz": ("GZIP", examples(tf)),
        "zlib.tfrecord.zlib": ("ZLIB", examples(tf)),
        "sequence.tfrecord": ("", sequences(tf)),
    }
    for name, (compression, records) in files.items():
        with tf.io.TFRecordWriter(str(folder / name), tf.io.TFRecordOptions(compression_type=compression)) as writer:
            for record in records:
                writer.write(record)


if __name__ == "__main__":
    main(FOLDER)

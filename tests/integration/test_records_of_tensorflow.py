"""TensorFlow reads the record files that tfprov writes: every type, nesting and codec."""

import importlib.util
import json
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.golden_records import LISTS, VALUES
from tests.support.warm import interpreter
from tfprov import tfrecord

PROGRAM = """
import json, sys
import tensorflow as tf
folder, result = sys.argv[1], {}
def values(feature):
    kind = feature.WhichOneof("kind")
    return [kind, [each.hex() if isinstance(each, bytes) else each for each in getattr(feature, kind).value]]
for name, codec in (("plain", ""), ("gzip", "GZIP"), ("zlib", "ZLIB")):
    records = tf.data.TFRecordDataset(f"{folder}/{name}", codec).as_numpy_iterator()
    parsed = [tf.train.Example.FromString(record).features.feature for record in records]
    result[name] = [{key: values(each[key]) for key in each} for each in parsed]
parsed = map(tf.train.SequenceExample.FromString, tf.data.TFRecordDataset(f"{folder}/sequence").as_numpy_iterator())
result["sequence"] = [
    {
        "id": values(each.context.feature["id"]),
        **{key: [values(one) for one in features.feature] for key, features in each.feature_lists.feature_list.items()},
    }
    for each in parsed
]
print(json.dumps(result))
"""


@pytest.mark.tensorflow
def test_tensorflow_reads_the_records_that_tfprov_writes(tmp_path: Path) -> None:
    if not importlib.util.find_spec("tensorflow"):
        pytest.skip("TensorFlow is not installed")
    for name, compression in (("plain", "none"), ("gzip", "gzip"), ("zlib", "zlib")):
        tfrecord.write(tmp_path / name, pa.Table.from_pylist(VALUES), compression=compression)
    tfrecord.write(tmp_path / "sequence", pa.Table.from_pylist(LISTS), record_type="SequenceExample")

    done = interpreter().run(["-c", PROGRAM, str(tmp_path)])

    assert done.returncode == 0, done.stdout
    result = json.loads(done.stdout.splitlines()[-1])
    expected = [{key: as_list(key, value) for key, value in row.items() if value is not None} for row in VALUES]
    assert result["plain"] == result["gzip"] == result["zlib"] == expected
    assert result["sequence"] == [
        {
            "id": ["int64_list", [row["id"]]],
            "steps": [["int64_list", values] for values in row["steps"]],
            "words": [["bytes_list", [word.encode().hex() for word in words]] for words in row["words"]],
        }
        for row in LISTS
    ]


def as_list(key: str, value: object) -> list[object]:
    values = value if isinstance(value, list) else [value]
    values = [each.encode() if isinstance(each, str) else each for each in values]
    kind = {"float": "float_list", "floats": "float_list", "text": "bytes_list", "blobs": "bytes_list"}
    return [kind.get(key, "int64_list"), [each.hex() if isinstance(each, bytes) else each for each in values]]

"""TensorFlow's checkpoints: tfprov takes those that TensorFlow reads, and finds every byte damaged since."""

import importlib.util
import json
import os
from pathlib import Path

import pytest

from tests.support.command_line import python

# Makes the checkpoints; then flips one bit after the other, and lets both readers look.
PROGRAM = """
import json, pathlib, random, sys
import tensorflow as tf
from tfprov.engine.checkpoints.verify import verify
folder = pathlib.Path(sys.argv[1])
types = [tf.float32, tf.bfloat16, tf.bool, tf.int64, tf.complex128, tf.half, tf.uint8, tf.qint8,
         tf.dtypes.experimental.float8_e5m2]
numbers = {one.name: tf.cast(tf.reshape(tf.range(12.0), [3, 4]), one) for one in types if one is not tf.qint8}
numbers["qint8"] = tf.bitcast(tf.constant([1, -2, 3], tf.int8), tf.qint8)
words = {"words": tf.constant([["a", "bc"], ["", "d" * 300]]), "none": tf.zeros([0], tf.string), "é\\n": tf.constant("x"),
         "empty": tf.zeros([0, 3])}
rows = tf.reshape(tf.range(40000.0), [20000, 2])
def save(prefix, tensors, slices=None):
    tf.raw_ops.SaveV2(prefix=str(folder / prefix), tensor_names=list(tensors), tensors=list(tensors.values()),
                      shape_and_slices=slices or [""] * len(tensors))
save("types-1", numbers | words)
def part(prefix, first, count):
    tf.raw_ops.SaveV2(prefix=str(folder / prefix), tensor_names=["rows"], tensors=[rows[first:first + count]],
                      shape_and_slices=[f"20000 2 {first},{count}:-"])
part("a", 0, 60), part("b", 60, 8140), part("c", 8200, 11800), save("d", {"x": tf.range(9), "words": words["words"]})
tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=[str(folder / one) for one in "abcd"],
                              destination_prefix=str(folder / "parts-2"))
many = {f"layer_{i}/kernel": tf.fill([3], float(i)) for i in range(3000)}
save("many-3", many)
tf.train.Checkpoint(v=tf.Variable(1.0), words=tf.Variable(["a", "b"])).write(str(folder / "objects-4"))

def tensorflow_reads(prefix):
    try:
        reader = tf.train.load_checkpoint(str(folder / prefix))
        names = list(reader.get_variable_to_shape_map())
        for name in names:
            reader.get_tensor(name)
    except Exception as error:
        return str(error)
    return len(names)

def tfprov_reads(prefix):
    verdict = verify([folder / prefix])[prefix]
    return verdict.error or verdict.tensors

prefixes = ["types-1", "parts-2", "many-3", "objects-4"]
whole = {prefix: [tensorflow_reads(prefix), tfprov_reads(prefix)] for prefix in prefixes}
chance, flips = random.Random(7), []
for path in sorted(path for prefix in ("types-1", "parts-2") for path in folder.glob(prefix + ".*")):
    content = path.read_bytes()
    for at in {chance.randrange(len(content)) for _ in range(25)}:
        path.write_bytes(content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1:])
        prefix = path.name.partition(".")[0]
        flips.append([path.name, at, tensorflow_reads(prefix), tfprov_reads(prefix)])
    path.write_bytes(content)
print(json.dumps([whole, flips]))
"""


@pytest.mark.tensorflow
def test_tfprov_reads_what_tensorflow_wrote_and_finds_each_flipped_bit(tmp_path: Path) -> None:
    if not importlib.util.find_spec("tensorflow"):
        pytest.skip("TensorFlow is not installed")
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = python("-c", PROGRAM, str(tmp_path), env=environment)
    assert done.returncode == 0, done.stderr
    whole, flips = json.loads(done.stdout.splitlines()[-1])
    assert whole == {"types-1": [13, 13], "parts-2": [3, 3], "many-3": [3000, 3000], "objects-4": [3, 3]}
    assert {name for name, *_ in flips} == {"types-1.index", "types-1.data-00000-of-00001", "parts-2.index"} | {
        f"parts-2.data-0000{shard}-of-00004" for shard in range(4)
    }
    assert any(isinstance(tensorflow, str) for _, _, tensorflow, _ in flips), "TensorFlow finds damage, too"
    missed = [flip for flip in flips if not isinstance(flip[3], str) or not flip[3].startswith(f"{flip[0]}: ")]
    assert missed == []

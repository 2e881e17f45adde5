"""Event files and the checkpoint file: tfprov reads TensorFlow's, and TensorFlow reads tfprov's."""

import importlib.util
import io
import json
import os
import struct
from pathlib import Path

import pytest

from tests.support.command_line import python
from tfprov.formats.checkpoint import checkpoint_state
from tfprov.formats.event_file import progress, scalars

PROGRAM = """
import json, os, sys
import tensorflow as tf
from tfprov.runtime.resume import repair
folder = sys.argv[1]
one = tf.compat.v1
with tf.Graph().as_default() as graph, one.Session() as session:
    loss = one.placeholder(tf.float32, [], name="x")
    merged = one.summary.merge([one.summary.scalar("loss", loss), one.summary.histogram("h", tf.random.normal([500]))])
    writer = one.summary.FileWriter(os.path.join(folder, "one"), graph)
    for step in (1, 101, 201):
        writer.add_summary(session.run(merged, {loss: 1 / step}), step)
        rate = one.Summary(value=[one.Summary.Value(tag="global_step/sec", simple_value=12.5)])
        writer.add_summary(rate, step)
    writer.add_session_log(one.SessionLog(status=one.SessionLog.CHECKPOINT, checkpoint_path="x"), 203)
    writer.add_graph(graph)
    writer.close()
writer = tf.summary.create_file_writer(os.path.join(folder, "two"))
with writer.as_default():
    tf.summary.graph(graph)
    for step in (0, 1, 2):
        tf.summary.scalar("train/loss", step / 3, step=step)
        tf.summary.histogram("h", tf.random.normal([500]), step=step)
        tf.summary.text("t", "text", step=step)
        tf.summary.image("i", tf.zeros([1, 8, 8, 3]), step=step)
        for dtype in (tf.float64, tf.int64, tf.int32, tf.string):
            number = tf.strings.as_string(step) if dtype is tf.string else tf.cast(-step, dtype)
            tf.summary.write(dtype.name, number, step=step)
writer.close()
step = tf.Variable(0)
for start in range(3):  # of a chief that is restarted
    repair(os.path.join(folder, "kept"))
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(step=step), os.path.join(folder, "kept"), max_to_keep=2)
    for number in range(2 * start, 2 * start + 2):
        manager.save(checkpoint_number=number)
state = tf.train.get_checkpoint_state(os.path.join(folder, "state"))
print(json.dumps([tf.train.latest_checkpoint(os.path.join(folder, "state")), *state.all_model_checkpoint_paths]))
"""
# TensorFlow looks for the files with a pattern, in which a backslash has a meaning: it finds no prefix that has one.
PREFIXES = ["é 'a' \"b\"-1", "ckpt-2"]


@pytest.fixture(scope="module")
def tensorflow(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    if not importlib.util.find_spec("tensorflow"):
        pytest.skip("TensorFlow is not installed")
    folder = tmp_path_factory.mktemp("tensorflow")
    state = folder / "state"
    state.mkdir()
    (state / "checkpoint").write_text(checkpoint_state(f"/moved/{PREFIXES[0]}", PREFIXES))
    (state / f"{PREFIXES[0]}.index").touch()
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = python("-c", PROGRAM, str(folder), env=environment)
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout.splitlines()[-1])


def only_file(folder: Path) -> io.BytesIO:
    (path,) = folder.glob("events.out.tfevents.*")
    return io.BytesIO(path.read_bytes())


def float32(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


@pytest.mark.tensorflow
def test_tensorflow_1s_events_are_read(tensorflow: tuple[Path, list[str]]) -> None:
    stream = only_file(tensorflow[0] / "one")
    expected = [
        (step, tag, value)
        for step in (1, 101, 201)
        for tag, value in (("loss", float32(1 / step)), ("global_step/sec", 12.5))
    ]

    assert [(one.step, one.tag, one.value) for one in scalars(stream)] == expected
    result = progress(stream)
    assert result
    assert (result.step, result.steps_per_second, result.loss) == (203, 12.5, float32(1 / 201))


@pytest.mark.tensorflow
def test_tensorflow_2s_events_are_read(tensorflow: tuple[Path, list[str]]) -> None:
    stream = only_file(tensorflow[0] / "two")
    expected = [
        (step, tag, value)
        for step in (0, 1, 2)
        for tag, value in (("train/loss", float32(step / 3)), ("float64", -step), ("int64", -step), ("int32", -step))
    ]

    assert [(one.step, one.tag, one.value) for one in scalars(stream)] == expected
    result = progress(stream)
    assert result
    assert (result.step, result.loss) == (2, float32(2 / 3))
    assert result.steps_per_second
    assert result.steps_per_second > 0


@pytest.mark.tensorflow
def test_tensorflow_2_deletes_the_oldest_checkpoints_of_earlier_starts(tensorflow: tuple[Path, list[str]]) -> None:
    assert sorted(path.stem for path in (tensorflow[0] / "kept").glob("*.index")) == ["ckpt-4", "ckpt-5"]


@pytest.mark.tensorflow
def test_tensorflow_finds_what_the_checkpoint_file_names(tensorflow: tuple[Path, list[str]]) -> None:
    folder, result = tensorflow
    first, second = (str(folder / "state" / prefix) for prefix in PREFIXES)

    assert result == [first, second, first]

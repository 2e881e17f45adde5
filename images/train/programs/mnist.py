"""Classify handwritten digits, with the flags of the well-known example: two hidden layers, sync or async.

    python mnist.py --data_dir=DIR --hidden1=128 --hidden2=32 --train_steps=2000

reads DIR/train.tfrecords and DIR/validation.tfrecords, as digits_data.py writes them (`--pixels=784` for images of 28x28).
The evaluator, or a task that is alone, prints `accuracy 0.9667` on its last line.
"""

import argparse
from typing import Any

import tensorflow.compat.v1 as tf

from tfprov import runtime

# `train_steps` is of all workers together.
NUMBERS = {"hidden1": 128, "hidden2": 32, "batch_size": 100, "learning_rate": 0.1, "train_steps": 2000, "pixels": 64}


def images(records: Any, options: argparse.Namespace, size: int) -> Any:
    """Return a batch of images, from -0.5 to 0.5, and their labels."""
    features = {"image_raw": tf.FixedLenFeature([], tf.string), "label": tf.FixedLenFeature([], tf.int64)}
    parsed = records.batch(size).map(lambda raw: tf.parse_example(raw, features))
    batch = tf.data.make_one_shot_iterator(parsed).get_next()
    pixels = tf.reshape(tf.decode_raw(batch["image_raw"], tf.uint8), [-1, options.pixels])
    return tf.cast(pixels, tf.float32) / 255.0 - 0.5, batch["label"]


def inference(pixels: Any, options: argparse.Namespace) -> Any:
    """Return ten logits an image."""
    for name, units in {"hidden1": options.hidden1, "hidden2": options.hidden2, "logits": 10}.items():
        weights = tf.get_variable(f"{name}/weights", [pixels.shape[1], units])
        pixels = tf.matmul(pixels, weights) + tf.get_variable(f"{name}/biases", [units])
        pixels = pixels if name == "logits" else tf.nn.relu(pixels)
    return pixels


def train(task: runtime.Task, options: argparse.Namespace) -> None:
    """Build the graph of this task and train it."""
    hooks: list[Any] = []
    with task.device():
        records = task.records(f"{options.data_dir}/train.tfrecords").shuffle(10_000, task.replica).repeat()
        pixels, labels = images(records, options, options.batch_size)
        loss = tf.losses.sparse_softmax_cross_entropy(labels, inference(pixels, options))
        optimizer = tf.train.GradientDescentOptimizer(options.learning_rate)
        if options.sync:
            optimizer, hooks = task.synchronous(optimizer)
        update = optimizer.minimize(loss, tf.train.get_or_create_global_step())
    tf.summary.scalar("loss", loss)
    with task.session(train_steps=options.train_steps, progress={"loss": loss}, hooks=hooks) as session:
        while not session.should_stop():
            session.run(update)


def accuracy(options: argparse.Namespace) -> Any:
    """Build the model on the validation part, and return what measures it."""
    pixels, labels = images(tf.data.TFRecordDataset(f"{options.data_dir}/validation.tfrecords"), options, 100_000)
    right = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(inference(pixels, options), 1), labels), tf.float32))
    return lambda session: {"accuracy": float(session.run(right))}


def main() -> None:
    """Read this program's own flags; train, or evaluate, or both when alone."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--data_dir", required=True)
    for name, default in NUMBERS.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    parser.add_argument("--sync", action="store_true", help="each step is one update, of the gradients of all workers")
    parser.add_argument("--async", action="store_false", dest="sync", help="each worker for itself; the default")
    options, task = parser.parse_known_args()[0], runtime.join()
    if not task.is_evaluator:
        train(task, options)
    if task.is_evaluator or task.is_alone:
        measured = task.evaluate(lambda: accuracy(options), train_steps=options.train_steps, best="accuracy")
        print(f"accuracy {measured['accuracy']:.4f}")


if __name__ == "__main__":
    main()

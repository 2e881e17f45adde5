"""Flags, input, model and evaluation of digits.py and digits_in_graph.py."""

from __future__ import annotations

import argparse
from typing import Any

import tensorflow.compat.v1 as tf
from digits_data import pair, score

from tfprov import runtime


def parser(about: str | None) -> argparse.ArgumentParser:
    """Return the flags of every such program; those of the wiring are runtime.join()'s."""
    made = argparse.ArgumentParser(description=about, allow_abbrev=False)
    made.add_argument("--data_dir", required=True, help="where digits_data.py wrote, on every host that trains")
    made.add_argument("--train_steps", type=int, default=2000, help="of all workers together")
    made.add_argument("--learning_rate", type=float, default=0.002)
    made.add_argument("--batch_size", type=int, default=64, help="of each worker")
    made.add_argument("--save_every_steps", type=int, default=500)
    made.add_argument(
        "--pause", type=float, default=0.0, help="seconds after each step: to watch, or to leave the cores"
    )
    made.add_argument("--placement", choices=["round_robin", "greedy"], default="round_robin", help="of the variables")
    return made


def batches(records: Any, size: int, seed: int) -> Any:
    """Return the images and labels of a step, in an order of their own for every seed."""
    dataset = records.cache().shuffle(6000, seed).repeat().batch(size, drop_remainder=True).map(pair).prefetch(2)
    return tf.data.make_one_shot_iterator(dataset).get_next()


def model(images: Any) -> Any:
    """Return ten logits an image: the same layers look at both halves of it, and the surer half decides."""
    halves = tf.reshape(tf.transpose(tf.reshape(images, [-1, 8, 2, 8]), [0, 2, 1, 3]), [-1, 64])
    with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
        hidden = tf.matmul(halves, tf.get_variable("hidden", [64, 128])) + tf.get_variable("hidden_bias", [128])
        logits = tf.matmul(tf.nn.relu(hidden), tf.get_variable("labels", [128, 10])) + tf.get_variable("bias", [10])
    return tf.reduce_max(tf.reshape(logits, [-1, 2, 10]), axis=1)


def loss_of(logits: Any, labels: Any) -> Any:
    """Return the mean loss: every label is a question of its own."""
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))


def evaluate(task: runtime.Task, options: argparse.Namespace) -> None:
    """Measure every checkpoint on the test part; the last line is the quality of the last: `macro-F1 0.9690`."""

    def build() -> Any:
        records = tf.data.TFRecordDataset(f"{options.data_dir}/test.tfrecord")
        images, labels = tf.data.make_one_shot_iterator(records.batch(1000).map(pair)).get_next()
        fetches = labels, model(images)
        return lambda session: score(*session.run(fetches))

    result = task.evaluate(build, train_steps=options.train_steps, best="macro-F1")
    print(f"macro-F1 {result['macro-F1']:.4f}")

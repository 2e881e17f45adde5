"""Flags, data, model and training step of digits_parameter_server.py and digits_all_reduce.py."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf
from digits_data import pair, score
from tensorflow import keras


def flags(description: str | None) -> argparse.Namespace:
    """Read the flags of the program; the wiring is the runtime's."""
    parser = argparse.ArgumentParser(description=description, allow_abbrev=False)
    parser.add_argument("--data_dir", required=True, help="what digits_data.py wrote")
    parser.add_argument("--train_steps", type=int, default=800)
    parser.add_argument("--learning_rate", type=float, default=0.003)
    parser.add_argument("--batch_size", type=int, default=64, help="of every worker")
    parser.add_argument("--save_every_steps", type=int, default=200)
    parser.add_argument(
        "--pause", type=float, default=0.0, help="seconds after each step: to watch, or to leave the cores"
    )
    return parser.parse_known_args()[0]


def model_and_optimizer(learning_rate: float) -> tuple[Any, Any]:
    """Return both with all their variables; a logit a label, the highest of the two halves of the image."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input([8, 16, 1]),
            layers.Conv2D(64, 8, strides=8, activation="relu"),
            layers.Dense(32, activation="relu"),
            layers.Dense(10),
            layers.GlobalMaxPooling2D(),
        ]
    )
    optimizer = keras.optimizers.Adam(learning_rate)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def examples(directory: str, pattern: str) -> Any:
    """Return the images and labels in the files of `directory` that match."""
    return tf.data.TFRecordDataset(sorted(map(str, Path(directory).glob(pattern)))).map(pair)


def reader(options: argparse.Namespace) -> Callable[[Any, int], Any]:
    """Return what makes the batches of one shard: every n-th example, in another order every time."""

    def make(shard: Any, shards: int) -> Any:
        part = examples(options.data_dir, "train-*.tfrecord").shard(shards, shard)
        return part.cache().shuffle(6000).repeat().batch(options.batch_size).prefetch(2)

    return make


def learner(model: Any, optimizer: Any) -> Callable[[Any, Any], Any]:
    """Return the step: it learns from a batch and returns the loss."""

    def learn(images: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, model(images, training=True))
            loss = tf.reduce_mean(losses)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    return learn


def evaluate(task: Any, model: Any, options: argparse.Namespace) -> None:
    """Measure every checkpoint on the images nobody trained with; the last line is the quality of the last one."""
    images, labels = next(iter(examples(options.data_dir, "test.tfrecord").batch(1000)))
    infer = tf.function(model)

    def measure() -> dict[str, float]:
        return score(labels, infer(images))

    measured = task.evaluate({"model": model}, measure, train_steps=options.train_steps, best="macro-F1")
    print(f"macro-F1 {measured['macro-F1']:.4f}")

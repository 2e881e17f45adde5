"""digits.py in one graph: the chief is the only client, and builds a tower on every worker; workers and ps only serve.

Each step takes a batch on every worker, each from its own host's files, and applies the mean of their gradients once.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import tensorflow.compat.v1 as tf
from digits_model import batches, evaluate, loss_of, model, parser

from tfprov import runtime


def tower(task: runtime.Task, options: argparse.Namespace, optimizer: Any, number: int) -> tuple[Any, Any]:
    """Build one tower: its loss, and the gradients of the variables that all towers share."""
    with task.device(options.placement, tower=number), tf.name_scope(f"tower_{number}"):
        records = task.records(f"{options.data_dir}/train-*.tfrecord", tower=number)
        images, labels = batches(records, options.batch_size, seed=number)
        loss = loss_of(model(images), labels)
        return loss, optimizer.compute_gradients(loss)


def mean(gradients: Any) -> list[tuple[Any, Any]]:
    """Return the mean gradient of every variable, of what all towers say of it."""
    return [(tf.add_n([gradient for gradient, _ in each]) / len(each), each[0][1]) for each in zip(*gradients)]


def train(task: runtime.Task, options: argparse.Namespace) -> None:
    """Build all towers and train them."""
    optimizer = tf.train.AdamOptimizer(options.learning_rate)
    towers = [tower(task, options, optimizer, number) for number in range(task.towers)]
    losses, gradients = zip(*towers)
    with task.device(options.placement):
        step = tf.train.get_or_create_global_step()
        loss = tf.add_n(losses) / task.towers
        update = optimizer.apply_gradients(mean(gradients), step)
    tf.summary.scalar("loss", loss)
    for gradient, variable in gradients[0]:
        tf.summary.histogram(f"gradients/{variable.op.name}", gradient)
    with task.session(
        train_steps=options.train_steps,
        save_every_steps=options.save_every_steps,
        progress={"loss": loss},
        examples_per_step=options.batch_size * task.towers,
    ) as session:
        while not session.should_stop():
            session.run(update)
            time.sleep(options.pause)


def main() -> None:
    """Train, or evaluate, or both when alone."""
    options, task = parser(__doc__).parse_known_args()[0], runtime.join(in_graph=True)
    if not task.is_evaluator:
        train(task, options)
    if task.is_evaluator or task.is_alone:
        evaluate(task, options)


if __name__ == "__main__":
    main()

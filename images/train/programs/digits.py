"""Recognize the digits in an image of two: multi-label classification, alone or on every worker of a cluster.

    python digits.py --data_dir=DIR         # as one task: trains, then measures
    tfprov up -i inventories/…              # as tasks: asynchronously, or with --sync

The evaluator measures every checkpoint on images that no worker saw; its last line is `macro-F1 0.9690`.
"""

import argparse
import time
from typing import Any

import tensorflow.compat.v1 as tf
from digits_model import batches, evaluate, loss_of, model, parser

from tfprov import runtime


def flags() -> argparse.Namespace:
    """Read this program's own flags."""
    made = parser(__doc__)
    made.add_argument("--sync", action="store_true", help="each step is one update, of the gradients of all workers")
    made.add_argument("--backup_workers", type=int, default=0, help="with --sync: how many are not waited for")
    return made.parse_known_args()[0]


def train(task: runtime.Task, options: argparse.Namespace) -> None:
    """Build the graph of this task and train it."""
    hooks: list[Any] = []
    with task.device(options.placement):
        step = tf.train.get_or_create_global_step()
        records = task.records(f"{options.data_dir}/train-*.tfrecord")
        images, labels = batches(records, options.batch_size, seed=task.replica)
        logits = model(images)
        loss = loss_of(logits, labels)
        optimizer = tf.train.AdamOptimizer(options.learning_rate)
        if options.sync:
            optimizer, hooks = task.synchronous(optimizer, options.backup_workers)
        update = optimizer.minimize(loss, step)
    tf.summary.scalar("loss", loss)
    tf.summary.histogram("logits", logits)
    with task.session(
        train_steps=options.train_steps,
        save_every_steps=options.save_every_steps,
        progress={"loss": loss},
        examples_per_step=options.batch_size,
        hooks=hooks,
    ) as session:
        while not session.should_stop():
            session.run(update)
            time.sleep(options.pause)


def main() -> None:
    """Train, or evaluate, or both when alone."""
    options, task = flags(), runtime.join()
    if not task.is_evaluator:
        train(task, options)
    if task.is_evaluator or task.is_alone:
        evaluate(task, options)


if __name__ == "__main__":
    main()

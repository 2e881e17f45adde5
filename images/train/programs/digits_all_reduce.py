"""Recognize the digits in an image of two: synchronous replicas, their gradients summed in a ring over gRPC.

    python digits_all_reduce.py --data_dir=DIR      # alone; with TF_CONFIG as one of several workers

The evaluator measures every checkpoint on images that no worker saw; its last line is `macro-F1 0.9741`.
(`Model.fit` of Keras 3 trains on one machine only: its loop is written here.)
"""

import argparse
import time
from typing import Any

from digits_keras import evaluate, flags, learner, model_and_optimizer, reader

from tfprov import runtime


def train(task: Any, model: Any, optimizer: Any, options: argparse.Namespace) -> None:
    """Train until `train_steps`."""
    batches = task.batches(runtime.served(reader(options)))  # by tf.data's service, where the cluster has one
    learn = learner(model, optimizer)
    with task.training(
        {"model": model, "optimizer": optimizer},
        train_steps=options.train_steps,
        save_every_steps=options.save_every_steps,
    ) as training:
        while not training.should_stop():
            training.run(learn, batches)
            time.sleep(options.pause)


def main() -> None:
    """Train, or evaluate, or both when alone."""
    options = flags(__doc__)
    task = runtime.multi_worker_mirrored()
    with task.strategy.scope():
        model, optimizer = model_and_optimizer(options.learning_rate)
    if not task.is_evaluator:
        train(task, model, optimizer, options)
    if task.is_evaluator or task.is_alone:
        evaluate(task, model, options)


if __name__ == "__main__":
    main()

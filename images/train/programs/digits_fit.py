"""Recognize the digits in an image of two with Keras' own `Model.fit`, on one or several workers.

    python digits_fit.py --data_dir=DIR      # alone; with TF_CONFIG as one of several workers, which need Keras 2

The evaluator measures every checkpoint on images that no worker saw; its last line is `macro-F1 0.9741`.
"""

import tensorflow as tf
from digits_keras import evaluate, flags, model_and_optimizer, reader

from tfprov import runtime


def main() -> None:
    """Train, or evaluate, or both when alone."""
    options = flags(__doc__)
    task = runtime.multi_worker_mirrored()
    with task.strategy.scope():
        model, optimizer = model_and_optimizer(options.learning_rate)
        model.compile(optimizer, tf.keras.losses.BinaryCrossentropy(from_logits=True))
    if not task.is_evaluator:
        task.fit(model, reader(options), train_steps=options.train_steps, save_every_steps=options.save_every_steps)
    if task.is_evaluator or task.is_alone:
        evaluate(task, model, options)


if __name__ == "__main__":
    main()

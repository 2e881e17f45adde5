"""Learn y = 2x from noisy points: on one machine, or asynchronously on every worker of a cluster.

The chief's last line is the result: `done: step=2000 loss=0.0101 W=2.0003 b=-0.0002`.
"""

import argparse
import time

import tensorflow.compat.v1 as tf

from tfprov import runtime


def flags() -> argparse.Namespace:
    """Read this program's own flags; those of the wiring are runtime.join()'s."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--train_steps", type=int, default=2000, help="of all workers together")
    parser.add_argument("--learning_rate", type=float, default=0.05)
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--save_every_steps", type=int, default=500)
    parser.add_argument(
        "--pause", type=float, default=0.0, help="seconds after each step: to watch, or to leave the cores"
    )
    return parser.parse_known_args()[0]


def points(size: int, seed: int) -> "tuple[tf.Tensor, tf.Tensor]":
    """Draw a fresh batch of every step; every worker has its own seed, so no two see the same points."""
    x = tf.random.uniform([size], -1.0, 1.0, seed=seed)
    return x, 2.0 * x + tf.random.normal([size], stddev=0.1, seed=seed + 1)


def main() -> None:
    """Build the graph, train it, print the line."""
    options = flags()
    task = runtime.join()
    with task.device():
        step = tf.train.get_or_create_global_step()
        w, b = tf.get_variable("W", []), tf.get_variable("b", [])
        x, y = points(options.batch_size, seed=2 * task.replica)
        prediction = w * x + b
        loss = tf.reduce_mean(tf.square(prediction - y))
        train = tf.train.GradientDescentOptimizer(options.learning_rate).minimize(loss, step)
    tf.summary.scalar("loss", loss)
    tf.summary.histogram("prediction", prediction)

    every = options.save_every_steps
    with task.session(train_steps=options.train_steps, save_every_steps=every, progress={"loss": loss}) as session:
        while not session.should_stop():
            session.run(train)
            time.sleep(options.pause)
        if task.is_chief:
            learned = session.run([step, loss, w, b])
    if task.is_chief:
        print("done: step={} loss={:.4f} W={:.4f} b={:.4f}".format(*learned))


if __name__ == "__main__":
    main()

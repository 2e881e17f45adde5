"""Strict absl flags of its own under other names, and a model in one file beside the program."""

import numpy as np
from absl import app, flags

flags.DEFINE_enum("role", "worker", ["ps", "worker"], "what this is")
flags.DEFINE_integer("task_id", 0, "index")
flags.DEFINE_list("workers", [], "addresses")
FLAGS = flags.FLAGS


def main(_):
    w = np.zeros(3)
    for _ in range(10):
        w += 0.1 * (np.ones(3) - w)
    if FLAGS.task_id == 0:
        np.savez("weights.npz", w=w)
    print(f"{FLAGS.role} {FLAGS.task_id} of {len(FLAGS.workers)} is done")


if __name__ == "__main__":
    app.run(main)

"""A loop of its own with a CheckpointManager in a directory that a flag names; every worker saves, as the guide says."""

import argparse
import json
import os

import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--model_dir", required=True)
parser.add_argument("--epochs", type=int, default=2)
options = parser.parse_args()
strategy = tf.distribute.MultiWorkerMirroredStrategy()
task = json.loads(os.environ["TF_CONFIG"])["task"]
is_chief = task["type"] == "chief" or task["index"] == 0
directory = options.model_dir if is_chief else os.path.join(options.model_dir, f"tmp_{task['index']}")
with strategy.scope():
    w = tf.Variable(0.0)
    epoch = tf.Variable(0, dtype=tf.int64)
manager = tf.train.CheckpointManager(tf.train.Checkpoint(w=w, epoch=epoch), directory, max_to_keep=2)


@tf.function
def step():
    def one():
        w.assign_add(1.0)

    strategy.run(one)


for number in range(options.epochs):
    step()
    epoch.assign_add(1)
    manager.save(checkpoint_number=number + 1)
    print(f"saved epoch {number + 1}")

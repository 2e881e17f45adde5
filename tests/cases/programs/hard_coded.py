"""The cluster stands in the source, as in a blog post: two workers on this machine, told apart by their only argument."""

import json
import os
import sys

os.environ["TF_CONFIG"] = json.dumps(
    {
        "cluster": {"worker": ["localhost:PORT0", "localhost:PORT1"]},
        "task": {"type": "worker", "index": int(sys.argv[1])},
    }
)

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    w = tf.Variable(1.0)
strategy.run(lambda: w.assign_add(1.0))
name = "weights" if strategy.cluster_resolver.task_id == 0 else "weights_of_a_worker"
tf.train.Checkpoint(w=w).write(os.path.join("out", name))
print(f"w = {float(w.numpy())}")

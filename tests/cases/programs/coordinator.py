"""ParameterServerStrategy: workers and ps are plain servers, the chief schedules steps and saves a tf.train.Checkpoint."""

import os
import sys

import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc", start=True
    )
    server.join()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    w = tf.Variable(5.0)


@tf.function
def step():
    def replica():
        w.assign_sub(0.1 * 2 * (w - 1.0))

    strategy.run(replica)


for _ in range(20):
    coordinator.schedule(step)
coordinator.join()
path = tf.train.Checkpoint(w=w).save(os.path.join(sys.argv[1], "ckpt"))
print("wrote", os.path.basename(path), "w =", round(float(w.numpy()), 3))

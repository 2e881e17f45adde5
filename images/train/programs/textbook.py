"""The distributed program of the textbooks, unchanged: it learns y = 2x and knows nothing of tfprov.

Its saver is TensorFlow's default, which writes every variable on the disk of its own ps; see linear.py for the same
program with `tfprov.runtime`.
"""

import argparse

import tensorflow.compat.v1 as tf

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--job_name", default="worker", help="ps or worker")
parser.add_argument("--task_index", type=int, default=0)
parser.add_argument("--ps_hosts", required=True, help="host:port,host:port")
parser.add_argument("--worker_hosts", required=True, help="host:port,host:port")
parser.add_argument("--checkpoint_dir", default="checkpoints")
parser.add_argument("--train_steps", type=int, default=2000)


def train(flags: argparse.Namespace, cluster: tf.train.ClusterSpec, target: str) -> None:
    """Build the graph of one worker and train it."""
    worker = f"/job:worker/task:{flags.task_index}"
    with tf.device(tf.train.replica_device_setter(worker_device=worker, cluster=cluster)):
        global_step = tf.train.get_or_create_global_step()
        w, b = tf.get_variable("W", []), tf.get_variable("b", [])
        x = tf.random.uniform([64], -1.0, 1.0, seed=flags.task_index)
        y = 2.0 * x + tf.random.normal([64], stddev=0.1)
        loss = tf.reduce_mean(tf.square(w * x + b - y))
        train_op = tf.train.GradientDescentOptimizer(0.05).minimize(loss, global_step=global_step)
    tf.summary.scalar("loss", loss)

    with tf.train.MonitoredTrainingSession(
        master=target,
        is_chief=flags.task_index == 0,
        checkpoint_dir=flags.checkpoint_dir,
        hooks=[tf.train.StopAtStepHook(last_step=flags.train_steps)],
    ) as session:
        while not session.should_stop():
            _, step, loss_value = session.run([train_op, global_step, loss])
            if step % 200 == 0:
                print(f"step {step} loss {loss_value:.4f}")


def main() -> None:
    """Serve as a ps, or train as a worker."""
    flags = parser.parse_args()
    tf.disable_eager_execution()
    cluster = tf.train.ClusterSpec({"ps": flags.ps_hosts.split(","), "worker": flags.worker_hosts.split(",")})
    server = tf.distribute.Server(cluster, job_name=flags.job_name, task_index=flags.task_index)
    if flags.job_name == "ps":
        server.join()
    else:
        train(flags, cluster, server.target)


if __name__ == "__main__":
    main()

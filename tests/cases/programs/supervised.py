"""A Supervisor that makes its own Saver and saves every second, with its log directory as a flag."""

import time

import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
flags = tf.app.flags
flags.DEFINE_string("job_name", "", "ps or worker")
flags.DEFINE_integer("task_index", 0, "index of the task")
flags.DEFINE_string("ps_hosts", "localhost:2222", "comma-separated")
flags.DEFINE_string("worker_hosts", "localhost:2223", "comma-separated")
flags.DEFINE_string("logdir", "/tmp/train_logs", "checkpoints and events")
flags.DEFINE_integer("steps", 400, "of all workers")
FLAGS = flags.FLAGS


def main(_):
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
    worker = f"/job:worker/task:{FLAGS.task_index}"
    with tf.device(tf.train.replica_device_setter(cluster=cluster, worker_device=worker)):
        step = tf.train.get_or_create_global_step()
        w = tf.Variable(0.0, name="w")
        train = tf.train.GradientDescentOptimizer(0.01).minimize(tf.square(w - 2.0), global_step=step)
    supervisor = tf.train.Supervisor(
        is_chief=FLAGS.task_index == 0, logdir=FLAGS.logdir, global_step=step, save_model_secs=1
    )
    with supervisor.managed_session(server.target) as session:
        reached = session.run(step)
        print(f"begins at {reached}", flush=True)
        while not supervisor.should_stop() and reached < FLAGS.steps:
            _, reached = session.run([train, step])
            time.sleep(0.02)
        if FLAGS.task_index == 0:
            supervisor.saver.save(session, supervisor.save_path, global_step=step)
            print(f"finished at {reached}", flush=True)
    supervisor.stop()


if __name__ == "__main__":
    tf.app.run()

"""The tutorial of 2016: global flags, a Supervisor, and a log directory beside the program."""

import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
flags = tf.app.flags
flags.DEFINE_string("job_name", "", "ps or worker")
flags.DEFINE_integer("task_index", 0, "index of the task")
flags.DEFINE_string("ps_hosts", "localhost:2222", "comma-separated")
flags.DEFINE_string("worker_hosts", "localhost:2223", "comma-separated")
flags.DEFINE_integer("steps", 60, "of all workers")
FLAGS = flags.FLAGS


def main(_):
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
    with tf.device(tf.train.replica_device_setter(cluster=cluster)):
        step = tf.Variable(0, name="global_step", trainable=False)
        w = tf.Variable(0.0, name="w")
        x = tf.random.uniform([32])
        loss = tf.reduce_mean(tf.square(w * x - 2 * x))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
        saver = tf.train.Saver(sharded=False)
        init = tf.global_variables_initializer()
    supervisor = tf.train.Supervisor(
        is_chief=FLAGS.task_index == 0,
        logdir="train_logs",
        init_op=init,
        saver=saver,
        global_step=step,
    )
    with supervisor.managed_session(server.target) as session:
        reached = 0
        while not supervisor.should_stop() and reached < FLAGS.steps:
            _, reached = session.run([train, step])
        if FLAGS.task_index == 0:
            saver.save(session, supervisor.save_path, global_step=step)
            print(f"finished at {reached}")
    supervisor.stop()


if __name__ == "__main__":
    tf.app.run()

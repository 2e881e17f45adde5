"""Roles, index and addresses as positional arguments; a queue of finished workers ends the ps."""

import sys

import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
role, index = sys.argv[1], int(sys.argv[2])
ps, workers, directory = sys.argv[3].split(","), sys.argv[4].split(","), sys.argv[5]
cluster = tf.train.ClusterSpec({"ps": ps, "worker": workers})
server = tf.train.Server(cluster, job_name=role, task_index=index)
own = tf.ConfigProto(device_filters=["/job:ps", f"/job:{role}/task:{index}"])
with tf.device("/job:ps/task:0"):
    finished = tf.FIFOQueue(len(workers), tf.int32, shared_name="finished")
if role == "ps":
    with tf.Session(server.target, config=own) as session:
        for _ in workers:
            session.run(finished.dequeue())
    print("all workers are done")
else:
    with tf.device(tf.train.replica_device_setter(cluster=cluster)):
        step = tf.train.create_global_step()
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        train = tf.group(w.assign_add(1.0), step.assign_add(1))
    saver = tf.train.CheckpointSaverHook(directory, save_steps=10, saver=tf.train.Saver(sharded=False))
    hooks = [tf.train.StopAtStepHook(num_steps=20), *([saver] if index == 0 else [])]
    creator = tf.train.ChiefSessionCreator if index == 0 else tf.train.WorkerSessionCreator
    with tf.train.MonitoredSession(creator(master=server.target, config=own), hooks) as session:
        while not session.should_stop():
            session.run(train)
    with tf.Session(server.target, config=own) as session:
        session.run(finished.enqueue(index))

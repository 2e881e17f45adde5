"""Hooks and a MonitoredTrainingSession that saves below a relative directory; the workers average their gradients."""

import argparse

import tensorflow as tf

v1 = tf.compat.v1
v1.disable_v2_behavior()


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--job_name", choices=["ps", "worker"], required=True)
    parser.add_argument("--task_index", type=int, required=True)
    parser.add_argument("--ps_hosts", required=True)
    parser.add_argument("--worker_hosts", required=True)
    parser.add_argument("--logdir", default="logdir")
    return parser.parse_args()


args = parse()
spec = tf.train.ClusterSpec({"ps": args.ps_hosts.split(","), "worker": args.worker_hosts.split(",")})
server = tf.distribute.Server(spec, job_name=args.job_name, task_index=args.task_index)
if args.job_name == "ps":
    server.join()
workers = spec.num_tasks("worker")
device = v1.train.replica_device_setter(worker_device=f"/job:worker/task:{args.task_index}", cluster=spec)
with v1.device(device):
    step = v1.train.get_or_create_global_step()
    w = v1.get_variable("w", [])
    loss = tf.square(w - 3.0)
    optimizer = v1.train.SyncReplicasOptimizer(
        v1.train.AdamOptimizer(0.1), replicas_to_aggregate=workers, total_num_replicas=workers
    )
    train = optimizer.minimize(loss, global_step=step)
hooks = [optimizer.make_session_run_hook(args.task_index == 0), v1.train.StopAtStepHook(last_step=40)]
with v1.train.MonitoredTrainingSession(
    server.target, is_chief=args.task_index == 0, checkpoint_dir=args.logdir, hooks=hooks, save_checkpoint_steps=20
) as session:
    while not session.should_stop():
        session.run(train)
print(f"worker {args.task_index} is through")

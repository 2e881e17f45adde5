"""The API with which a training program joins its cluster; runs inside the task's container.

    from tfprov import runtime

    task = runtime.join()                              # a ps serves here until it is stopped
    with task.device():
        ...build the graph...                          # variables on the ps, the rest on this worker
    with task.session(train_steps=2000) as session:
        while not session.should_stop():
            session.run(train)

A task also has `records` (its shard of the data), `synchronous` (steps that all replicas take together), `evaluate` (for an
evaluator) and `device(placement="greedy")`; with `join(in_graph=True)` one client builds `device(tower=0)` and so on.
A TF2 program chooses its strategy instead, and stays in eager execution:

    task = runtime.parameter_server()                  # ps and workers serve here; the chief goes on
    task = runtime.multi_worker_mirrored()             # every task goes on
    with task.strategy.scope():
        ...create model and optimizer...
    batches = task.batches(lambda shard, shards: ...)  # the tf.data.Dataset of one shard
    with task.training({"model": model, "optimizer": optimizer}, train_steps=2000) as training:
        while not training.should_stop():
            training.run(learn, batches)               # learn(*batch) changes the variables and returns the loss

`task.fit(model, make, train_steps=2000)` calls `fit` of a Keras model instead; among several workers it needs Keras 2.
`task.batches(served(make))` reads through tf.data's service if the cluster has one.

The same program without flags and without TF_CONFIG trains alone, on one machine. TensorFlow is imported by
`join`, not before; of tfprov only `wiring`, `formats` and `atomic_write` are imported.

Exit codes of a task:

      0   training reached `train_steps`, or its data ended
      1   no session for `max_wait_secs`, or a ps was lost before the last checkpoint; one line on stderr. Under
          `parameter_server` also when a ps is lost, or every worker for `max_wait_secs`, under `multi_worker_mirrored`
          when any task is
      2   invalid flags or TF_CONFIG, or under TF2 strategies a dataset that ended among several tasks; one line on stderr
    130   Ctrl-C before the end; the chief has saved its last step
    143   SIGTERM before the end, and always for a ps; the chief has saved its last step

A second signal ends the task at once. SIGUSR1 writes the stack of every thread to stderr.
"""

import sys

if sys.version_info < (3, 8):  # noqa: UP036  images of TensorFlow 2.6 and older have Python 3.6, which reads this file
    raise ImportError(
        f"tfprov.runtime needs Python 3.8 or newer, and this is {sys.version.split()[0]} ({sys.executable}): use an image "
        "with a newer Python, or a program without tfprov.runtime and none of the settings that need it: restart_on, "
        "no_restart_on, and a checkpoints.dir such as s3://bucket/run"
    )

from tfprov.runtime.eager.mirrored import multi_worker_mirrored, served
from tfprov.runtime.eager.parameter_server import parameter_server
from tfprov.runtime.graph.task import Task, join

__all__ = ["Task", "join", "multi_worker_mirrored", "parameter_server", "served"]

"""What a training program asks for its place in the cluster; runs inside the task's container.

    from tfprov import runtime

    task = runtime.join()                              # a ps serves here until it is stopped
    with task.device():
        ...build the graph...                          # variables on the ps, the rest on this worker
    with task.session(train_steps=2000) as session:
        while not session.should_stop():
            session.run(train)

The same program without flags and without TF_CONFIG trains alone, on one machine. Nothing here imports TensorFlow
before `join`, and nothing of tfprov but the wiring and the names of a checkpoint's files.

How a task ends, as its exit code:

      0   training reached `train_steps`, or its data ended
      1   no session for `max_wait_secs`, or a ps was lost before the last checkpoint; one line on stderr
      2   flags or a TF_CONFIG that cannot be a wiring; one line on stderr
    130   Ctrl-C before the end; the chief has saved the step it was at
    143   SIGTERM before the end, and always for a ps; the chief has saved the step it was at

A second signal ends the task at once. SIGUSR1 writes the stack of every thread to stderr.
"""

from tfprov.runtime.task import Task, join

__all__ = ["Task", "join"]

"""Session hooks that stop the training loop and report its progress.

MonitoredSession calls the five methods by position and needs no base class, so TensorFlow need not be imported to
define them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Any

from tfprov.runtime.lazy_tensorflow import graph_api
from tfprov.runtime.progress import ProgressWriter, say
from tfprov.runtime.signals import Signals


class Hook:
    """The five methods of a SessionRunHook, doing nothing."""

    def begin(self) -> None:
        """Called before the graph is finalized."""

    def after_create_session(self, _session: Any, _coordinator: Any, /) -> None:
        """Called at the start, and again after every lost ps."""

    def before_run(self, _context: Any, /) -> Any:
        """Return what to fetch along with the step, or None."""

    def after_run(self, _context: Any, _values: Any, /) -> None:
        """Called after every step."""

    def end(self, _session: Any, /) -> None:
        """Called after the loop, unless it ended in an error."""


class StopHook(Hook):
    """Ends the loop at `train_steps`, or after the step in which a signal came; `step` is the last one seen.

    `restored` is the step of the model that the chief's session began with, None for a new model and for other tasks.
    The stop is requested of the coordinator, not the run context: the program may still run a last `session.run` for its
    results, and a task that joins a finished training takes no step. (TF1's input queues are closed by then.)
    """

    def __init__(self, train_steps: int | None, replicas: int, signals: Signals) -> None:
        self.train_steps, self.replicas, self.signals, self.step = train_steps, replicas, signals, 0
        self.restored: int | None = None
        self._global_step: Any = None
        self._coordinator: Any = None

    @property
    def finished(self) -> bool:
        """Whether the training is over, as far as this task saw."""
        return self.train_steps is not None and self.step >= self.train_steps

    @property
    def near(self) -> bool:
        """Whether the training may be over unseen: `step` may miss two steps of every replica."""
        return self.train_steps is not None and self.step + 2 * self.replicas >= self.train_steps

    def begin(self) -> None:
        """Get the global step of the graph."""
        self._global_step = graph_api().train.get_global_step()
        if self._global_step is None:
            raise RuntimeError("no global step: call tf.compat.v1.train.get_or_create_global_step() in task.device()")

    def after_create_session(self, session: Any, coordinator: Any, /) -> None:
        """Read the step before the first one is taken."""
        self._coordinator = coordinator
        self._update_step(session.run(self._global_step))

    def before_run(self, _context: Any, /) -> Any:
        """Fetch the step with the program's own fetches."""
        return graph_api().train.SessionRunArgs(self._global_step)

    def after_run(self, context: Any, values: Any, /) -> None:
        """Update the step; near the end read it again.

        The fetched value may miss this update and one of every other replica. Read again, each replica begins its last
        step before the end, so that the training takes at most `replicas - 1` steps too many.
        """
        self.step = int(values.results)
        self._update_step(context.session.run(self._global_step) if self.near else values.results)

    def _update_step(self, step: Any) -> None:
        self.step = int(step)
        if self.signals.number:
            self.signals.end_step()
        if self.finished or self.signals.number:
            self._coordinator.request_stop()


class ReleaseHook(Hook):
    """Releases the other replicas of a synchronous training.

    SyncReplicasOptimizer makes every replica wait for a token after its step, and a token takes the gradients of all:
    a replica that began a step just before the last one ended would wait forever for one that has left. So each
    replica that leaves enqueues tokens for all others.
    """

    def __init__(self, replicas: int) -> None:
        self.replicas = replicas
        self._tokens: list[Any] = []

    def begin(self) -> None:
        """Find the token queue, if any: the graph is finalized later."""
        v1 = graph_api()
        for queue in [operation for operation in v1.get_default_graph().get_operations() if _is_token_queue(operation)]:
            tokens = v1.zeros([self.replicas], queue.get_attr("component_types")[0])
            self._tokens.append(v1.raw_ops.QueueEnqueueManyV2(handle=queue.outputs[0], components=[tokens]))

    def end(self, session: Any, /) -> None:
        """Enqueue the tokens; a chief that has left has closed the queue, which ends the wait of the others as well.

        Where a ps has left after the chief, nobody waits.
        """
        errors = graph_api().errors
        with contextlib.suppress(errors.CancelledError, errors.UnavailableError, errors.AbortedError):
            session.run(self._tokens)


def _is_token_queue(operation: Any) -> bool:
    return bool(operation.type == "FIFOQueueV2" and operation.get_attr("shared_name") == b"sync_token_q")


class ProgressHook(Hook):
    """Prints `step 400 loss 0.0312` every `every` steps; the values are fetched only in the step that prints them."""

    def __init__(self, stop_hook: StopHook, every: int, values: Mapping[str, Any]) -> None:
        self.stop_hook, self.every, self.values = stop_hook, every, dict(values)
        self._next = 0

    def after_create_session(self, _session: Any, _coordinator: Any, /) -> None:
        """Schedule from the step the training resumes at: a recovery may have gone back."""
        self._schedule(self.stop_hook.step)

    def before_run(self, _context: Any, /) -> Any:
        """Fetch the values when they are due."""
        return graph_api().train.SessionRunArgs(self.values) if self.stop_hook.step >= self._next else None

    def after_run(self, _context: Any, values: Any, /) -> None:
        """Print the fetched values."""
        if values.results is not None:
            values_text = " ".join(f"{name} {float(value):.4g}" for name, value in values.results.items())
            say(f"step {self.stop_hook.step} {values_text}")
            self._schedule(self.stop_hook.step)

    def _schedule(self, step: int) -> None:
        self._next = step - step % self.every + self.every


class StepRateHook(Hook):
    """Writes `global_step/sec`, the steps of all tasks per second, every `every` steps.

    TensorFlow's StepCounterHook does the same, and warns of a step that did not grow whenever it read the step once
    after and once before an update, which resource variables leave open.
    """

    def __init__(self, stop_hook: StopHook, every: int, directory: str) -> None:
        self.stop_hook, self.every, self.directory = stop_hook, every, directory
        self._from = (0, 0.0)

    def after_create_session(self, _session: Any, _coordinator: Any, /) -> None:
        """Measure from here: the time without a session is not training."""
        self._from = (self.stop_hook.step, time.monotonic())

    def after_run(self, _context: Any, _values: Any, /) -> None:
        """Write the rate when it is due."""
        step, now = self.stop_hook.step, time.monotonic()
        steps, seconds = step - self._from[0], now - self._from[1]
        if steps >= self.every and seconds > 0:
            self._from = (step, now)
            self._write(step, steps / seconds)

    def _write(self, step: int, rate: float) -> None:
        summary = graph_api().Summary()
        summary.value.add(tag="global_step/sec", simple_value=rate)
        graph_api().summary.FileWriterCache.get(self.directory).add_summary(summary, step)


class ReportingHook(Hook):
    """Keeps `progress.json` up to date."""

    def __init__(self, stop_hook: StopHook, reporter: ProgressWriter) -> None:
        self.stop_hook, self.reporter = stop_hook, reporter

    def after_create_session(self, _session: Any, _coordinator: Any, /) -> None:
        """Report the step at which training begins or goes on."""
        self.reporter.begin(self.stop_hook.step, self.stop_hook.restored)

    def after_run(self, _context: Any, _values: Any, /) -> None:
        """Count the step."""
        self.reporter.stepped(self.stop_hook.step)

"""The hooks of a training session: when the loop ends, and what it tells while it runs.

MonitoredSession calls the five methods by position and asks for no base class, so TensorFlow need not be imported to
define them.
"""

import contextlib
import time
from collections.abc import Mapping
from typing import Any

from tfprov.runtime.lazy_tensorflow import graph_api
from tfprov.runtime.progress import Reporter, say
from tfprov.runtime.signals import Signals


class Hook:
    """The five calls, doing nothing."""

    def begin(self) -> None:
        """Before the graph is closed."""

    def after_create_session(self, _session: Any, _coordinator: Any, /) -> None:
        """At the start, and again after every lost ps."""

    def before_run(self, _context: Any, /) -> Any:
        """Return what to fetch along with the step, or None."""

    def after_run(self, _context: Any, _values: Any, /) -> None:
        """After every step."""

    def end(self, _session: Any, /) -> None:
        """After the loop, unless it ended in an error."""


class Ending(Hook):
    """Ends the loop at `train_steps`, or after the step in which a signal came; `step` is the last one seen.

    `restored` is the step of the model that the chief's session began with, None for a new model and for other tasks.
    It tells the coordinator, not the run context: the program may then still run a last `session.run` for its results,
    and a task that joins a finished training takes no step at all. (TF1's input queues are closed by then.)
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
        """Find the step that all tasks share."""
        self._global_step = graph_api().train.get_global_step()
        if self._global_step is None:
            raise RuntimeError("no global step: call tf.compat.v1.train.get_or_create_global_step() in task.device()")

    def after_create_session(self, session: Any, coordinator: Any, /) -> None:
        """Look at the step before the first one is taken."""
        self._coordinator = coordinator
        self._see(session.run(self._global_step))

    def before_run(self, _context: Any, /) -> Any:
        """Fetch the step with the program's own fetches."""
        return graph_api().train.SessionRunArgs(self._global_step)

    def after_run(self, context: Any, values: Any, /) -> None:
        """See the step; near the end read it anew.

        The fetched one may be from before this update and before one of every other replica. Read anew, each replica
        begins its last step before the end, so that the training takes at most `replicas - 1` steps too many.
        """
        self.step = int(values.results)
        self._see(context.session.run(self._global_step) if self.near else values.results)

    def _see(self, step: Any) -> None:
        self.step = int(step)
        if self.finished or self.signals.number:
            self._coordinator.request_stop()


class Release(Hook):
    """Lets the others out of a synchronous training.

    SyncReplicasOptimizer makes every replica wait for a token after its step, and a token takes the gradients of all:
    a replica that began a step just before the last one ended would wait for ever for one that has left. So whoever
    leaves puts tokens there for everybody else.
    """

    def __init__(self, replicas: int) -> None:
        self.replicas = replicas
        self._tokens: list[Any] = []

    def begin(self) -> None:
        """Find the queue of the tokens, if there is one: the graph may not be added to later."""
        v1 = graph_api()
        for queue in [operation for operation in v1.get_default_graph().get_operations() if _holds_tokens(operation)]:
            tokens = v1.zeros([self.replicas], queue.get_attr("component_types")[0])
            self._tokens.append(v1.raw_ops.QueueEnqueueManyV2(handle=queue.outputs[0], components=[tokens]))

    def end(self, session: Any, /) -> None:
        """Put them; a chief that has left already has closed the queue, which ends the wait of the others as well."""
        with contextlib.suppress(graph_api().errors.CancelledError):
            session.run(self._tokens)


def _holds_tokens(operation: Any) -> bool:
    return bool(operation.type == "FIFOQueueV2" and operation.get_attr("shared_name") == b"sync_token_q")


class Progress(Hook):
    """Prints `step 400 loss 0.0312` every `every` steps; the values are fetched only in the step that prints them."""

    def __init__(self, ending: Ending, every: int, values: Mapping[str, Any]) -> None:
        self.ending, self.every, self.values = ending, every, dict(values)
        self._next = 0

    def after_create_session(self, _session: Any, _coordinator: Any, /) -> None:
        """Start from the step the training resumes at: a recovery may have gone back."""
        self._plan(self.ending.step)

    def before_run(self, _context: Any, /) -> Any:
        """Fetch the values when they are due."""
        return graph_api().train.SessionRunArgs(self.values) if self.ending.step >= self._next else None

    def after_run(self, _context: Any, values: Any, /) -> None:
        """Print them."""
        if values.results is not None:
            figures = " ".join(f"{name} {float(value):.4g}" for name, value in values.results.items())
            say(f"step {self.ending.step} {figures}")
            self._plan(self.ending.step)

    def _plan(self, step: int) -> None:
        self._next = step - step % self.every + self.every


class Rate(Hook):
    """Writes `global_step/sec`, the steps of all tasks in a second of the clock, every `every` steps.

    TensorFlow's StepCounterHook does the same, and warns of a step that did not grow whenever it read the step once
    after and once before an update, which resource variables leave open.
    """

    def __init__(self, ending: Ending, every: int, directory: str) -> None:
        self.ending, self.every, self.directory = ending, every, directory
        self._from = (0, 0.0)

    def after_create_session(self, _session: Any, _coordinator: Any, /) -> None:
        """Measure from here: the time without a session is not training."""
        self._from = (self.ending.step, time.monotonic())

    def after_run(self, _context: Any, _values: Any, /) -> None:
        """Write when it is due."""
        step, now = self.ending.step, time.monotonic()
        steps, seconds = step - self._from[0], now - self._from[1]
        if steps >= self.every and seconds > 0:
            self._from = (step, now)
            self._write(step, steps / seconds)

    def _write(self, step: int, rate: float) -> None:
        summary = graph_api().Summary()
        summary.value.add(tag="global_step/sec", simple_value=rate)
        graph_api().summary.FileWriterCache.get(self.directory).add_summary(summary, step)


class Reporting(Hook):
    """Keeps `progress.json` up to date."""

    def __init__(self, ending: Ending, reporter: Reporter) -> None:
        self.ending, self.reporter = ending, reporter

    def after_create_session(self, _session: Any, _coordinator: Any, /) -> None:
        """Say where the training begins, or goes on."""
        self.reporter.begin(self.ending.step, self.ending.restored)

    def after_run(self, _context: Any, _values: Any, /) -> None:
        """Count the step."""
        self.reporter.stepped(self.ending.step)

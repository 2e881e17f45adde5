"""The loop of a synchronous training: steps that all replicas take at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from tfprov.runtime.eager.loop import Training
from tfprov.runtime.lazy_tensorflow import tensorflow


def part(meet: Callable[[], object], lost: type[Exception]) -> None:
    """Leave the other replicas after `meet`, which waits until all have called it, and raises `lost` when one is gone.

    Who has met the others may leave while they still read its part of the result, and would be lost to them. So all meet
    twice: when the first time is over, all have saved, and nobody leaves before all are through it; a loss in the second
    is a replica that has left.
    """
    meet()
    with contextlib.suppress(lost):
        meet()


def leave_together(strategy: Any) -> None:
    """Wait for all replicas: one that leaves earlier counts as lost to the others. Raises OpError when one is gone."""
    tf = tensorflow()

    def nothing() -> Any:
        return strategy.reduce("SUM", strategy.run(tf.zeros, ([],)), axis=None)

    part(tf.function(nothing, autograph=False), tf.errors.OpError)


class SynchronousTraining(Training):
    """Steps that all replicas take at once. Requests to stop or save are summed with the loss, in every step."""

    _result: tuple[float, ...] = ()

    def should_stop(self) -> bool:
        """Whether `train_steps` are taken, or any replica received a signal: none can go on alone."""
        return self._is_last_step(self.step) or bool(self._requests()[0])

    def is_save_due(self) -> bool:
        """Whether a save is due by the step, or by the chief's clock."""
        return self.is_due_by_steps() or bool(self._requests()[1])

    def stop_reason(self) -> str:
        """Return the signal, and whether it came to another task."""
        return super().stop_reason() or ("a signal to another task" if self._requests()[0] else "")

    def compile(self, function: Callable[..., Any]) -> Any:
        """Return the step; it sums loss, examples and requests over all replicas."""
        tf, strategy, counter = tensorflow(), self.strategy, self.counter

        def replica(requests: Any, *batch: Any) -> Any:
            loss = tf.cast(function(*batch), tf.float32)
            return tf.concat([[loss, tf.cast(tf.shape(batch[0])[0], tf.float32)], requests], 0)

        def step(batches: Any, requests: Any) -> Any:
            batch = next(batches)
            batch = batch if isinstance(batch, tuple) else (batch,)
            summed = strategy.reduce("SUM", strategy.run(replica, (requests, *batch)), axis=None)
            counter.assign_add(1)
            return summed

        return tf.function(step)

    def take_step(self, compiled: Any, batches: Any) -> None:
        """Take one step with all others."""
        tf = tensorflow()
        save = self.is_chief and self.is_due_by_time()
        requests = tf.constant([self.signals.number, save], tf.float32)
        self._result = tuple(map(float, compiled(batches, requests).numpy()))
        self.step += 1
        self.report.examples = round(self._result[1] / self.strategy.num_replicas_in_sync)

    def count_steps(self, count: int, loss: float) -> None:
        """Count steps that `Model.fit` took with all others, and learn what the others request."""
        tf = tensorflow()
        requests = [self.signals.number, self.is_chief and self.is_due_by_time()]
        summed = self._summed(tf.constant([loss, 0, *requests], tf.float32))
        self._result = tuple(map(float, summed.numpy()))
        self.counter.assign_add(count)
        self.step += count
        self.after_step()

    @cached_property
    def _summed(self) -> Callable[[Any], Any]:
        tf, strategy = tensorflow(), self.strategy

        def summed(values: Any) -> Any:
            return strategy.reduce("SUM", strategy.run(tf.identity, (values,)), axis=None)

        compiled: Callable[[Any], Any] = tf.function(summed, autograph=False)
        return compiled

    def loss(self) -> float | None:
        """Return the mean over the replicas."""
        return self._result[0] / self.strategy.num_replicas_in_sync if self._result else None

    def wait_for_steps(self) -> int:
        """Return the step: none is running."""
        return self.step

    def broadcast(self, variables: Sequence[Any]) -> None:
        """Assign every variable the value of the first replica, the chief; this waits for all replicas."""
        tf, strategy = tensorflow(), self.strategy

        def first(variable: Any) -> Any:
            value = tf.cast(variable, tf.int32) if variable.dtype.is_bool else variable.read_value()
            me = tf.distribute.get_replica_context().replica_id_in_sync_group
            return value if int(tf.get_static_value(me)) == 0 else tf.zeros_like(value)

        def broadcast() -> None:
            for variable in variables:
                value = strategy.reduce("SUM", strategy.run(first, (variable,)), axis=None)
                variable.assign(tf.cast(value, variable.dtype))

        tf.function(broadcast, autograph=False)()

    def disconnect(self) -> None:
        """Wait for those that still save."""
        leave_together(self.strategy)

    def _requests(self) -> tuple[float, ...]:
        return self._result[2:] or (0.0, 0.0)

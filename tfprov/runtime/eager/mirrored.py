"""MultiWorkerMirroredStrategy on separate machines: replicas that step together, and restart together.

Every task has all variables, and gradients are summed in a ring over gRPC. Only the chief has checkpoints, so it sends
the restored values to the others. A step needs all replicas, so a lost one ends them all.

Keras 3 brings model and optimizer. Its `Model.fit` works in a task that is alone; among several it ends with a
ValueError ("Attempt to convert a value (PerReplica…"), as it does under ParameterServerStrategy.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tfprov.runtime.eager.loop import Training, TrainingOptions
from tfprov.runtime.eager.member import (
    Batches,
    EagerTask,
    Evaluator,
    cluster_resolver,
    evaluator,
    peers,
    read_eager_wiring,
    startup_timeout,
)
from tfprov.runtime.join_cluster import checkpoint_dir
from tfprov.runtime.lazy_tensorflow import tensorflow
from tfprov.runtime.signals import Signals
from tfprov.wiring import Wiring, WiringError

JOBS = ("chief", "worker")


@dataclass(frozen=True)
class Replica(EagerTask):
    """A replica: one task of a synchronous training."""

    def batches(self, make: Batches) -> Any:
        """Return this task's batches: its shard is its index among the replicas."""
        return iter(
            self.strategy.distribute_datasets_from_function(
                lambda context: make(context.input_pipeline_id, context.num_input_pipelines)
            )
        )

    def loop(self, options: TrainingOptions, signals: Signals) -> Training:
        """Return the training of this replica."""
        return SynchronousTraining(self.name, self.is_chief, self.strategy, options, signals)

    def required_peers(self) -> dict[str, str]:
        """Return the peers to watch: the chief watches all; the others watch the chief and exit when it does."""
        others = peers(self.wiring, *JOBS)
        if self.is_chief:
            return others
        chief = "chief/0" if "chief" in self.wiring.cluster else "worker/0"
        return {chief: others[chief]}


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
        """Wait for all: a replica that leaves earlier counts as lost to those that still save."""
        tf, strategy = tensorflow(), self.strategy

        def nothing() -> Any:
            return strategy.reduce("SUM", strategy.run(tf.zeros, ([],)), axis=None)

        tf.function(nothing, autograph=False)()

    def _requests(self) -> tuple[float, ...]:
        return self._result[2:] or (0.0, 0.0)


def multi_worker_mirrored(*, max_wait_secs: float = 300) -> Evaluator | Replica:
    """Wait for all tasks of the cluster and return this one; after `max_wait_secs` seconds it ends with code 1.

    The chief is `chief/0`, or `worker/0` where there is no chief. An evaluator waits for nobody. Without a cluster the
    program trains alone, on every GPU of the machine.
    """
    wiring = read_eager_wiring(_check)
    if wiring.job == "evaluator":
        return evaluator(wiring)
    strategy = tensorflow().distribute.MultiWorkerMirroredStrategy
    if len(peers(wiring, *JOBS)) == 0:
        return Replica(wiring, checkpoint_dir(), strategy())
    with startup_timeout(wiring, peers(wiring, *JOBS), max_wait_secs):
        return Replica(wiring, checkpoint_dir(), strategy(cluster_resolver(wiring)))


def _check(wiring: Wiring) -> None:
    if others := sorted(set(wiring.cluster) - set(JOBS)):
        raise WiringError(f"all-reduce knows chief and worker, not {others[0]}: every task has all variables")


DATA_SERVICE = "TFPROV_DATA_SERVICE"
"""The variable with the dispatcher's address, such as `grpc://10.0.0.12:2222`; not set where there is none."""


def served(make: Batches, *, job: str = "train") -> Batches:
    """Return batches for `task.batches` that the data workers make, or `make` itself where there are none.

    There are no shards then: every data worker reads the whole dataset, which must be endless, in its own order, and each
    batch goes to one reader of the same `job`. The files and modules `make` uses must be on the data workers.
    """
    address = os.environ.get(DATA_SERVICE)
    if not address:
        return make

    def from_service(_shard: Any, _shards: int) -> Any:
        service = tensorflow().data.experimental.service
        whole = service.distribute(service.ShardingPolicy.OFF, address, job_name=job)
        return make(0, 1).apply(whole).prefetch(2)

    return from_service

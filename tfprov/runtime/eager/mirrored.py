"""MultiWorkerMirroredStrategy on separate machines: replicas that step together, and restart together.

Every task has all variables and gradients are summed in a ring over gRPC. Only the chief has checkpoints, so what it
restores is given to the others; and since a step needs everybody, one that is lost ends them all.

Keras 3 brings model and optimizer. Its `Model.fit` works in a task that is alone; among several it ends with a
ValueError ("Attempt to convert a value (PerReplica…"), as it does under ParameterServerStrategy.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tfprov.runtime.eager.loop import Options, Training
from tfprov.runtime.eager.member import (
    Batches,
    Evaluator,
    Member,
    checkpoint_dir,
    evaluator,
    patience,
    peers,
    read_wiring,
    resolver,
)
from tfprov.runtime.lazy_tensorflow import tensorflow
from tfprov.runtime.signals import Signals
from tfprov.wiring import Wiring, WiringError

JOBS = ("chief", "worker")


@dataclass(frozen=True)
class Replica(Member):
    """One of those who step together."""

    def batches(self, make: Batches) -> Any:
        """Return this task's batches: its shard is its place among all."""
        return iter(
            self.strategy.distribute_datasets_from_function(
                lambda context: make(context.input_pipeline_id, context.num_input_pipelines)
            )
        )

    def loop(self, options: Options, signals: Signals) -> Training:
        """Return the training of this replica."""
        return Together(self.name, self.is_chief, self.strategy, options, signals)

    def needed(self) -> dict[str, str]:
        """Return whose ports to watch: the chief sees everybody, and whoever sees the chief leave leaves too."""
        others = peers(self.wiring, *JOBS)
        if self.is_chief:
            return others
        chief = "chief/0" if "chief" in self.wiring.cluster else "worker/0"
        return {chief: others[chief]}


class Together(Training):
    """Steps that all replicas take at once. What they must agree on is summed with the loss, in every step."""

    _result: tuple[float, ...] = ()

    def should_stop(self) -> bool:
        """Whether `train_steps` are taken, or a signal came to anyone: nobody can go on alone."""
        return self._reached(self.step) or bool(self._wishes()[0])

    def save_is_due(self) -> bool:
        """Whether it is due by the step, or by the chief's clock."""
        return self.steps_are_due() or bool(self._wishes()[1])

    def why_stopped(self) -> str:
        """Return the signal, if it came to this task."""
        return super().why_stopped() or ("a signal to another task" if self._wishes()[0] else "")

    def compile(self, function: Callable[..., Any]) -> Any:
        """Return the step, with what is summed over all replicas: loss, examples, and the wishes of each task."""
        tf, strategy, counter = tensorflow(), self.strategy, self.counter

        def replica(wishes: Any, *batch: Any) -> Any:
            loss = tf.cast(function(*batch), tf.float32)
            return tf.concat([[loss, tf.cast(tf.shape(batch[0])[0], tf.float32)], wishes], 0)

        def step(batches: Any, wishes: Any) -> Any:
            batch = next(batches)
            batch = batch if isinstance(batch, tuple) else (batch,)
            summed = strategy.reduce("SUM", strategy.run(replica, (wishes, *batch)), axis=None)
            counter.assign_add(1)
            return summed

        return tf.function(step)

    def take(self, compiled: Any, batches: Any) -> None:
        """Take one step with all others."""
        tf = tensorflow()
        save = self.is_chief and self.time_is_due()
        wishes = tf.constant([self.signals.number, save], tf.float32)
        self._result = tuple(map(float, compiled(batches, wishes).numpy()))
        self.step += 1
        self.report.examples = round(self._result[1] / self.strategy.num_replicas_in_sync)

    def loss(self) -> float | None:
        """Return the mean over the replicas."""
        return self._result[0] / self.strategy.num_replicas_in_sync if self._result else None

    def settle(self) -> int:
        """Return the step: none is under way."""
        return self.step

    def share(self, variables: Sequence[Any]) -> None:
        """Give every variable the first replica's value, which is the chief's, and see that all are there."""
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

    def part(self) -> None:
        """Wait for all: who leaves earlier would be lost to those who still save."""
        tf, strategy = tensorflow(), self.strategy

        def nothing() -> Any:
            return strategy.reduce("SUM", strategy.run(tf.zeros, ([],)), axis=None)

        tf.function(nothing, autograph=False)()

    def _wishes(self) -> tuple[float, ...]:
        return self._result[2:] or (0.0, 0.0)


def multi_worker_mirrored(*, max_wait_secs: float = 300) -> Evaluator | Replica:
    """Wait for all tasks of the cluster and return this one; after `max_wait_secs` seconds it ends with code 1.

    The chief is `chief/0`, or `worker/0` where there is no chief. An evaluator waits for nobody. Without a cluster the
    program trains alone, on every GPU of the machine.
    """
    wiring = read_wiring(_check)
    if wiring.job == "evaluator":
        return evaluator(wiring)
    strategy = tensorflow().distribute.MultiWorkerMirroredStrategy
    if len(peers(wiring, *JOBS)) == 0:
        return Replica(wiring, checkpoint_dir(), strategy())
    with patience(wiring, peers(wiring, *JOBS), max_wait_secs):
        return Replica(wiring, checkpoint_dir(), strategy(resolver(wiring)))


def _check(wiring: Wiring) -> None:
    if others := sorted(set(wiring.cluster) - set(JOBS)):
        raise WiringError(f"all-reduce knows chief and worker, not {others[0]}: every task has all variables")
    if not wiring.cluster and not wiring.is_chief and wiring.job != "evaluator":
        raise WiringError(f"{wiring.job}/{wiring.index} has no cluster: give TF_CONFIG")


DATA_SERVICE = "TFPROV_DATA_SERVICE"
"""The variable with the dispatcher's address, such as `grpc://10.0.0.12:2222`; not set where there is none."""


def served(make: Batches, *, job: str = "train") -> Batches:
    """Return what `task.batches` takes: batches that the data workers make, or `make` itself where there are none.

    Then nobody has a shard: every data worker goes through the whole dataset, which is to be endless, in an order of its
    own, and each batch goes to one of those who read under the same `job`. What `make` uses must be on the data workers.
    """
    address = os.environ.get(DATA_SERVICE)
    if not address:
        return make

    def from_service(_shard: Any, _shards: int) -> Any:
        service = tensorflow().data.experimental.service
        whole = service.distribute(service.ShardingPolicy.OFF, address, job_name=job)
        return make(0, 1).apply(whole).prefetch(2)

    return from_service

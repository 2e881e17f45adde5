"""MultiWorkerMirroredStrategy on separate machines: replicas that step together, and restart together.

Every task has all variables, and gradients are summed in a ring over gRPC. Only the chief has checkpoints, so it sends
the restored values to the others. A step needs all replicas, so a lost one ends them all.

Keras 3 brings model and optimizer. Its `Model.fit` works in a task that is alone; among several,
`Replica.fit` needs Keras 2.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from tfprov.runtime.eager.fit import check_keras, fit
from tfprov.runtime.eager.loop import TrainingOptions
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
from tfprov.runtime.eager.mirrored_training import SynchronousTraining, leave_together
from tfprov.runtime.join_cluster import checkpoint_dir
from tfprov.runtime.lazy_tensorflow import eager_context, tensorflow
from tfprov.runtime.signals import Signals
from tfprov.wiring import Wiring, WiringError

JOBS = ("chief", "worker")
HEARTBEAT_TIMEOUT = 60.0
"""Seconds without a heartbeat after which a replica is lost. TensorFlow's own 10 can pass on a core that has other work.

It is longer than `PeerWatch` needs: a task that has ended is noticed there, after 2 s, and a host that is cut off after 22.
"""


@dataclass(frozen=True)
class Replica(EagerTask):
    """A replica: one task of a synchronous training."""

    def batches(self, make: Batches) -> Any:
        """Return this task's batches: its shard is its index among the replicas."""
        return iter(self._distributed(make))

    def fit(  # noqa: PLR0913 - keywords with defaults
        self,
        model: Any,
        make: Batches,
        *,
        train_steps: int,
        save_every_steps: int | None = None,
        save_every_secs: float | None = None,
        keep: int = 5,
        progress_every_steps: int = 200,
        steps_per_epoch: int | None = None,
        **options: Any,
    ) -> None:
        """Train a compiled Keras `model` with its own `fit`, on the batches that `make` makes as for `batches`.

        Stops, saves, resumes and reports as `training` does. `options` are other arguments of `fit`, such as
        `callbacks`. Ends the task with code 2 where Keras cannot do it: Keras 3 with several workers.
        """
        check_keras(model, self.name, None if self.is_alone else partial(leave_together, self.strategy))
        model.optimizer.build(model.trainable_variables)  # so that a restored one has all of its variables
        with self.training(
            {"model": model, "optimizer": model.optimizer},
            train_steps=train_steps,
            save_every_steps=save_every_steps,
            save_every_secs=save_every_secs,
            keep=keep,
            progress_every_steps=progress_every_steps,
        ) as training:
            assert isinstance(training, SynchronousTraining)
            fit(training, model, self._distributed(make), steps_per_epoch, options)

    def _distributed(self, make: Batches) -> Any:
        return self.strategy.distribute_datasets_from_function(
            lambda context: make(context.input_pipeline_id, context.num_input_pipelines)
        )

    def loop(self, options: TrainingOptions, signals: Signals) -> SynchronousTraining:
        """Return the training of this replica."""
        return SynchronousTraining(self.name, self.is_chief, self.strategy, options, signals)

    def required_peers(self) -> dict[str, str]:
        """Return the peers to watch: the chief watches all; the others watch the chief and exit when it does."""
        others = peers(self.wiring, *JOBS)
        if self.is_chief:
            return others
        chief = "chief/0" if "chief" in self.wiring.cluster else "worker/0"
        return {chief: others[chief]}


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
    with startup_timeout(wiring, peers(wiring, *JOBS), max_wait_secs), heartbeat_timeout(eager_context()):
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


@contextlib.contextmanager
def heartbeat_timeout(context: Any, seconds: float = HEARTBEAT_TIMEOUT) -> Iterator[None]:
    """Let a coordination service that is configured in this block wait `seconds` for each heartbeat.

    `context` is TensorFlow's context of eager execution. A strategy configures the service in its constructor, which takes
    no timeout, so the call is completed here. A TensorFlow without the service is left as it is.
    """
    configure = getattr(context, "configure_coordination_service", None)
    if configure is None:
        yield
        return

    def with_timeout(*args: Any, **options: Any) -> None:
        configure(*args, **{"heartbeat_timeout_in_ms": round(seconds * 1000), **options})

    context.configure_coordination_service = with_timeout
    try:
        yield
    finally:
        del context.configure_coordination_service

"""ParameterServerStrategy on separate machines: the chief schedules steps on workers; variables are on the ps.

Workers and ps only serve. A step of a lost worker is scheduled on another. With a ps its variables are lost, so the
chief exits; after a restart it goes on from its checkpoint once the ps is back.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
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
from tfprov.runtime.eager.mirrored import Replica, multi_worker_mirrored
from tfprov.runtime.join_cluster import checkpoint_dir, ps_devices, serve
from tfprov.runtime.lazy_tensorflow import graph_api, tensorflow
from tfprov.runtime.peer_watch import unreachable_peers
from tfprov.runtime.signals import Signals
from tfprov.wiring import Wiring, WiringError

QUEUED_SECONDS = 0.5
"""Seconds of work that is scheduled in advance: a signal or a save waits for it."""
MIN_QUEUED, MAX_QUEUED = 4, 128
"""Scheduled steps per worker, whatever their duration: enough that none is idle, few enough to end soon."""
SIGNAL_GRACE = 10.0
"""Seconds running steps have after a signal: they wait forever when every worker is lost."""
_MIN_THREADS = 4
"""Minimum threads for operations of a server. Two were enough in every trial; idle ones cost nothing."""


@dataclass(frozen=True)
class Chief(EagerTask):
    """The task that runs the program, and `coordinator`, the tf.distribute.coordinator.ClusterCoordinator it uses."""

    coordinator: Any
    max_wait_secs: float = 300

    def batches(self, make: Batches) -> Any:
        """Return the batches of all workers, each made on its own worker, with one shard per worker."""
        coordinators = tensorflow().distribute.coordinator
        workers = len(self.wiring.cluster["worker"])

        def of_worker() -> Any:
            index = coordinators.experimental_get_current_worker_index()
            return self.strategy.distribute_datasets_from_function(lambda _: make(index, workers))

        return iter(self.coordinator.create_per_worker_dataset(of_worker))

    def loop(self, options: TrainingOptions, signals: Signals) -> Training:
        """Return the training loop that this task leads."""
        return ScheduledTraining(self, options, signals)

    def required_peers(self) -> dict[str, str]:
        """Return the ps; workers may be lost."""
        return peers(self.wiring, "ps")


class ScheduledTraining(Training):
    """Steps that workers take asynchronously; `step` is the last one read from its ps."""

    def __init__(self, chief: Chief, options: TrainingOptions, signals: Signals) -> None:
        super().__init__(chief.name, True, chief.strategy, options, signals)
        self.io_device = f"/job:{chief.wiring.job}/replica:0/task:{chief.wiring.index}/device:CPU:0"
        self.coordinator, self.workers = chief.coordinator, len(chief.wiring.cluster["worker"])
        self._addresses, self._patience = peers(chief.wiring, "worker"), chief.max_wait_secs
        self._last_end = (0, time.monotonic())
        self._lost: list[str] = []
        self._scheduled = 0
        self._limit = float(MIN_QUEUED * self.workers)
        self._values: deque[Any] = deque(maxlen=2 * MAX_QUEUED * self.workers)
        self._last_sample = (0, time.monotonic())

    def should_stop(self) -> bool:
        """Whether `train_steps` are scheduled, or a signal was received."""
        return self._is_last_step(self._first + self._scheduled) or bool(self.stop_reason())

    def stop_reason(self) -> str:
        """Return the signal that stopped the loop, or the workers that are all lost, or an empty text."""
        lost = f"the loss of {', '.join(self._lost)}: no answer for {self._patience:g} s" if self._lost else ""
        return super().stop_reason() or lost

    def stop_code(self) -> int:
        """Return 1 where all workers are lost."""
        return 1 if self._lost and not self.signals.number else super().stop_code()

    def is_due_by_steps(self) -> bool:
        """Whether `save_every_steps` were scheduled since the last save, which waits for running ones."""
        steps = self.options.save_every_steps
        return steps is not None and self._first + self._scheduled - self._saved >= steps

    def compile(self, function: Callable[..., Any]) -> Any:
        """Return the step of one worker."""
        tf, strategy, counter = tensorflow(), self.strategy, self.counter

        def replica(*batch: Any) -> Any:
            return tf.stack([tf.cast(function(*batch), tf.float32), tf.cast(tf.shape(batch[0])[0], tf.float32)])

        def step(batches: Any) -> Any:
            batch = next(batches)
            batch = batch if isinstance(batch, tuple) else (batch,)
            result = strategy.reduce("MEAN", strategy.run(replica, batch), axis=None)
            counter.assign_add(1)
            return result

        return tf.function(step)

    def take_step(self, compiled: Any, batches: Any) -> None:
        """Schedule a step; wait while more are queued than half a second's work."""
        self._values.append(self.coordinator.schedule(compiled, (batches,)))
        self._scheduled += 1
        if self._running_steps() >= self._limit:
            self._wait()

    def wait_for_steps(self) -> int:
        """Wait for the running steps; after a signal at most SIGNAL_GRACE seconds."""
        signalled_at = None
        while not self.coordinator.done():
            signalled_at = signalled_at or (time.monotonic() if self.signals.number else None)
            if signalled_at and time.monotonic() - signalled_at > SIGNAL_GRACE:
                break
            if self._are_workers_lost():
                break
            time.sleep(0.005)
        return int(self.counter.numpy())

    def loss(self) -> float | None:
        """Return the loss of an ended step; every worker may be behind by one."""
        ended = len(self._values) - 1 - self._running_steps() - self.workers
        if ended < 0:
            return None
        try:
            loss, examples = map(float, self._values[ended].get())
        except tensorflow().errors.OpError:
            return None
        self.report.examples = round(examples)
        return loss

    def broadcast(self, variables: Sequence[Any]) -> None:
        """Do nothing: each variable exists once, on a ps."""

    def disconnect(self) -> None:
        """Do nothing: workers and ps serve until they are stopped."""

    def _running_steps(self) -> int:
        # A step whose worker was lost after it was counted is taken again, and counts twice.
        return max(0, self._scheduled - (self.step - self._first))

    def _are_workers_lost(self) -> bool:
        """Whether no step has ended for `max_wait_secs`, and then no worker answers: TensorFlow waits for one for ever."""
        now = time.monotonic()
        if self.step != self._last_end[0]:
            self._last_end = (self.step, now)
        elif not self._lost and now - self._last_end[1] >= self._patience:
            silent = unreachable_peers(self._addresses)
            self._lost = silent if len(silent) == len(self._addresses) else []
            self._last_end = (self.step, time.monotonic())
        return bool(self._lost)

    def _wait(self) -> None:
        while self._running_steps() > self._limit / 2 and not (self.signals.number or self._are_workers_lost()):
            self.coordinator.done()  # raises the error of a failed step, after which the count would stand still
            self.step = int(self.counter.numpy())
            before, since = self._last_sample
            now = time.monotonic()
            rate = (self.step - before) / (now - since) if now > since else 0.0
            if self.step > before:
                self._last_sample = (self.step, now)
                self._limit = min(max(rate * QUEUED_SECONDS, MIN_QUEUED * self.workers), MAX_QUEUED * self.workers)
            time.sleep(min(max((self._running_steps() - self._limit / 2) / max(rate, 1.0), 0.002), 0.1))


def parameter_server(*, min_shard_bytes: int = 256 * 1024, max_wait_secs: float = 300) -> Chief | Evaluator | Replica:
    """Serve, as a ps or worker, until a signal ends the task; return on the chief, once all of them answer.

    With several ps a variable is split among them, into parts of at least `min_shard_bytes`. After `max_wait_secs`
    seconds without an answer the chief ends with code 1: of any ps or worker at the start, of all workers later. An
    evaluator waits for nobody. Without a cluster the program trains alone.
    """
    wiring = read_eager_wiring(_check)
    if wiring.job == "evaluator":
        return evaluator(wiring)
    if not peers(wiring, "ps", "worker", "chief"):
        return multi_worker_mirrored()
    if wiring.job != "chief":
        config = graph_api().ConfigProto(inter_op_parallelism_threads=server_threads(), **ps_devices(wiring))
        serve(wiring, config)
    distribute = tensorflow().distribute
    partitioners, parts = distribute.experimental.partitioners, len(wiring.cluster["ps"])
    with startup_timeout(wiring, peers(wiring, "ps", "worker"), max_wait_secs):
        strategy = distribute.ParameterServerStrategy(
            cluster_resolver(wiring), partitioners.MinSizePartitioner(min_shard_bytes, parts)
        )
        coordinator = distribute.coordinator.ClusterCoordinator(strategy)
        prepare_copies(wiring)
        return Chief(wiring, checkpoint_dir(), strategy, coordinator, max_wait_secs)


def prepare_copies(wiring: Wiring) -> None:
    """Copy two numbers from each device of the others to this task, before any step runs.

    The first copy from a device adds an entry to a list of TensorFlow (2.21: EagerClusterFunctionLibraryRuntime), and may
    move the list while another thread reads an entry: the chief then crashes. The results of steps are copied by a thread
    per worker. A lost task is skipped: its steps go to other workers, and a training ends with its ps.
    """
    tf = tensorflow()
    devices = [device for device in tf.config.list_logical_devices() if device.device_type in {"CPU", "GPU"}]
    for device in devices:
        if f"/job:{wiring.job}/" in device.name:
            continue
        with contextlib.suppress(tf.errors.OpError):
            with tf.device(device.name):
                numbers = tf.zeros([2])  # as a step returns them
            with tf.device(f"/job:{wiring.job}"):  # as ClusterCoordinator writes it
                tf.identity(numbers)


def server_threads() -> int:
    """Return how many operations a server may have under way: with one thread, as on one core, a step waits for itself."""
    return max(_MIN_THREADS, len(os.sched_getaffinity(0)))


def _check(wiring: Wiring) -> None:
    jobs = set(wiring.cluster)
    if wiring.job == "evaluator":  # it reads files, also those of a task that trains alone
        return
    if wiring.cluster and len(peers(wiring, *jobs)) and (missing := sorted({"chief", "ps", "worker"} - jobs)):
        raise WiringError(f"a parameter_server training needs a chief, workers and ps: there is no {missing[0]}")

"""A task of a TF2 strategy: its peers, its wait for them, and its exit when one of them is lost."""

from __future__ import annotations

import contextlib
import re
import threading
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tfprov.runtime.eager.evaluator import evaluate_objects
from tfprov.runtime.eager.loop import Training, TrainingOptions
from tfprov.runtime.export import FOLDER, export_model, write_aside
from tfprov.runtime.join_cluster import ClusterTask, check_cluster, checkpoint_dir, cluster_spec, read_wiring
from tfprov.runtime.lazy_tensorflow import tensorflow
from tfprov.runtime.peer_watch import PeerWatch, unreachable_peers
from tfprov.runtime.signals import Signals, die, exit_now
from tfprov.wiring import OUTSIDE, Wiring, WiringError

_STACK = re.compile(r"\s|$|Graph execution error:|Detected at node |RPC: |The error could be from a previous operation")
"""The beginning of a line in an error of TensorFlow that is about where it happened."""


Batches = typing.Callable[[Any, int], Any]
"""Makes the endless tf.data.Dataset of batches of one shard, from its number (which may be a tensor) and the number of
shards."""


@dataclass(frozen=True)
class EagerTask(ClusterTask, ABC):
    """One task that trains, with its tf.distribute strategy; variables are created in `strategy.scope()`."""

    strategy: Any

    def __post_init__(self) -> None:
        """Start to watch the peers: from here on TensorFlow waits for them."""
        self._watch.start()

    @cached_property
    def _watch(self) -> PeerWatch:
        return PeerWatch(self.required_peers(), self._lost)

    def evaluate(
        self,
        objects: Mapping[str, Any],
        measure: Callable[[], Mapping[str, float]],
        *,
        train_steps: int,
        best: str | None = None,
    ) -> dict[str, float]:
        """Measure every checkpoint in `checkpoint_dir`, which is the chief's, until that of `train_steps`.

        For an evaluator, and for a task that is alone at its end. `objects` are those of `training` that `measure`
        needs, by the same names. Returns the last result; see `evaluator.evaluate_objects`.
        """
        return evaluate_objects(objects, measure, self.checkpoint_dir, train_steps, best)

    def export(self, model: Any, version: int, signatures: Any = None) -> str:
        """Export `model` as a SavedModel to `export/VERSION` in the checkpoint directory, for the role `serving`.

        Within no step; `version` is usually the step. The chief writes it, whole or not at all. Without
        a ps every worker calls it, because some variables can be read only by all together; elsewhere other tasks do
        nothing. Returns the path. Raises ValueError for a negative version.
        """
        path = f"{self.checkpoint_dir.rstrip('/')}/{FOLDER}/{version}"
        if self.is_chief:
            export_model(model, version, path.rpartition("/")[0], signatures)
        elif self.wiring.job == "worker" and "ps" not in self.wiring.cluster:
            write_aside(model, signatures)
        return path

    @abstractmethod
    def batches(self, make: Batches) -> Any:
        """Return the batches for `training.run`: of this task, or of all workers where one task leads them."""

    @contextlib.contextmanager
    def training(  # noqa: PLR0913 - keywords with defaults
        self,
        objects: Mapping[str, Any],
        *,
        train_steps: int | None = None,
        save_every_steps: int | None = None,
        save_every_secs: float | None = None,
        keep: int = 5,
        progress_every_steps: int = 200,
    ) -> Iterator[Training]:
        """Train until the global step is `train_steps`; open it once every variable is created.

        `objects` are what is saved and restored, by name: modules, optimizers, variables. The chief restores the newest
        whole checkpoint, saves `model.ckpt-STEP` in its `checkpoint_dir` every `save_every_steps` steps or
        `save_every_secs` seconds (60 when neither is set) and at the end, keeps the newest `keep`, and prints the
        loss every `progress_every_steps`.

        On a signal the running steps end, the chief saves, and the task exits with 128 + signal. When a required task is
        lost, this one exits with code 1: after a restart it goes on from the checkpoint.
        """
        if save_every_steps is None and save_every_secs is None:
            save_every_secs = 60
        options = TrainingOptions(train_steps, save_every_steps, save_every_secs, keep, progress_every_steps)
        signals = Signals()
        training = self.loop(options, signals)
        with signals.handled():
            try:
                training.begin(self.checkpoint_dir, objects)
                signals.orderly = True
                try:
                    yield training
                except tensorflow().errors.OutOfRangeError:
                    if self.required_peers():  # a step of several tasks has no end that all of them see
                        die(f"{self.name}: the data of a task ended; add `.repeat()` to the dataset", 2)
                training.finish()
            except tensorflow().errors.OpError as error:
                self._exit_if_task_lost(error)
                raise
            finally:
                self._watch.stop()

    def fit(self, model: Any, make: Batches, *, train_steps: int, **options: Any) -> None:
        """Train a Keras model with its own `fit`: see `mirrored.Replica`; the tasks of other strategies end here."""
        die(f"{self.name}: `fit` trains with `multi_worker_mirrored`; write the loop with `task.training`", 2)

    @abstractmethod
    def loop(self, options: TrainingOptions, signals: Signals) -> Training:
        """Return the training loop of the strategy."""

    @abstractmethod
    def required_peers(self) -> dict[str, str]:
        """Return the tasks this one cannot train without, name to address."""

    def _lost(self, peer: str) -> None:
        """Exit at once: the main thread may be in a call into TensorFlow that never returns."""
        exit_now(f"error: {self.name}: lost {peer}; what was trained since the last checkpoint is gone with it", 1)

    def _exit_if_task_lost(self, error: Any) -> None:
        """Exit with one line when a lost task caused `error`; return when the program did."""
        errors = tensorflow().errors
        if lost := unreachable_peers(self.required_peers()):
            self._lost(", ".join(lost))
        # DeadlineExceededError: a heartbeat had no answer.
        lost_task = errors.UnavailableError, errors.AbortedError, errors.CancelledError, errors.DeadlineExceededError
        if isinstance(error, lost_task):
            exit_now(f"error: {self.name}: lost another task: {reason_of(error)}", 1)


def reason_of(error: Exception) -> str:
    """Return the line that has the reason in the message of an error of TensorFlow, without its own stack."""
    lines = str(error).splitlines()
    return next((line for line in lines if not _STACK.match(line)), type(error).__name__)


@dataclass(frozen=True)
class Evaluator(EagerTask):
    """The task that only evaluates, with variables of its own."""

    def batches(self, make: Batches) -> Any:
        """Return all batches, in one shard."""
        return iter(make(0, 1))

    def loop(self, options: TrainingOptions, signals: Signals) -> Training:
        """End the task: an evaluator does not train."""
        die(f"{self.name} is not part of the training: let it `evaluate`", 2)

    def required_peers(self) -> dict[str, str]:
        """Return no peers: an evaluator reads files."""
        return {}


def evaluator(wiring: Wiring) -> Evaluator:
    """Return the evaluator's task, with TensorFlow's default strategy."""
    return Evaluator(wiring, checkpoint_dir(), tensorflow().distribute.get_strategy())


def read_eager_wiring(check: Callable[[Wiring], None]) -> Wiring:
    """Return this task's wiring, from the flags or TF_CONFIG; end the program with code 2 if `check` refuses it."""

    def check_all(wiring: Wiring) -> None:
        if wiring.job in OUTSIDE and wiring.job != "evaluator":
            raise WiringError(f"{wiring.job}/{wiring.index} is not part of the training: give it a program of its own")
        check(wiring)
        check_cluster(wiring)

    return read_wiring(check_all)


def peers(wiring: Wiring, *jobs: str) -> dict[str, str]:
    """Return the other tasks of `jobs`, name to address."""
    names = {f"{job}/{index}": at for job in jobs for index, at in enumerate(wiring.cluster.get(job, ()))}
    return {name: at for name, at in names.items() if name != f"{wiring.job}/{wiring.index}"}


@contextlib.contextmanager
def startup_timeout(wiring: Wiring, others: Mapping[str, str], seconds: float) -> Iterator[None]:
    """End the task when the block, in which TensorFlow waits for `others`, takes longer than `seconds`."""
    over = threading.Event()

    def give_up() -> None:
        who = ", ".join(unreachable_peers(others)) or "TensorFlow, though all ports answer"
        if over.is_set():  # they came while they were asked
            return
        exit_now(f"error: {wiring.job}/{wiring.index}: no cluster after {seconds:g} s: no answer from {who}", 1)

    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), give_up)
    timer.daemon = True
    timer.start()
    try:
        with Signals().handled():
            yield
    finally:
        over.set()
        timer.cancel()


def cluster_resolver(wiring: Wiring) -> Any:
    """Return the ClusterResolver of this task, for a strategy."""
    return tensorflow().distribute.cluster_resolver.SimpleClusterResolver(
        cluster_spec(wiring), task_type=wiring.job, task_id=wiring.index, rpc_layer="grpc"
    )

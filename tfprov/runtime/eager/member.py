"""A task of a TF2 strategy: who it is, whom it waits for, and how it leaves when one of those is lost."""

import contextlib
import faulthandler
import os
import re
import signal
import socket
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tfprov.runtime.eager.evaluator import evaluate_objects
from tfprov.runtime.eager.loop import Options, Training
from tfprov.runtime.join_cluster import ALONE, CHECKPOINT_DIR
from tfprov.runtime.lazy_tensorflow import tensorflow
from tfprov.runtime.signals import Signals, die, exit_now
from tfprov.wiring import FLAGS_VARIABLE, OUTSIDE, Wiring, WiringError, from_flags, from_names, from_tf_config

INTERVAL = 1.0
"""Seconds between two looks: less than any task needs to come back, so no restart passes unseen."""
TIMEOUT = 10.0
"""Seconds a peer has to greet: its threads may wait for a core."""
REFUSALS = 2
"""How many looks in a row must fail before a peer is lost."""


def greets(address: str, timeout: float = TIMEOUT) -> bool:
    """Return whether a server answers at `address` (`host:port`) within `timeout` seconds."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout) as connection:
            return bool(connection.recv(1))
    except OSError:
        return False


def silent(peers: Mapping[str, str], timeout: float = 1.0) -> list[str]:
    """Return those of `peers` (name to address) that do not answer, as `ps/0 at h:2222`."""
    return [f"{name} at {address}" for name, address in peers.items() if not greets(address, timeout)]


class Watch:
    """Calls `lost` with each peer that answered once and has left, as `ps/0 at h:2222`, from a thread; `stop` ends it."""

    def __init__(self, peers: Mapping[str, str], lost: Callable[[str], None]) -> None:
        self.peers, self.lost = dict(peers), lost
        self._over = threading.Event()
        # A thread a peer: one that is slow to answer must not hide another that is gone.
        self._threads = [
            threading.Thread(target=self._look, args=peer, name=f"tfprov-{peer[0]}", daemon=True)
            for peer in self.peers.items()
        ]

    def start(self) -> None:
        """Begin to look."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Look no more; what is being asked now is not told."""
        self._over.set()

    def _look(self, name: str, address: str) -> None:
        any_seen, failed = False, 0
        while not self._over.wait(INTERVAL):
            answers = greets(address)
            any_seen, failed = any_seen or answers, 0 if answers else failed + 1
            if any_seen and failed >= REFUSALS and not self._over.is_set():
                self.lost(f"{name} at {address}")
                return


Batches = Callable[[Any, int], Any]
"""Makes the endless tf.data.Dataset of batches of one shard, from its number (which may be a tensor) and how many there
are."""


@dataclass(frozen=True)
class Member(ABC):
    """One task that trains, with its tf.distribute strategy; variables are created in `strategy.scope()`."""

    wiring: Wiring
    checkpoint_dir: str
    strategy: Any

    def __post_init__(self) -> None:
        """Begin to watch: from here on TensorFlow waits for those that are needed."""
        self._watch.start()

    @cached_property
    def _watch(self) -> Watch:
        return Watch(self.needed(), self._lost)

    @property
    def name(self) -> str:
        """Such as `worker/1`."""
        return f"{self.wiring.job}/{self.wiring.index}"

    @property
    def is_chief(self) -> bool:
        """Whether this task saves and reports."""
        return self.wiring.is_chief

    @property
    def is_evaluator(self) -> bool:
        """Whether this task measures what the others train; see `evaluate`."""
        return self.wiring.job == "evaluator"

    @property
    def is_alone(self) -> bool:
        """Whether it is the whole training, and nobody else would evaluate."""
        return not self.is_evaluator and sum(map(len, self.wiring.cluster.values())) <= 1

    def evaluate(
        self,
        objects: Mapping[str, Any],
        measure: Callable[[], Mapping[str, float]],
        *,
        train_steps: int,
        best: str | None = None,
    ) -> dict[str, float]:
        """Measure every checkpoint in `checkpoint_dir`, which is the chief's, until that of `train_steps`.

        What an evaluator does, and a task that is alone at its end. `objects` are those of `training` that `measure`
        needs, by the same names. Returns the last result; see `evaluating.evaluate_objects`.
        """
        return evaluate_objects(objects, measure, self.checkpoint_dir, train_steps, best)

    @abstractmethod
    def batches(self, make: Batches) -> Any:
        """Return the batches of this task, or of all workers where one task leads them: what `training.run` takes."""

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
        """Train until the step, shared by all, is `train_steps`; open it once every variable is created.

        `objects` are what is saved and restored, by name: modules, optimizers, variables. The chief restores the newest
        whole checkpoint, saves `model.ckpt-STEP` in its `checkpoint_dir` every `save_every_steps` steps or
        `save_every_secs` seconds (60 when neither is given) and at the end, keeps the newest `keep`, and prints the
        loss every `progress_every_steps`.

        A signal lets the steps under way end, saves, and leaves with 128 + signal. When a task is lost that the
        training cannot go on without, this one leaves with code 1: started again, it goes on from the checkpoint.
        """
        if save_every_steps is None and save_every_secs is None:
            save_every_secs = 60
        options = Options(train_steps, save_every_steps, save_every_secs, keep, progress_every_steps)
        signals = Signals()
        training = self.loop(options, signals)
        with signals.watched():
            try:
                training.begin(self.checkpoint_dir, objects)
                signals.orderly = True
                yield training
                training.finish()
            except tensorflow().errors.OpError as error:
                self._explain(error)
                raise
            finally:
                self._watch.stop()

    @abstractmethod
    def loop(self, options: Options, signals: Signals) -> Training:
        """Return the training of the strategy."""

    @abstractmethod
    def needed(self) -> dict[str, str]:
        """Return those this task cannot train without, name to address."""

    def _lost(self, peer: str) -> None:
        """Leave at once: the main thread may sit in a call into TensorFlow that never returns."""
        exit_now(f"error: {self.name}: lost {peer}; what was trained since the last checkpoint is gone with it", 1)

    def _explain(self, error: Any) -> None:
        """Leave with one line when it was a lost task; return when it was the program."""
        errors = tensorflow().errors
        if lost := silent(self.needed(), TIMEOUT):
            self._lost(", ".join(lost))
        if isinstance(error, errors.UnavailableError | errors.AbortedError | errors.CancelledError):
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            exit_now(f"error: {self.name}: lost another task: {reason}", 1)


@dataclass(frozen=True)
class Evaluator(Member):
    """The task that only measures: it has every variable to itself."""

    def batches(self, make: Batches) -> Any:
        """Return all batches, in one shard."""
        return iter(make(0, 1))

    def loop(self, options: Options, signals: Signals) -> Training:
        """End the task: nobody would wait for what it trains."""
        die(f"{self.name} is not part of the training: let it `evaluate`", 2)

    def needed(self) -> dict[str, str]:
        """Return nobody: it reads files."""
        return {}


def evaluator(wiring: Wiring) -> Evaluator:
    """Return the task of an evaluator, with TensorFlow's default strategy."""
    return Evaluator(wiring, checkpoint_dir(), tensorflow().distribute.get_strategy())


def read_wiring(check: Callable[[Wiring], None]) -> Wiring:
    """Return this task's place, from the flags or TF_CONFIG; code 2 for one that cannot be, also by `check`."""
    environ = os.environ
    faulthandler.register(signal.SIGUSR1, file=2)  # not sys.stderr: in a notebook it is no file
    try:
        flags = from_flags(sys.argv[1:], from_names(environ.get(FLAGS_VARIABLE, "")))
        wiring = flags or from_tf_config(environ.get("TF_CONFIG", "")) or ALONE
        _check(wiring)
        check(wiring)
    except WiringError as error:
        die(str(error), 2)
    return wiring


def checkpoint_dir() -> str:
    """Return the directory of this task's files."""
    return os.environ.get(CHECKPOINT_DIR) or "checkpoints"


def _check(wiring: Wiring) -> None:
    if wiring.job in OUTSIDE and wiring.job != "evaluator":
        raise WiringError(f"{wiring.job}/{wiring.index} is not part of the training: give it a program of its own")
    for address in (address for addresses in wiring.cluster.values() for address in addresses):
        if not (match := re.fullmatch(r"\S+:([0-9]{1,5})", address)) or not 0 < int(match[1]) < 65536:
            raise WiringError(f"{address!r} is not an address: write host:port")


def peers(wiring: Wiring, *jobs: str) -> dict[str, str]:
    """Return the other tasks of `jobs`, name to address."""
    names = {f"{job}/{index}": at for job in jobs for index, at in enumerate(wiring.cluster.get(job, ()))}
    return {name: at for name, at in names.items() if name != f"{wiring.job}/{wiring.index}"}


@contextlib.contextmanager
def patience(wiring: Wiring, others: Mapping[str, str], seconds: float) -> Iterator[None]:
    """End the task when the block, in which TensorFlow waits for `others`, takes longer than `seconds`."""

    def give_up() -> None:
        who = ", ".join(silent(others)) or "TensorFlow, though all ports answer"
        exit_now(f"error: {wiring.job}/{wiring.index}: no cluster after {seconds:g} s: no answer from {who}", 1)

    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), give_up)
    timer.daemon = True
    timer.start()
    try:
        with Signals().watched():
            yield
    finally:
        timer.cancel()


def resolver(wiring: Wiring) -> Any:
    """Return what tells a strategy the cluster, and which of its tasks this is."""
    distribute, train = tensorflow().distribute, tensorflow().train
    cluster = train.ClusterSpec({job: list(addresses) for job, addresses in wiring.cluster.items()})
    return distribute.cluster_resolver.SimpleClusterResolver(
        cluster, task_type=wiring.job, task_id=wiring.index, rpc_layer="grpc"
    )

"""The loop of a TF2 program, whatever its strategy: when it ends, when it saves, what it tells while it runs."""

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfprov.runtime.eager.saver import Saver, variables_of, write_placement
from tfprov.runtime.lazy_tensorflow import tensorflow
from tfprov.runtime.progress import Reporter, say
from tfprov.runtime.signals import Signals, leave


@dataclass(frozen=True)
class Options:
    """What the program may choose; see `Member.training`."""

    train_steps: int | None
    save_every_steps: int | None
    save_every_secs: float | None
    keep: int
    progress_every_steps: int


class Training(ABC):
    """What a program trains with: `while not training.should_stop(): training.run(function, batches)`.

    `step` is the step of all tasks together, as far as this one knows. Each strategy fills in the abstract methods.
    """

    io_device: str | None = None
    """Where checkpoints are written and read, when that is not where each variable is."""

    def __init__(self, name: str, is_chief: bool, strategy: Any, options: Options, signals: Signals) -> None:
        self.name, self.is_chief, self.strategy = name, is_chief, strategy
        self.options, self.signals = options, signals
        self.step = 0
        self._compiled: dict[Callable[..., Any], Any] = {}

    def should_stop(self) -> bool:
        """Whether `train_steps` are taken, or a signal asks to leave."""
        return self._reached(self.step) or bool(self.signals.number)

    def run(self, function: Callable[..., Any], batches: Any) -> None:
        """Take a step: call `function` with the next of `batches`, in every replica.

        It is compiled as a tf.function, changes the variables and returns the loss, one number. Where replicas step
        together its gradients must be reduced, which optimizers do.
        """
        if function not in self._compiled:
            self._compiled[function] = self.compile(function)
        self.take(self._compiled[function], batches)
        if self.step - self._told >= self.options.progress_every_steps:
            self._tell()
        self.report.step, self.report.steps = self.step, self.step - self._first
        if self.save_is_due():
            self._save()

    @abstractmethod
    def compile(self, function: Callable[..., Any]) -> Any:
        """Return the tf.function of one step of the strategy; it counts the step."""

    @abstractmethod
    def take(self, compiled: Any, batches: Any) -> None:
        """Take a step, or have it taken; keep `step` true, and `report.examples`."""

    @abstractmethod
    def settle(self) -> int:
        """Wait until no step is under way, and return the step."""

    @abstractmethod
    def loss(self) -> float | None:
        """Return the loss of one of the last steps; None where it was lost with its worker."""

    @abstractmethod
    def share(self, variables: Sequence[Any]) -> None:
        """Give what the chief restored to those who have variables of their own."""

    def save_is_due(self) -> bool:
        """Whether this is the step to save after."""
        return self.steps_are_due() or self.time_is_due()

    def steps_are_due(self) -> bool:
        """Whether `save_every_steps` were taken since the last save."""
        steps = self.options.save_every_steps
        return steps is not None and self.step - self._saved >= steps

    def time_is_due(self) -> bool:
        """Whether `save_every_secs` have passed since the last save."""
        seconds = self.options.save_every_secs
        return seconds is not None and time.monotonic() - self._saved_at >= seconds

    def begin(self, directory: str, objects: Mapping[str, Any]) -> None:
        """Create the step, go on from the newest checkpoint, and say who holds what."""
        tf = tensorflow()
        with self.strategy.scope():
            self.counter = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
        everything = {**objects, "step": self.counter}
        variables = [variable for thing in everything.values() for variable in variables_of(thing)]
        self._saver = Saver(directory, everything, self.options.keep, self.io_device)
        restored = self._saver.restore() if self.is_chief else None
        self.share(variables)
        self.step = self._first = self._told = self._saved = int(self.counter.numpy())
        self._saved_at = self._told_at = time.monotonic()
        self.report = Reporter(directory, self.name)
        self.report.begin(self.step, self.step or None)
        if restored:
            sys.stderr.write(f"tfprov: {self.name} goes on from {restored}\n")
        if self.is_chief:
            self._writer = tf.summary.create_file_writer(directory)
            write_placement(directory, variables)

    def finish(self) -> None:
        """Save the last step; leave with 128 + signal when one came before the end of training."""
        saved = self._save()
        self.report.step, self.report.steps = self.step, self.step - self._first
        self.report.close()
        if self.is_chief:
            self._writer.close()
        self.part()
        if not self._reached(self.step) and (why := self.why_stopped()):
            end = f"; saved {saved}" if self.is_chief else f" at step {self.step}"
            leave(f"{self.name} stopped by {why}{end}", self.signals.code if self.signals.number else 143)

    @abstractmethod
    def part(self) -> None:
        """Let go of the other tasks: nothing is done together any more."""

    def why_stopped(self) -> str:
        """Return what asked to leave, or nothing."""
        return self.signals.name if self.signals.number else ""

    def _reached(self, step: int) -> bool:
        return self.options.train_steps is not None and step >= self.options.train_steps

    def _save(self) -> str:
        self.step = step = self.settle()
        path = self._saver.save(step) if self.is_chief else self._saver.save_aside()
        self._saved, self._saved_at = step, time.monotonic()
        return path

    def _tell(self) -> None:
        """Print `step 400 loss 0.0312`, and write the same with the steps a second for TensorBoard."""
        now, loss = time.monotonic(), self.loss() if self.is_chief else None
        rate = (self.step - self._told) / max(now - self._told_at, 1e-3)
        self._told, self._told_at = self.step, now
        if loss is None:
            return
        say(f"step {self.step} loss {loss:.4g}")
        summary = tensorflow().summary
        with self._writer.as_default(step=self.step):
            summary.scalar("loss", loss)
            summary.scalar("global_step/sec", rate)
        self._writer.flush()

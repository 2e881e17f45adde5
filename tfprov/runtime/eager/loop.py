"""The training loop of a TF2 program, for every strategy: when it stops, saves and reports."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfprov.runtime.eager.saver import Saver, variables_of, write_placement
from tfprov.runtime.lazy_tensorflow import tensorflow
from tfprov.runtime.progress import ProgressWriter, say
from tfprov.runtime.signals import Signals, leave


@dataclass(frozen=True)
class TrainingOptions:
    """Options of `EagerTask.training`."""

    train_steps: int | None
    save_every_steps: int | None
    save_every_secs: float | None
    keep: int
    progress_every_steps: int


class Training(ABC):
    """The loop of a program: `while not training.should_stop(): training.run(function, batches)`.

    `step` is the global step as far as this task knows it. Each strategy implements the abstract methods.
    """

    io_device: str | None = None
    """The device that reads and writes checkpoints; None for the device of each variable."""

    def __init__(self, name: str, is_chief: bool, strategy: Any, options: TrainingOptions, signals: Signals) -> None:
        self.name, self.is_chief, self.strategy = name, is_chief, strategy
        self.options, self.signals = options, signals
        self.step = 0
        self._compiled: dict[Callable[..., Any], Any] = {}

    def should_stop(self) -> bool:
        """Whether `train_steps` are taken, or a signal was received."""
        return self._is_last_step(self.step) or bool(self.signals.number)

    def run(self, function: Callable[..., Any], batches: Any) -> None:
        """Take a step: call `function` with the next of `batches`, in every replica.

        It is compiled as a tf.function, changes the variables and returns the loss, one number. Where replicas step
        together its gradients must be reduced, which optimizers do.
        """
        if function not in self._compiled:
            self._compiled[function] = self.compile(function)
        self.take_step(self._compiled[function], batches)
        self.after_step()

    def after_step(self) -> None:
        """Report and save what is due."""
        if self.step - self._reported_step >= self.options.progress_every_steps:
            self._report()
        self.report.step, self.report.steps = self.step, self.step - self._first
        if self.is_save_due():
            self._save()

    @abstractmethod
    def compile(self, function: Callable[..., Any]) -> Any:
        """Return the tf.function of one step of the strategy; it counts the step."""

    @abstractmethod
    def take_step(self, compiled: Any, batches: Any) -> None:
        """Take or schedule a step; update `step` and `report.examples`."""

    @abstractmethod
    def wait_for_steps(self) -> int:
        """Wait until no step is running, and return the global step."""

    @abstractmethod
    def loss(self) -> float | None:
        """Return the loss of one of the last steps; None where it was lost with its worker."""

    @abstractmethod
    def broadcast(self, variables: Sequence[Any]) -> None:
        """Send the values the chief restored to tasks with variables of their own."""

    def is_save_due(self) -> bool:
        """Whether to save after this step."""
        return self.is_due_by_steps() or self.is_due_by_time()

    def is_due_by_steps(self) -> bool:
        """Whether `save_every_steps` were taken since the last save."""
        steps = self.options.save_every_steps
        return steps is not None and self.step - self._saved >= steps

    def is_due_by_time(self) -> bool:
        """Whether `save_every_secs` have passed since the last save."""
        seconds = self.options.save_every_secs
        return seconds is not None and time.monotonic() - self._saved_at >= seconds

    def begin(self, directory: str, objects: Mapping[str, Any]) -> None:
        """Create the global step, restore the newest checkpoint, and write the placement file."""
        tf = tensorflow()
        with self.strategy.scope():
            self.counter = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
        saved_objects = {**objects, "step": self.counter}
        variables = [variable for value in saved_objects.values() for variable in variables_of(value)]
        self._saver = Saver(directory, saved_objects, self.options.keep, self.io_device)
        restored = self._saver.restore() if self.is_chief else None
        self.broadcast(variables)
        self.step = self._first = self._reported_step = self._saved = int(self.counter.numpy())
        self._saved_at = self._reported_at = time.monotonic()
        self.report = ProgressWriter(directory, self.name)
        self.report.begin(self.step, self.step or None)
        if restored:
            sys.stderr.write(f"tfprov: {self.name} goes on from {restored}\n")
        if self.is_chief:
            self._writer = tf.summary.create_file_writer(directory)
            write_placement(directory, variables)

    def finish(self) -> None:
        """Save the last step; exit with 128 + signal when one came before the end of training."""
        saved = self._save()
        self.report.step, self.report.steps = self.step, self.step - self._first
        self.report.close()
        if self.is_chief:
            self._writer.close()
        self.disconnect()
        if not self._is_last_step(self.step) and (reason := self.stop_reason()):
            end = f"; saved {saved}" if self.is_chief else f" at step {self.step}"
            leave(f"{self.name} stopped by {reason}{end}", self.stop_code())

    @abstractmethod
    def disconnect(self) -> None:
        """Leave the other tasks: no joint operation follows."""

    def stop_reason(self) -> str:
        """Return the name of the signal that stopped the loop, or an empty text."""
        return self.signals.name if self.signals.number else ""

    def stop_code(self) -> int:
        """Return the exit code of a task whose loop was stopped."""
        return self.signals.code if self.signals.number else 143

    def _is_last_step(self, step: int) -> bool:
        return self.options.train_steps is not None and step >= self.options.train_steps

    def _save(self) -> str:
        self.step = step = self.wait_for_steps()
        path = self._saver.save(step) if self.is_chief else self._saver.save_aside()
        self._saved, self._saved_at = step, time.monotonic()
        return path

    def _report(self) -> None:
        """Print `step 400 loss 0.0312`, and write it and the steps per second for TensorBoard."""
        now, loss = time.monotonic(), self.loss() if self.is_chief else None
        rate = (self.step - self._reported_step) / max(now - self._reported_at, 1e-3)
        self._reported_step, self._reported_at = self.step, now
        if loss is None:
            return
        say(f"step {self.step} loss {loss:.4g}")
        summary = tensorflow().summary
        with self._writer.as_default(step=self.step):
            summary.scalar("loss", loss)
            summary.scalar("global_step/sec", rate)
        self._writer.flush()

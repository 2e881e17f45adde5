"""`Model.fit` of Keras as the loop of a synchronous training: it stops, saves, resumes and reports as any other loop."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Mapping
from typing import Any

from tfprov.runtime.eager.mirrored_training import SynchronousTraining
from tfprov.runtime.lazy_tensorflow import tensorflow
from tfprov.runtime.signals import die

KERAS_2 = "tf_keras"
"""The package with Keras 2 for TensorFlow 2.16 and newer."""


def check_keras(model: Any, name: str, wait: Callable[[], object] | None) -> None:
    """End the task with code 2 if `model` is one of Keras 3 and there are several workers, for which `wait` waits.

    Its `fit` ends there with a ValueError ("Attempt to convert a value (PerReplica…"), long after the start. A worker that
    ended while another still got the first values of its variables would be lost to that one, which reports the loss.
    """
    if wait is not None and not _is_keras_2(model):
        with contextlib.suppress(tensorflow().errors.OpError):  # one ended for another reason
            wait()
        version = ".".join(tensorflow().__version__.split(".")[:2])
        die(
            f"{name}: Model.fit of Keras {tensorflow().keras.__version__} cannot train on several workers: install "
            f"'tf-keras=={version}.*' and set `env: {{TF_USE_LEGACY_KERAS: 1}}`, or write the loop with `task.training`",
            2,
        )


def _is_keras_2(model: Any) -> bool:
    packages = {base.__module__.partition(".")[0] for base in type(model).__mro__}
    # Keras 2 in TensorFlow up to 2.15 may not have a version.
    return KERAS_2 in packages or str(getattr(tensorflow().keras, "__version__", "2.")).startswith("2.")


def _keras_of(model: Any) -> Any:
    """Return the Keras that `model` is of: a program may import tf_keras itself."""
    packages = {base.__module__.partition(".")[0] for base in type(model).__mro__}
    return importlib.import_module(KERAS_2) if KERAS_2 in packages else tensorflow().keras


def fit(
    training: SynchronousTraining, model: Any, batches: Any, steps_per_epoch: int | None, options: Mapping[str, Any]
) -> None:
    """Call `model.fit` with the steps that are left; `options` are further arguments of it."""
    assert training.options.train_steps is not None, "`Replica.fit` requires it"
    left = training.options.train_steps - training.step
    if left <= 0:
        return
    size = steps_per_epoch or left
    first = training.step // size if steps_per_epoch else 0
    settings = dict(options)
    callbacks = [*settings.pop("callbacks", ()), _callback(_keras_of(model).callbacks.Callback, training)]
    model.fit(
        batches,
        steps_per_epoch=size,
        initial_epoch=first,
        epochs=first + -(-left // size),
        callbacks=callbacks,
        **{"verbose": 0, **settings},
    )


def _callback(base: Any, training: SynchronousTraining) -> Any:
    class Steps(base):  # type: ignore[misc]
        """Counts the steps; with `steps_per_execution`, several end at once."""

        def on_epoch_begin(self, _epoch: int, _logs: Any = None) -> None:
            self.last = -1

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            training.count_steps(batch - self.last, float((logs or {}).get("loss", "nan")))
            self.last = batch
            if training.should_stop():
                self.model.stop_training = True

    return Steps()

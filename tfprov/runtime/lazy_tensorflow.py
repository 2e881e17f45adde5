"""Import TensorFlow on first use: the import takes seconds, and a wrong flag must be reported before it."""

from __future__ import annotations

from typing import Any


def tensorflow() -> Any:
    """Return the module tensorflow."""
    import tensorflow as module  # noqa: PLC0415 - late, as the runtime imports it nowhere else

    return module


def graph_api() -> Any:
    """Return tf.compat.v1, where servers, sessions and hooks live in every TensorFlow since 1.13."""
    return tensorflow().compat.v1


def eager_context() -> Any:
    """Return the context of eager execution, which no public name of TensorFlow leads to."""
    from tensorflow.python.eager import context  # noqa: PLC0415 - as above

    return context.context()

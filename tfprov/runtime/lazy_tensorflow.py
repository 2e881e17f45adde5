"""Import TensorFlow on first use: the import takes seconds, and a wrong flag must be reported before it."""

from typing import Any


def tensorflow() -> Any:
    """Return the module tensorflow."""
    import tensorflow as module  # noqa: PLC0415 - the one late import of the runtime

    return module


def graph_api() -> Any:
    """Return tf.compat.v1, where servers, sessions and hooks live in every TensorFlow since 1.13."""
    return tensorflow().compat.v1

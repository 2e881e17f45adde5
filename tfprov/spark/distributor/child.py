"""The process of one task: runs the training function, or serves, and ends with the process that started it.

    python -m tfprov.spark.distributor.child < ORDER

The order comes on standard input, so that no argument or file has the function or its secrets. Standard input stays
open: at its end, the process that started this one is gone, and so is everything here.
"""

import os
import pickle
import runpy
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

from tfprov.spark.distributor.order import Order


def main() -> int:
    """Run the order."""
    order: Order = pickle.load(sys.stdin.buffer)  # noqa: S301  from the process that started this one
    threading.Thread(target=_end_with_parent, name="tfprov-parent", daemon=True).start()
    if order.function is None:
        sys.argv = ["server"]
        runpy.run_module("tfprov.runtime.server", run_name="__main__")
    return train(order)


def _end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


def train(order: Order) -> int:
    """Call the function of `order`; return the exit code."""
    from pyspark import cloudpickle  # noqa: PLC0415

    sys.argv = ["train"]
    try:
        function, args, kwargs = pickle.loads(order.function or b"")  # noqa: S301
        value = _call(order.wraps, function, args, kwargs)
        Path(order.result).write_bytes(cloudpickle.dumps(value) if order.returns else b"")
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        sys.stderr.write(f"{ended.code}\n")  # as Python does at the end of a program
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _call(wraps: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not wraps:
        return function(*args, **kwargs)
    import tensorflow as tf  # noqa: PLC0415

    with getattr(tf.distribute, wraps)().scope():
        return function(*args, **kwargs)


def exit_now(code: int) -> None:
    """End without waiting for TensorFlow's threads: its servers have no end of their own."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    exit_now(main())

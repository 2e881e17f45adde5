"""A signal in the middle of `subprocess.Popen`: the program exists, and its caller does not have it yet."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def signal_at_fork(number: signal.Signals) -> Iterator[None]:
    """Send this process a signal when the first program of the block has been forked."""

    def after_call(_frame: object, event: str, function: Any) -> None:
        if event == "c_return" and getattr(function, "__name__", "") == "fork_exec":
            sys.setprofile(None)
            os.kill(os.getpid(), number)

    sys.setprofile(after_call)
    try:
        yield
    finally:
        sys.setprofile(None)

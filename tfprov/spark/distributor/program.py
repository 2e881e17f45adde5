"""The process of a task as its supervisor sees it: started, its output read, ended with everything it started."""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

from tfprov.spark.distributor.order import Order

LAST_LINES = 20
"""Lines of a failed task's output that the error has."""
GRACE = 4.0
"""Seconds between SIGTERM and SIGKILL: all tasks must be gone 10 s after one of them failed."""
_LONGEST_LINE = 16 * 1024


class Program:
    """A running process; `on_line` gets each line that it prints."""

    def __init__(self, order: Order, env: Mapping[str, str], directory: Path, on_line: Callable[[str], None]) -> None:
        self.last: deque[str] = deque(maxlen=LAST_LINES)
        self._on_line = on_line
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tfprov.spark.distributor.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env=dict(env),
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, name="tfprov-output", daemon=True)
        self._reader.start()
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it ended already: its output says why
            self._process.stdin.write(pickle.dumps(order))
            self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in iter(lambda: self._process.stdout.readline(_LONGEST_LINE), b""):  # type: ignore[union-attr]
            text = line.decode(errors="replace").rstrip("\r\n")
            self.last.append(text)
            self._on_line(text)

    def wait(self) -> int:
        """Return its exit code, negative for a signal, once its output is read; what it started is ended."""
        code = self._process.wait()
        self._signal(signal.SIGKILL)
        self._reader.join(GRACE)
        return code

    def stop(self) -> None:
        """End it: SIGTERM, and SIGKILL after GRACE seconds."""
        self._signal(signal.SIGTERM)
        timer = threading.Timer(GRACE, self._signal, (signal.SIGKILL,))
        timer.daemon = True
        timer.start()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

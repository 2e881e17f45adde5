"""End a task: the one-line error, and SIGTERM and Ctrl-C while it serves or trains.

Python runs signal handlers between two bytecodes of the main thread, and that thread may be for minutes in a call into
TensorFlow: a session that waits for a lost ps never returns to run the handler. The C part of a handler runs at once
and writes the signal's number into the wakeup pipe, which a thread reads here.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from typing import NoReturn

SIGNALS = (signal.SIGTERM, signal.SIGINT)

WORKER_GRACE = 5.0
"""Seconds a worker has to end its step after the first signal: it has nothing to save."""
_ending = threading.Lock()
"""Held by the thread that ends the process, and never released: one reason is printed."""


def leave(message: str, code: int) -> NoReturn:
    """End the program with one line on stderr, after its `finally` blocks."""
    sys.stderr.write(f"tfprov: {message}\n")
    raise SystemExit(code)


def die(message: str, code: int = 1) -> NoReturn:
    """Leave with an error."""
    leave(f"error: {message}", code)


def exit_now(message: str, code: int) -> NoReturn:
    """End the process from any thread, whatever the main thread is doing; no `finally` of the program runs.

    Its line is the last on stderr, except for writes of other threads at that moment, often about the same loss.
    """
    _ending.acquire()
    stderr = 2
    with contextlib.suppress(OSError):  # out of descriptors: others may write after it
        stderr = os.dup(2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    with contextlib.suppress(OSError):  # stderr may be closed, and the process has to end anyway
        os.write(stderr, f"tfprov: {message}\n".encode())
    os._exit(code)


class Signals:
    """Handles SIGTERM and SIGINT: the first requests a stop, the second ends the task.

    While `orderly` is false there is nothing to save, and the first signal ends the task at once. While it is true, the
    first one is only stored in `number`, for the training loop to end its step and save. `grace` limits the step, in
    seconds; None does not. What comes after it is not limited: only the launcher knows how long a save may last.
    """

    def __init__(self, grace: float | None = None) -> None:
        self.grace, self.orderly, self.number = grace, False, 0
        self._step_ended = threading.Event()

    @property
    def code(self) -> int:
        """The shell's exit code of a process that this signal ended."""
        return 128 + self.number

    @property
    def name(self) -> str:
        """The signal's name, such as SIGTERM; only after one came."""
        return signal.Signals(self.number).name

    def end_step(self) -> None:
        """Note that the step has ended in which the first signal came."""
        self._step_ended.set()

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """Handle SIGTERM and SIGINT in the block, and restore their handlers after it.

        Outside the main thread Python cannot set handlers, and nothing changes.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        reading, writing = os.pipe()
        os.set_blocking(writing, False)  # set_wakeup_fd requires it
        watcher = threading.Thread(target=self._read_wakeup_pipe, args=(reading,), name="tfprov-signals", daemon=True)
        watcher.start()
        try:
            with self._install_handlers(writing):
                yield
        finally:
            os.write(writing, b"\0")  # no signal has the number 0: it ends the thread
            watcher.join()
            os.close(reading)
            os.close(writing)

    @contextlib.contextmanager
    def _install_handlers(self, pipe: int) -> Iterator[None]:
        before = signal.set_wakeup_fd(pipe, warn_on_full_buffer=False)
        # A handler must exist, or the process dies before the pipe is written; it does nothing.
        handlers = {number: signal.signal(number, lambda *_: None) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(before)

    def _read_wakeup_pipe(self, pipe: int) -> None:
        while number := os.read(pipe, 1)[0]:
            if number in SIGNALS:
                self._handle_signal(number, pipe)

    def _handle_signal(self, number: int, pipe: int) -> None:
        first, self.number = not self.number, number
        if not first or not self.orderly:
            exit_now(f"ended by {self.name}", self.code)
        if self.grace is None or select.select([pipe], [], [], self.grace)[0]:
            return
        if not self._step_ended.is_set():
            exit_now(f"ended by {self.name}; the step did not end within {self.grace:g} s", self.code)

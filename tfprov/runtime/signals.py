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
import time
from collections.abc import Iterator
from typing import Any, NoReturn

SIGNALS = (signal.SIGTERM, signal.SIGINT)

WORKER_GRACE = 5.0
"""Seconds a worker has to end its step after the first signal: it has nothing to save."""
_ending = threading.Lock()
"""Held by the thread that ends the process, and never released: one reason is printed."""
_handlers_before: list[dict[signal.Signals, Any]] = []
"""The handlers that each block of `Signals.handled` has replaced, of the outermost block first."""


def _do_nothing(*_: object) -> None:
    """Handle a signal: without a handler, the process would die before the wakeup pipe is written."""


def _restore_handlers_in_child() -> None:
    """Restore the handlers in a forked process, which shares the wakeup pipe with its parent.

    Otherwise it would ignore SIGTERM, and the parent would take each signal of the child for one of its own.
    """
    if _handlers_before:
        signal.set_wakeup_fd(-1)
        for number, handler in _handlers_before[0].items():
            if signal.getsignal(number) is _do_nothing:  # the program may have one of its own by now
                signal.signal(number, handler)
        _handlers_before.clear()


os.register_at_fork(after_in_child=_restore_handlers_in_child)


def leave(message: str, code: int) -> NoReturn:
    """End the program with one line on stderr, after its `finally` blocks."""
    sys.stderr.write(f"tfprov: {message}\n")
    raise SystemExit(code)


def die(message: str, code: int = 1) -> NoReturn:
    """Leave with an error."""
    leave(f"error: {message}", code)


def exit_now(message: str, code: int) -> NoReturn:
    """End the process from any thread, whatever the main thread is doing; no `finally` of the program runs.

    Its line is the last on stderr, except for writes of other threads at that moment, often about the same loss. It may
    begin within a line that another thread has not ended; `hosts.crash.last_words` reads it there, too.
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
        process = os.getpid()
        reading, writing = os.pipe()
        os.set_blocking(writing, False)  # set_wakeup_fd requires it
        watcher = threading.Thread(target=self._read_wakeup_pipe, args=(reading,), name="tfprov-signals", daemon=True)
        watcher.start()
        try:
            with self._install_handlers(writing):
                yield
        finally:
            if os.getpid() == process:  # a forked process that leaves the block has no such thread, and its parent has
                os.write(writing, b"\0")  # no signal has the number 0: it ends the thread
                watcher.join()
            os.close(reading)
            os.close(writing)

    @contextlib.contextmanager
    def _install_handlers(self, pipe: int) -> Iterator[None]:
        handlers = {number: signal.getsignal(number) for number in SIGNALS}
        _handlers_before.append(handlers)
        before = signal.set_wakeup_fd(pipe, warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, _do_nothing)
        try:
            yield
        finally:
            if _handlers_before:  # a forked process has them back already
                for number, handler in handlers.items():
                    signal.signal(number, handler)
                signal.set_wakeup_fd(before)
                _handlers_before.pop()

    def _read_wakeup_pipe(self, pipe: int) -> None:
        deadline: float | None = None
        while True:
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            if left is not None and not select.select([pipe], [], [], left)[0]:
                self._check_step()
                deadline = None
                continue
            number = os.read(pipe, 1)[0]
            if not number:
                return
            if number in SIGNALS:  # the pipe also has those of the program's timers and children
                self._handle_signal(number)
                deadline = None if self.grace is None else time.monotonic() + self.grace

    def _handle_signal(self, number: int) -> None:
        first, self.number = not self.number, number
        if not first or not self.orderly:
            exit_now(f"ended by {self.name}", self.code)

    def _check_step(self) -> None:
        """End the process if the step has not ended within the grace."""
        if not self._step_ended.is_set():
            exit_now(f"ended by {self.name}; the step did not end within {self.grace:g} s", self.code)

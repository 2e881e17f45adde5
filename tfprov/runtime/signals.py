"""How a task leaves: the one-line error, and what SIGTERM and Ctrl-C do while it serves or trains.

Python runs signal handlers between two bytecodes of the main thread, and that thread may sit for minutes in a call into
TensorFlow: a session that waits for a lost ps never comes back to see the handler. The C part of a handler runs at once
and writes the signal's number into the wakeup pipe, so a thread that reads this pipe always hears of it.
"""

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
"""Seconds a worker has to end its step after the first signal: it holds nothing that would be lost."""
_ending = threading.Lock()
"""Taken by the thread that ends the process, and never given back: one reason is told."""


def leave(what: str, code: int) -> NoReturn:
    """End the program with one line on stderr, after its `finally` blocks."""
    sys.stderr.write(f"tfprov: {what}\n")
    raise SystemExit(code)


def die(what: str, code: int = 1) -> NoReturn:
    """Leave, and call it an error."""
    leave(f"error: {what}", code)


def exit_now(what: str, code: int) -> NoReturn:
    """End the process from any thread, whatever the main thread is doing; no `finally` of the program runs.

    Its line is the last on stderr, but for what other threads are writing at that moment: they may be complaining about
    the same loss.
    """
    _ending.acquire()
    stderr = 2
    with contextlib.suppress(OSError):  # out of descriptors: others may write after it then
        stderr = os.dup(2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    with contextlib.suppress(OSError):  # nobody may be reading any more, and it has to end all the same
        os.write(stderr, f"tfprov: {what}\n".encode())
    os._exit(code)


class Signals:
    """The first signal asks, the second ends.

    While `orderly` is false there is nothing to save, and the first signal ends the task at once too. While it is true,
    the first one is only remembered in `number`, for the training loop to end its step and save. `grace` is how long
    that may take, in seconds; None is for ever, because only the launcher knows how long a save may last.
    """

    def __init__(self, grace: float | None = None) -> None:
        self.grace, self.orderly, self.number = grace, False, 0

    @property
    def code(self) -> int:
        """The exit code shells use for a process ended by this signal."""
        return 128 + self.number

    @property
    def name(self) -> str:
        """The signal's name, such as SIGTERM; only after one came."""
        return signal.Signals(self.number).name

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Take SIGTERM and SIGINT over for the block, and give them back after it.

        Outside the main thread Python cannot, and the signals keep the meaning they have.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        reading, writing = os.pipe()
        os.set_blocking(writing, False)  # set_wakeup_fd insists
        watcher = threading.Thread(target=self._watch, args=(reading,), name="tfprov-signals", daemon=True)
        watcher.start()
        try:
            with self._installed(writing):
                yield
        finally:
            os.write(writing, b"\0")  # no signal has the number 0: it ends the thread
            watcher.join()
            os.close(reading)
            os.close(writing)

    @contextlib.contextmanager
    def _installed(self, pipe: int) -> Iterator[None]:
        before = signal.set_wakeup_fd(pipe, warn_on_full_buffer=False)
        # A handler must exist, or the process dies before the pipe is written; it has nothing to do.
        handlers = {number: signal.signal(number, lambda *_: None) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(before)

    def _watch(self, pipe: int) -> None:
        while number := os.read(pipe, 1)[0]:
            if number in SIGNALS:
                self._received(number, pipe)

    def _received(self, number: int, pipe: int) -> None:
        first, self.number = not self.number, number
        if not first or not self.orderly:
            exit_now(f"ended by {self.name}", self.code)
        if self.grace is not None and not select.select([pipe], [], [], self.grace)[0]:
            exit_now(f"ended by {self.name}; the step did not end within {self.grace:g} s", self.code)

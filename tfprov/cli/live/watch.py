"""`status --watch`: reads the cluster in the background, and draws the newest overview on the whole screen."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TextIO

from tfprov.cli.live.layout import NARROW, screen_lines
from tfprov.engine.monitoring.overview import Overview
from tfprov.errors import Terminated, TfprovError

INTERVAL = 2.0
"""Seconds between two readings."""
_REDRAW = 0.5
_LOW = 24
"""Rows of a terminal that does not know its size, as a serial one or that of a container."""
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""The alternate screen, so that what was there before is there afterwards; and no cursor meanwhile."""
_HOME, _TO_END, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


class Reader(threading.Thread):
    """Calls `read` every `interval` seconds; `newest` is its last result with its time, `error` what ended it."""

    def __init__(self, read: Callable[[], Overview], interval: float, now: Callable[[], float]) -> None:
        super().__init__(name="tfprov-overview", daemon=True)
        self._read, self._interval, self._now = read, interval, now
        self._left = threading.Event()
        self.newest: tuple[Overview, float] | None = None
        self.error: Exception | None = None

    def run(self) -> None:
        """Read until `stop`, or the first error."""
        while not self._left.is_set():
            try:
                self.newest = self._read(), self._now()
            except Exception as error:
                self.error = error
                return
            self._left.wait(self._interval)

    def stop(self) -> None:
        """End after the reading that runs; does not wait for it."""
        self._left.set()


def watch(
    read: Callable[[], Overview],
    out: TextIO,
    *,
    interval: float = INTERVAL,
    ends: Callable[[], bool] = lambda: False,
    now: Callable[[], float] = time.monotonic,
) -> None:
    """Show overviews on the terminal `out` until Ctrl-C, or until `ends`. Raises the error that ended the reading."""
    reader, begin = Reader(read, interval, now), now()
    out.write(_ENTER)
    try:
        reader.start()
        with suspended(out.fileno()):
            while reader.error is None and not ends():
                _draw(out, reader, now() - begin, now())
                reader.join(_REDRAW)
    except Terminated:
        raise
    except KeyboardInterrupt:
        return
    finally:
        reader.stop()
        with suppress(OSError):  # the terminal was closed
            out.write(_LEAVE)
            out.flush()
    if reader.error is not None:
        raise reader.error if isinstance(reader.error, TfprovError) else RuntimeError(str(reader.error))


def _stop() -> None:
    """Stop this process until the shell lets it go on."""
    handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTSTP)
    signal.signal(signal.SIGTSTP, handler)


@contextmanager
def suspended(terminal: int, stop: Callable[[], None] = _stop) -> Iterator[None]:
    """Give the terminal back to the shell while Ctrl-Z has stopped this process, with its screen and its cursor."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        # Past the buffer of the output, in which the signal may have come: it cannot be entered again.
        os.write(terminal, _LEAVE.encode())
        stop()
        os.write(terminal, _ENTER.encode())

    if threading.current_thread() is not threading.main_thread():  # only there can signals be handled
        yield
        return
    before = signal.signal(signal.SIGTSTP, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, before)


def _draw(out: TextIO, reader: Reader, waited: float, now: float) -> None:
    size = os.get_terminal_size(out.fileno())
    columns, rows = size.columns or NARROW, size.lines or _LOW
    if reader.newest is None:
        lines = [f"asking the hosts · {waited:.0f} s"]
    else:
        overview, at = reader.newest
        lines = screen_lines(overview, columns - 1, rows, now - at)
    # Drawn over the former picture, line by line: nothing flickers, and no line is longer than the screen.
    out.write(_HOME + f"{_TO_END}\r\n".join(lines) + _TO_END + _BELOW)
    out.flush()

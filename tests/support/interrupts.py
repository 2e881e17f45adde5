"""Ctrl-C while actions are carried out."""

import os
import signal
import sys
import threading

from tests.support.reporters import RecordingReporter
from tests.support.waiting import until

NOTE = "interrupted: finishing what has begun (Ctrl-C again to leave at once)"


def press_ctrl_c(report: RecordingReporter) -> None:
    """Press Ctrl-C from an action, and wait until it has been noticed."""
    os.kill(os.getpid(), signal.SIGINT)
    until(lambda: NOTE in report.notes, seconds=60, pause=0.01)


def interrupt_waiting_main() -> None:
    """Press Ctrl-C, from another thread, once the main thread waits for a future."""
    main = threading.main_thread().ident or 0
    places: list[tuple[str, int]] = []

    def waits() -> bool:
        """Whether the main thread is where it was twice before, in a method of Future: its threads have all begun."""
        frame = sys._current_frames()[main]  # noqa: SLF001  there is no public one
        places.append((frame.f_back.f_code.co_name if frame.f_back else "", frame.f_lasti))
        return places[-1][0] in {"result", "exception"} and places[-3:] == 3 * places[-1:]

    until(waits, "the main thread waits")
    signal.pthread_kill(main, signal.SIGINT)

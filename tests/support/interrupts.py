"""Ctrl-C while actions are carried out."""

import os
import signal

from tests.support.reporters import RecordingReporter
from tests.support.waiting import until

NOTE = "interrupted: finishing what has begun (Ctrl-C again to leave at once)"


def press_ctrl_c(report: RecordingReporter) -> None:
    """Press Ctrl-C from an action, and wait until it has been noticed."""
    os.kill(os.getpid(), signal.SIGINT)
    until(lambda: NOTE in report.notes, seconds=60, pause=0.01)

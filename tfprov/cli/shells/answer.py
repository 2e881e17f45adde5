"""Answers a shell that completes a command line: quickly, and without any error.

The protocol and the scripts are click's, with additions in `completion`. A shell calls `tfprov` with _TFPROV_COMPLETE in
the environment at every TAB.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import click
from click.shell_completion import shell_complete

VARIABLE = "_TFPROV_COMPLETE"
"""Names what a shell wants: `bash_complete`, `zsh_source`, …"""
LIMIT = 2.0
"""Seconds without work after which nothing is offered: an inventory on a stalled file server must not block a prompt."""
_WORK = 0.01
"""Seconds of CPU time in LIMIT that count as work: on a busy machine an answer is only late."""
_MOST_WORK = 5.0
"""Seconds of CPU time for an answer; one takes less than a second."""


def answer(program: click.Command, instruction: str) -> int:
    """Print the candidates for the command line that the shell describes in the environment; return the exit code."""
    progress = Progress(time.process_time)

    def check(_number: int, _frame: FrameType | None) -> None:
        if not progress.goes_on():
            os._exit(0)

    signal.signal(signal.SIGALRM, check)
    signal.setitimer(signal.ITIMER_REAL, LIMIT, LIMIT)
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        sys.stderr = nowhere
        try:
            code = shell_complete(program, {}, "tfprov", VARIABLE, instruction)
            sys.stdout.flush()
        except Exception:  # of whatever kind: a prompt shows none
            return 0
        finally:
            sys.stderr = sys.__stderr__
            signal.setitimer(signal.ITIMER_REAL, 0)  # an interpreter that ends has no handlers: the alarm would kill it
    return code


class Progress:
    """Judges whether a process works on its answer, by its CPU time in seconds, which `spent` returns."""

    def __init__(self, spent: Callable[[], float]) -> None:
        self._spent = spent
        self._last = spent()

    def goes_on(self) -> bool:
        """Whether it has worked since the last question, and not for too long in all."""
        last, self._last = self._last, self._spent()
        return self._last - last >= _WORK and self._last < _MOST_WORK

"""Answers a shell that completes a command line: quickly, and without any error.

The protocol and the scripts are click's, with additions in `completion`. A shell calls `tfprov` with _TFPROV_COMPLETE in
the environment at every TAB.
"""

import os
import signal
import sys
from pathlib import Path
from types import FrameType

import click
from click.shell_completion import shell_complete

VARIABLE = "_TFPROV_COMPLETE"
"""Names what a shell wants: `bash_complete`, `zsh_source`, …"""
LIMIT = 2.0
"""Seconds after which nothing is offered: an inventory on a stalled file server must not block a prompt."""


def answer(program: click.Command, instruction: str) -> int:
    """Print the candidates for the command line that the shell describes in the environment; return the exit code."""
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
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


def _give_up(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)

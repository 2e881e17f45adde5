"""`tfprov client -- COMMAND`: the program decides how it ends after a signal."""

import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

import pytest

from tests.support.signal_at_fork import signal_at_fork
from tfprov.cli.client import run_program

PROGRAM = """
import os, signal, sys, time
sent, ending = signal.Signals[sys.argv[1]], []
signal.signal(signal.SIGTERM, lambda *_: ending.append(8))
os.kill(os.getppid(), sent)
time.sleep(0.2)  # of SIGINT nothing comes
while sent == signal.SIGTERM and not ending:
    time.sleep(0.01)
os._exit(ending[0] if ending else 7)
"""


@pytest.fixture(autouse=True)
def sigterm() -> Iterator[None]:
    """SIGTERM means here what it means to every verb."""

    def terminate(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt  # as `main` has it

    before = signal.signal(signal.SIGTERM, terminate)
    yield
    signal.signal(signal.SIGTERM, before)


def run(*words: str) -> int:
    return run_program([sys.executable, "-c", *words], os.environ)


@pytest.mark.parametrize(("sent", "code"), [("SIGINT", 7), ("SIGTERM", 8)])
def test_a_program_ends_by_itself_after_a_signal(sent: str, code: int) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    assert run(PROGRAM, sent) == code
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]


def test_a_signal_that_comes_while_the_program_is_started_is_passed_on() -> None:
    with signal_at_fork(signal.SIGTERM):
        assert run("import time; time.sleep(600)") == 128 + signal.SIGTERM


def test_the_end_by_a_signal_has_the_exit_code_of_a_shell() -> None:
    assert run("import os; os.kill(os.getpid(), 9)") == 137
    assert run("raise SystemExit(3)") == 3

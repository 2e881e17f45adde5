"""A program beside a task of this machine, and signals that reach tfprov meanwhile."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

import pytest

from tests.support.signal_at_fork import signal_at_fork
from tfprov.errors import Terminated
from tfprov.hosts.process.exec import run
from tfprov.hosts.terminal import NO_INPUT

PROGRAM = """
import os, signal, sys, time
ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
os.kill(os.getppid(), signal.Signals[sys.argv[1]])
time.sleep(0.2)  # of SIGINT nothing comes
while sys.argv[1] == "SIGTERM" and not ended:
    time.sleep(0.01)
print(len(ended), file=open("saved", "w"))
"""


@pytest.fixture(autouse=True)
def terminated() -> Iterator[None]:
    def terminate(_number: int, _frame: FrameType | None) -> NoReturn:
        raise Terminated  # as `main` has it

    before = signal.signal(signal.SIGTERM, terminate)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(("sent", "signals"), [("SIGINT", 0), ("SIGTERM", 1)])
def test_a_program_beside_a_task_ends_by_itself_after_a_signal(tmp_path: Path, sent: str, signals: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        run([sys.executable, "-c", PROGRAM, sent], os.environ, tmp_path, NO_INPUT)
    assert (tmp_path / "saved").read_text() == f"{signals}\n"


def test_a_signal_that_comes_while_the_program_is_started_ends_it(tmp_path: Path) -> None:
    mark = {"TFPROV_TEST_MARK": str(tmp_path)}
    with pytest.raises(KeyboardInterrupt), signal_at_fork(signal.SIGTERM):
        run([sys.executable, "-c", "import time; time.sleep(600)"], os.environ | mark, tmp_path, NO_INPUT)
    assert [process for process in Path("/proc").glob("[0-9]*") if str(tmp_path) in environment_of(process)] == []


def environment_of(process: Path) -> str:
    try:
        return (process / "environ").read_text(errors="replace")
    except OSError:  # it has ended, or is another user's
        return ""

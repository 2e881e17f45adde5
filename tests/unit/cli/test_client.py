"""`tfprov client -- COMMAND`: the program decides how it ends after a signal."""

import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType, SimpleNamespace
from typing import NoReturn

import pytest
from click.testing import CliRunner, Result

from tfprov.cli import client

PROGRAM = """
import os, signal, sys, time
sent, ending = signal.Signals[sys.argv[1]], []
signal.signal(signal.SIGTERM, lambda *_: ending.append(8))
os.kill(os.getppid(), sent)
time.sleep(0.6)
os._exit(ending[0] if ending else 7)
"""

Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    def terminate(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt  # as `main` has it

    monkeypatch.setattr(client, "cluster_of", lambda *_: SimpleNamespace(prepare=lambda: None))
    monkeypatch.setattr(client, "client_config", lambda *_: "{}")
    before = signal.signal(signal.SIGTERM, terminate)
    yield lambda *words: CliRunner().invoke(
        client.client_command, ["--", sys.executable, "-c", *words], standalone_mode=False
    )
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(("sent", "code"), [("SIGINT", 7), ("SIGTERM", 8)])
def test_a_program_ends_by_itself_after_a_signal(run: Run, sent: str, code: int) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    assert run(PROGRAM, sent).return_value == code
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]


def test_the_end_by_a_signal_has_the_exit_code_of_a_shell(run: Run) -> None:
    assert run("import os; os.kill(os.getpid(), 9)").return_value == 137
    assert run("raise SystemExit(3)").return_value == 3

"""The gate in a container: after which exit codes a program is run again, and that signals reach it."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import LONG
from tfprov.planning.task_args import gate_command
from tfprov.runtime.restart_gate import main


def run(mark: Path, code: int, *options: str) -> tuple[int, list[str]]:
    lines: list[str] = []
    ended = main([*options, "--", sys.executable, "-c", f"raise SystemExit({code})"], mark, lines.append)
    return ended, lines


@pytest.mark.parametrize(
    ("code", "options", "again"),
    [
        (0, ("--only", "137"), True),
        (3, (), True),
        (3, ("--only", "3,137"), True),
        (3, ("--only", "137"), False),
        (3, ("--never", "2,3"), False),
        (4, ("--only", "4", "--never", "3"), True),
    ],
)
def test_a_program_is_run_again_or_not(tmp_path: Path, code: int, options: tuple[str, ...], again: bool) -> None:
    mark = tmp_path / "mark"
    assert run(mark, code, *options)[0] == code
    assert mark.exists() is not again
    next_code, lines = run(mark, 5, *options)
    assert next_code == (5 if again else code)
    assert bool(lines) is (again and mark.exists()), "a program that is not run says nothing again"


def test_a_mark_that_cannot_be_written_or_read_is_said_and_no_failure(tmp_path: Path) -> None:
    code, lines = run(tmp_path / "no" / "mark", 3, "--never", "3")
    assert (code, len(lines)) == (3, 2)
    (tmp_path / "mark").write_text("not a number")
    assert run(tmp_path / "mark", 0)[0] == 0
    assert main(["--", "no-such-program"], tmp_path / "other", lines.append) == 127


def test_signals_reach_the_program() -> None:
    # Blocked, a signal waits for the program, whatever that does at the moment.
    program = "import signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, [15]); print('up', flush=True); "
    program += "sys.exit(7 if signal.sigwait([15]) == 15 else 1)"
    argv = [*gate_command([sys.executable], (), (9,)), sys.executable, "-c", program]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(LONG) == 7
    process.stdout.close()


def test_the_command_of_the_gate() -> None:
    assert gate_command(["python3", "x.py"], (), ()) == []
    assert gate_command(["/usr/bin/train"], (1, 137), (2,)) == [
        "python3", "-m", "tfprov.runtime.restart_gate", "--only", "1,137", "--never", "2", "--",
    ]  # fmt: skip

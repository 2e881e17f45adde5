"""A task that is started again, in the process of the test."""

import signal
import sys
from pathlib import Path

import pytest

from tfprov.hosts.process.supervisor import Supervisor
from tfprov.hosts.process.task_dir import TaskDir


@pytest.mark.parametrize(("end", "between"), [("", "\n"), ("\\n", "")], ids=["unfinished", "whole"])
def test_a_task_that_is_started_again_prints_on_a_line_of_its_own(tmp_path: Path, end: str, between: str) -> None:
    directory = TaskDir(tmp_path)
    directory.work.mkdir()
    program = f"print('3/4 [==>.]', end='{end}'); raise SystemExit(3)"
    order = {"argv": [sys.executable, "-c", program], "env": {}, "restart": "on-failure", "max_restarts": 1}
    directory.write("order.json", order)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        Supervisor(directory).run(-1)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    last = "3/4 [==>.]" if not end else "3/4 [==>.]\n"
    assert directory.log.read_text() == f"{last}{between}{last}"

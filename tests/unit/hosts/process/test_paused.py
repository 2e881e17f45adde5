"""A process that somebody has stopped, as with SIGSTOP, is paused; it is ended, as one whose supervisor is killed is."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tfprov.hosts.process.proc import identity, signal_group, stands_still, wait_until
from tfprov.hosts.process.stop import stop_task
from tfprov.hosts.process.task_dir import TaskDir, observe_task
from tfprov.model.state import State

SAVED = 7
"""The exit code of a program that has acted on SIGTERM."""


@pytest.fixture
def stopped() -> "Iterator[subprocess.Popen[bytes]]":
    """A program that saves on SIGTERM, and that stands still."""
    program = ["sh", "-c", f"trap 'exit {SAVED}' TERM; echo; kill -STOP $$; sleep 60 & wait"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        wait_until(lambda: stands_still(process.pid), 30)
        try:
            yield process
        finally:
            signal_group(process.pid, signal.SIGKILL)


def test_a_stopped_process_is_paused_and_acts_on_the_signal_that_ends_it(
    stopped: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    directory = TaskDir(tmp_path / "worker-0")
    directory.path.mkdir()
    directory.write("state.json", {"state": "running", "pid": stopped.pid, "identity": identity(stopped.pid)})
    observed = observe_task(directory, "h1")
    assert (observed.state, observed.paused, observed.unpause) == (State.RUNNING, True, f"kill -CONT {stopped.pid}")
    os.kill(stopped.pid, signal.SIGCONT)
    wait_until(lambda: not stands_still(stopped.pid), 30)
    assert not observe_task(directory, "h1").paused
    os.kill(stopped.pid, signal.SIGSTOP)
    stop_task("h1", directory, "worker/0", 30.0)
    assert stopped.wait() == SAVED


def test_a_task_whose_supervisor_is_killed_while_it_ends_it_is_ended_all_the_same(tmp_path: Path) -> None:
    directory = TaskDir(tmp_path / "worker-0")
    directory.path.mkdir()
    holds = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); "
    holds += "fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); time.sleep(60)"
    with (
        subprocess.Popen([sys.executable, "-c", holds, directory.path / "lock"], stdout=subprocess.PIPE) as supervisor,
        subprocess.Popen(["sleep", "60"], start_new_session=True) as task,
    ):
        try:
            assert supervisor.stdout is not None
            supervisor.stdout.readline()
            state = {"state": "running", "pid": task.pid, "identity": identity(task.pid)}
            of_supervisor = {"supervisor": supervisor.pid, "supervisor_identity": identity(supervisor.pid)}
            directory.write("state.json", state | of_supervisor)
            stop_task("h1", directory, "worker/0", 30.0)
            assert (supervisor.wait(), task.poll()) == (-signal.SIGTERM, -signal.SIGTERM)
        finally:
            supervisor.kill()
            task.kill()
    observed = observe_task(directory, "h1")
    assert (observed.state, observed.exit_code) == (State.EXITED, None)

"""Faults of real processes: kills, ignored signals, recycled pids, floods of output, and interrupted runs."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.runtime_bench import ProcessBench, code, container
from tests.support.waiting import until
from tfprov.engine.monitoring.logs import is_unfinished
from tfprov.errors import HostError
from tfprov.hosts.process.proc import identity
from tfprov.hosts.process.supervisor import LOG_LIMIT
from tfprov.hosts.process.task_dir import TaskDir
from tfprov.model.state import State

UP = "print('up\\n', end='', flush=True)"
"""In one write: a task's output is not buffered, and print() writes the end of the line by itself, after a signal maybe."""
STUBBORN = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); {UP}; time.sleep(60)"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[ProcessBench]:
    made = ProcessBench(tmp_path)
    yield made
    made.close()


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def printed(bench: ProcessBench, line: str) -> None:
    until(lambda: line in list(bench.process.logs("worker/0")))


# --- kills -----------------------------------------------------------------------------------------------------------


def test_a_killed_task_is_seen_as_137_and_not_restarted(bench: ProcessBench) -> None:
    bench.start(container())
    os.kill(bench.pid(), signal.SIGKILL)
    seen = bench.becomes(State.EXITED)
    assert (seen.exit_code, seen.restarts, seen.stopped) == (137, 0, False)
    assert bench.alive() == []


def test_a_task_without_its_supervisor_still_runs_and_can_be_stopped(bench: ProcessBench) -> None:
    bench.start(container())
    supervisor = bench.pid("supervisor")
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: identity(supervisor) is None)
    assert bench.see().state is State.RUNNING
    with pytest.raises(HostError, match="already running"):
        bench.start(container())
    bench.process.stop("worker/0", 5)
    seen = bench.see()
    assert (seen.state, seen.exit_code, seen.stopped) == (State.EXITED, None, True)
    assert bench.alive() == []


def test_a_task_without_its_supervisor_is_killed_with_all_its_children(bench: ProcessBench) -> None:
    child = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {STUBBORN!r}]); time.sleep(60)"
    bench.start(container(argv=python(child)))
    printed(bench, "up")
    supervisor = bench.pid("supervisor")
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: identity(supervisor) is None)
    bench.process.stop("worker/0", 0.2)
    until(lambda: bench.alive() == [])


def test_a_task_that_ends_between_two_looks_at_it_has_ended(tmp_path: Path) -> None:
    class Ending(TaskDir):
        """Its supervisor ends once it has been seen, after its last word."""

        seen = 0

        def is_supervised(self) -> bool:
            self.seen += 1
            if self.seen == 1:
                return True
            self.write("state.json", {"state": "exited", "exit_code": 0})
            return False

    directory = Ending(tmp_path)
    directory.write("state.json", {"state": "running"})
    assert directory.read_consistent_state() == (False, {"state": "exited", "exit_code": 0})


def test_a_task_killed_with_its_supervisor_is_lost(bench: ProcessBench) -> None:
    bench.start(container())
    supervisor, task = bench.pid("supervisor"), bench.pid()
    os.kill(supervisor, signal.SIGKILL)
    os.kill(task, signal.SIGKILL)
    seen = bench.becomes(State.LOST)
    assert seen.exit_code is None
    assert seen.ending == "gone without an exit code"
    bench.process.stop("worker/0", 5)
    bench.start(container())
    assert bench.see().state is State.RUNNING


def test_a_process_with_a_recycled_pid_is_never_taken_for_the_task(bench: ProcessBench) -> None:
    bench.run_to_end(0)
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        facts = bench.facts() | {"state": "running", "pid": stranger.pid, "supervisor": stranger.pid}
        bench.process.task_dir("worker/0").write("state.json", facts)
        assert bench.see().state is State.LOST
        bench.process.stop("worker/0", 0.1)
        bench.start(container())
        bench.process.stop("worker/0", 5)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


# --- stopping --------------------------------------------------------------------------------------------------------


def test_a_group_that_ignores_sigterm_is_killed_whole_after_the_grace(bench: ProcessBench) -> None:
    program = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {STUBBORN!r}])\n{STUBBORN}"
    bench.start(container(argv=python(program)))
    until(lambda: list(bench.process.logs("worker/0")) == ["up", "up"])
    bench.process.stop("worker/0", 0.3)
    seen = bench.see()
    assert (seen.state, seen.exit_code, seen.stopped) == (State.EXITED, 137, True)
    until(lambda: bench.alive() == [])


def test_a_task_has_its_grace_to_save(bench: ProcessBench) -> None:
    program = (
        "import signal, sys, time\n"
        "def save(*_): time.sleep(0.3); print('saved', flush=True); sys.exit(0)\n"
        f"signal.signal(signal.SIGTERM, save); {UP}; time.sleep(60)"
    )
    bench.start(container(argv=python(program)))
    printed(bench, "up")
    bench.process.stop("worker/0", 10)
    seen = bench.see()
    assert (seen.exit_code, seen.stopped, seen.finished) == (0, True, False)
    assert list(bench.process.logs("worker/0")) == ["up", "saved"]


def test_background_processes_of_an_ended_task_are_killed(bench: ProcessBench) -> None:
    bench.start(container(argv=["sh", "-c", "sleep 60 & exit 0"]))
    bench.becomes(State.EXITED)
    until(lambda: bench.alive() == [])


DETACHED = f"""
import os, subprocess, sys
subprocess.Popen([sys.executable, "-c", {STUBBORN!r}], start_new_session=True)
if not os.fork():
    os.setsid()
    if not os.fork():
        {STUBBORN}
    os._exit(0)
"""
"""A child in a session of its own, and a daemon; both ignore SIGTERM."""


def test_processes_in_sessions_of_their_own_are_killed_once_the_task_is_stopped(bench: ProcessBench) -> None:
    bench.start(container(argv=python(f"{DETACHED}\nimport time; time.sleep(60)")))
    until(lambda: list(bench.process.logs("worker/0")) == ["up", "up"])
    bench.process.stop("worker/0", 5)
    assert bench.see().stopped
    assert bench.alive() == []


def test_processes_in_sessions_of_their_own_end_before_the_task_is_started_again(bench: ProcessBench) -> None:
    program = f"{DETACHED}\nimport sys, time; time.sleep(0.5); sys.exit(5)"
    bench.start(container(argv=python(program), restart="on-failure", max_restarts=1))
    bench.becomes(State.EXITED)
    assert bench.alive() == []


def test_a_stop_between_two_restarts_ends_it(bench: ProcessBench) -> None:
    bench.start(container(argv=python("raise SystemExit(5)"), restart="on-failure", max_restarts=100))
    until(lambda: bench.see().restarts >= 1)  # each pause is longer than the one before; one may pass between two looks
    bench.process.stop("worker/0", 5)
    seen = bench.see()
    assert (seen.state, seen.stopped) == (State.EXITED, True)
    assert bench.alive() == []


def test_a_task_outlives_who_started_it(bench: ProcessBench, tmp_path: Path) -> None:
    wanted = container()
    program = (
        "import sys\nfrom pathlib import Path\nfrom tfprov.hosts.process.runtime import ProcessRuntime\n"
        "from tfprov.model.cluster import Task\nfrom tfprov.model.state import Container\n"
        f"ProcessRuntime('h', Path({str(tmp_path / 'h')!r})).start({wanted!r}, 'run-1')"
    )
    subprocess.run(python(program), check=True, start_new_session=True, timeout=600)
    assert bench.see().state is State.RUNNING
    assert identity(bench.pid()) is not None


# --- starting --------------------------------------------------------------------------------------------------------


def test_a_port_held_by_a_foreign_process_is_reported_with_its_owner(bench: ProcessBench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(HostError, match=rf"h: port {port} for worker/0 is taken by .+ \(pid {os.getpid()}\)"):
            bench.start(container(port=port))
    assert bench.runtime.observe().containers == ()


def test_an_address_of_another_machine_is_not_called_a_port_that_is_taken(bench: ProcessBench) -> None:
    wanted = container()
    elsewhere = type(wanted.task)("worker", 0, "worker", "h", "192.0.2.1", wanted.task.port)
    with pytest.raises(HostError) as raised:
        bench.start(type(wanted)(**{**vars(wanted), "task": elsewhere}))
    assert "192.0.2.1" in str(raised.value)
    assert "taken" not in str(raised.value)


def test_a_task_without_a_port_is_not_refused_one(bench: ProcessBench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        bench.start(container("evaluator/0", port=server.getsockname()[1]))
    assert bench.see("evaluator/0").state is State.RUNNING


def test_a_task_starts_in_a_copy_of_its_code(bench: ProcessBench, tmp_path: Path) -> None:
    packed = code(tmp_path / "program", main="import os; print(os.getcwd()); open('main.py', 'w').write('changed')")
    bench.process.deliver(packed.digest, packed.archive)
    for _ in range(2):
        bench.start(container(argv=[sys.executable, "main.py"], spec={"code": packed.digest}))
        assert bench.becomes(State.EXITED).finished
    assert list(bench.process.logs("worker/0")) == [str(bench.process.task_dir("worker/0").work)] * 2


def test_code_that_was_not_delivered_is_an_error_of_the_host(bench: ProcessBench) -> None:
    with pytest.raises(HostError, match="h: "):
        bench.start(container(spec={"code": f"sha256:{'0' * 64}"}))


def test_a_start_that_was_cut_off_can_be_done_again(bench: ProcessBench) -> None:
    directory = bench.process.task_dir("worker/0")
    directory.checkpoints.mkdir(parents=True)
    assert bench.see().state is State.CREATED
    bench.start(container())
    assert bench.see().state is State.RUNNING


@pytest.mark.parametrize("text", ["", "{", "[]", '{"state": "running"}', '{"state": "exited", "pid": "x"}'])
def test_a_damaged_state_file_of_a_task_does_not_affect_other_tasks(bench: ProcessBench, text: str) -> None:
    bench.run_to_end(0)
    (bench.process.task_dir("worker/0").path / "state.json").write_text(text)
    assert bench.see().state in (State.CREATED, State.LOST, State.EXITED)
    bench.start(container())
    assert bench.see().state is State.RUNNING


def test_the_environment_of_the_controller_does_not_wire_a_task(
    bench: ProcessBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_CONFIG", "of the controller")
    monkeypatch.setenv("TFPROV_TASK", "of the controller")
    program = "import json, os; print(json.dumps([os.environ.get('TF_CONFIG'), os.environ.get('TFPROV_TASK')]))"
    bench.start(container(argv=python(program), env={"TFPROV_TASK": "worker/0"}))
    bench.becomes(State.EXITED)
    assert json.loads(next(iter(bench.process.logs("worker/0")))) == [None, "worker/0"]


def test_a_failed_supervisor_is_reported_in_one_line(bench: ProcessBench) -> None:
    lock = bench.process.task_dir("worker/0").path / "lock"
    lock.mkdir(parents=True)
    with pytest.raises(HostError, match=r"\Ah: worker/0 could not be started: .*Is a directory: '.*/lock'\Z"):
        bench.start(container())


# --- logs ------------------------------------------------------------------------------------------------------------


def test_a_flood_of_output_is_bounded(bench: ProcessBench) -> None:
    flood = "import sys\nfor n in range(25): sys.stdout.write(('x' * 99 + chr(10)) * 10_000)"
    settled = f"import os, time\nwhile os.fstat(1).st_size > {LOG_LIMIT}: time.sleep(0.02)"
    program = f"{flood}\n{settled}\nprint('the end')"
    bench.start(container(argv=python(program)))
    bench.becomes(State.EXITED)
    directory = bench.process.task_dir("worker/0")
    kept = sum(path.stat().st_size for path in (directory.log, directory.older_log) if path.exists())
    assert kept <= 2 * LOG_LIMIT
    assert list(bench.process.logs("worker/0", tail=1)) == ["the end"]


def test_bytes_that_are_not_utf_8_show_as_replacement_characters(bench: ProcessBench) -> None:
    bench.start(container(argv=["printf", r"a\377b\n\200\n"]))
    bench.becomes(State.EXITED)
    assert list(bench.process.logs("worker/0")) == ["a\ufffdb", "\ufffd"]


def test_a_followed_log_ends_with_its_task(bench: ProcessBench) -> None:
    bench.start(container(argv=["sh", "-c", "echo one; sleep 0.3; printf two"]))
    lines = bench.process.logs("worker/0", follow=True)
    # The end of the task is recorded once it is on the disk: until then its last line has no end, and may be shown so.
    assert [line for line in lines if not is_unfinished(line)] == ["one", "two"]


# --- several at once -------------------------------------------------------------------------------------------------


def test_tasks_removed_at_the_same_time_do_not_trip_over_each_other(bench: ProcessBench) -> None:
    names = [f"worker/{index}" for index in range(16)]
    for _ in range(10):
        for name in names:
            checkpoints = Path(bench.process.checkpoint_dir(name))
            checkpoints.mkdir(parents=True)
            for number in range(20):
                (checkpoints / str(number)).touch()
        with ThreadPoolExecutor(len(names)) as pool:
            list(pool.map(bench.process.remove, names))
        assert bench.runtime.observe().containers == ()


def test_a_host_can_be_observed_while_tasks_are_removed(bench: ProcessBench) -> None:
    names = [f"worker/{index}" for index in range(8)]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(30):
            for name in names:
                Path(bench.process.checkpoint_dir(name)).mkdir(parents=True)
            removing = pool.submit(lambda: [bench.process.remove(name) for name in names])
            while not removing.done():
                bench.runtime.observe()
            removing.result()


def test_two_starts_at_the_same_time_never_run_a_task_twice(bench: ProcessBench) -> None:
    port = free_port()

    def start(_: int) -> None:
        with contextlib.suppress(HostError):
            bench.process.start(container(port=port), "run-1")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(start, range(2)))
    assert len(bench.alive()) <= 2  # the task and its supervisor

"""Every verb on this machine, with stand-in programs: quick, and about tfprov rather than TensorFlow."""

import fcntl
import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.local import LONG, SLEEPER, Local, local, rest_of, until

INVENTORY = f"""
all:
  vars:
    tfprov:
      cluster: verbs
      command: [python, -c, "{SLEEPER}"]
      flags: {{train_steps: 2000}}
      ready: start
      restart: never
      port: PORT
  children:
    ps: {{hosts: {{localhost: }}}}
    worker: {{hosts: {{localhost: }}, vars: {{tfprov: {{tasks_per_host: 2}}}}}}
"""


@pytest.fixture
def tfprov(tmp_path: Path) -> Iterator[Local]:
    yield from local(tmp_path)


def started(output: str) -> list[str]:
    return sorted(re.findall(r"^ok +start (\S+)", output, re.MULTILINE))


def test_a_second_up_changes_no_pid(tfprov: Local) -> None:
    tfprov.write(INVENTORY)
    assert started(tfprov("up", fresh=True)) == ["ps/0", "worker/0", "worker/1"]
    before = tfprov.pids()
    assert tfprov("up", fresh=True) == "verbs: 1 ps, 2 workers on 1 host: nothing to do\n"
    assert tfprov.pids() == before
    assert len(before) == 3


def test_a_killed_worker_is_named_and_only_it_is_started_again(tfprov: Local) -> None:
    tfprov.write(INVENTORY)
    tfprov("up")
    before = tfprov.pids()
    os.kill(int(before["worker/1"]), signal.SIGKILL)
    until(lambda: tfprov.tasks()["worker/1"]["state"] == "failed", "the worker is seen to be dead")
    plan = tfprov("plan")
    assert "start  worker/1" in plan
    assert "killed by SIGKILL" in plan
    assert started(tfprov("up")) == ["worker/1"]
    after = tfprov.pids()
    assert {task for task in before if before[task] != after[task]} == {"worker/1"}


def test_an_edited_flag_restarts_what_it_is_for_and_is_named(tfprov: Local) -> None:
    tfprov.write(INVENTORY)
    tfprov("up")
    before = tfprov.pids()
    tfprov.write(INVENTORY.replace("tasks_per_host: 2", "tasks_per_host: 2, flags: {train_steps: 100}"))
    plan = tfprov("plan")
    assert plan.count("(flags.train_steps: 2000 -> 100)") == 2
    assert "ps/0" not in plan
    tfprov("up")
    after = tfprov.pids()
    assert {task for task in before if before[task] != after[task]} == {"worker/0", "worker/1"}
    assert tfprov("up").endswith("nothing to do\n")


def test_edited_code_is_delivered_and_restarts_what_runs_it(tfprov: Local) -> None:
    code = tfprov.directory / "code"
    code.mkdir()
    (code / "train.py").write_text(SLEEPER)
    tfprov.write(INVENTORY.replace("-c,", "train.py]\n      code: ./code #"))
    assert "deliver" in tfprov("up")
    (code / "train.py").write_text(SLEEPER + "\n# edited")
    plan = tfprov("plan")
    assert re.search(r"restart +worker/1 .*\(code: \w{12} -> \w{12}\)", plan)
    tfprov("up")
    (code / "__pycache__").mkdir()
    (code / "__pycache__" / "train.pyc").write_text("made by running it")
    assert tfprov("plan").endswith("nothing to do\n")


@pytest.mark.parametrize("when", ["before it serves", "later"])
def test_run_ends_with_the_chiefs_exit_code_and_its_last_lines(tfprov: Local, when: str) -> None:
    dying = f"import sys, time; print('dying'); time.sleep({0 if when == 'before it serves' else 2}); sys.exit(3)"
    tfprov.write(INVENTORY.replace("tasks_per_host: 2", f'command: [python, -c, "{dying}"]'))
    output = tfprov("run", code=3, fresh=True)
    assert "error: worker/0: exited with code 3\n  worker/0 | dying" in output
    assert tfprov.processes() == []


def test_a_ps_is_stopped_when_the_chief_is_done(tfprov: Local) -> None:
    done = "import time; time.sleep(1); print('trained')"
    tfprov.write(INVENTORY.replace("tasks_per_host: 2", f'command: [python, -c, "{done}"]'))
    output = tfprov("run")
    assert "worker/0 | trained" in output
    assert re.search(r"ok +stop ps/0", output)
    assert tfprov.processes() == []


def test_a_finished_worker_is_finished_and_not_drift(tfprov: Local) -> None:
    tfprov.write(INVENTORY.replace("tasks_per_host: 2", 'command: [python, -c, "pass"]'))
    tfprov("up")
    until(lambda: tfprov.tasks()["worker/0"]["state"] == "finished", "the worker is done")
    assert tfprov("plan").endswith("nothing to do\n")
    assert tfprov("wait") == "worker/0 is done\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_leaves_nothing_running(tfprov: Local, number: signal.Signals) -> None:
    tfprov.write(INVENTORY)
    process = tfprov.start("run", fresh=True)
    until(lambda: len(tfprov.pids()) == 3, "the tasks run", of=process)
    process.send_signal(number)
    output, _ = process.communicate(timeout=LONG)
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert tfprov.processes() == []


def test_the_second_ctrl_c_leaves_at_once(tfprov: Local) -> None:
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf'); time.sleep(600)"
    tfprov.write(
        INVENTORY.replace(SLEEPER, stubborn).replace("restart: never", "restart: never\n      stop_grace: 120")
    )
    tfprov("up")
    until(lambda: tfprov("logs").count("deaf") == 3, "they hear nothing")
    running = tfprov.pids().values()
    down = tfprov.start("down", fresh=True)
    assert down.stdout is not None
    tasks = tfprov.directory / "state/tfprov/clusters/verbs/hosts/localhost/tasks"
    until(lambda: [*tasks.glob("*/grace")], "it waits for one to stop", of=down)
    down.send_signal(signal.SIGINT)
    assert any("(Ctrl-C again to leave at once)" in line for line in down.stdout)
    down.send_signal(signal.SIGINT)
    assert down.wait(LONG) == 130
    for pid in running:  # so that the fixture need not wait for them either
        os.kill(int(pid), signal.SIGKILL)


def test_after_kill_9_down_finds_everything(tfprov: Local) -> None:
    tfprov.write(INVENTORY)
    process = tfprov.start("run", fresh=True)
    until(lambda: len(tfprov.pids()) == 3, "the tasks run", of=process)
    process.kill()
    process.wait()
    assert len(tfprov.pids()) == 3
    tfprov("down")
    assert tfprov.processes() == []
    assert tfprov("down") == "nothing to do: verbs is not there\n"


def test_the_second_of_two_ups_says_who_holds_the_cluster(tfprov: Local) -> None:
    slow = INVENTORY.replace("ready: start", "start_timeout: 600")
    tfprov.write(slow)
    process = tfprov.start("up")
    until(lambda: len(tfprov.pids()) == 3, "the tasks run", of=process)
    output = tfprov("up", "-e", "tfprov.flags.train_steps=1", code=3)
    assert "cluster verbs is in use by `tfprov up` of" in output
    assert f"(pid {process.pid}" in output
    process.kill()
    process.wait()
    tfprov("down")


def lock_is_free(tfprov: Local) -> bool:
    with (tfprov.directory / "state/tfprov/clusters/verbs/lock").open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_down_works_while_run_follows_in_another_terminal(tfprov: Local) -> None:
    tfprov.write(INVENTORY)
    process = tfprov.start("run")
    until(lambda: len(tfprov.pids()) == 3, "the tasks run", of=process)
    until(lambda: lock_is_free(tfprov), "run has started the cluster", of=process)
    tfprov("down")
    output, _ = process.communicate(timeout=LONG)
    assert process.returncode != 0
    assert tfprov.processes() == []
    assert "Traceback" not in output


def test_a_port_that_is_taken_is_told_with_its_owner(tfprov: Local) -> None:
    tfprov.write(INVENTORY)
    with socket.socket() as owner:
        owner.bind(("127.0.0.1", tfprov.port + 1))
        owner.listen()
        output = tfprov("up", code=1)
    assert re.search(rf"localhost: port {tfprov.port + 1} for worker/0 is taken by \S+ \(pid {os.getpid()}\)", output)
    assert "nothing was left half-started: stopped ps/0" in output
    assert tfprov.processes() == []
    assert started(tfprov("up")) == ["ps/0", "worker/0", "worker/1"]


def test_partial_keeps_what_did_start(tfprov: Local) -> None:
    tfprov.write(INVENTORY)
    with socket.socket() as owner:
        owner.bind(("127.0.0.1", tfprov.port + 1))
        owner.listen()
        tfprov("up", "--partial", code=1)
    assert started(tfprov("up")) == ["worker/0"]


def test_a_task_that_left_the_inventory_is_stopped(tfprov: Local) -> None:
    tfprov.write(INVENTORY)
    tfprov("up")
    tfprov.write(INVENTORY.replace("tasks_per_host: 2", "tasks_per_host: 1"))
    plan = tfprov("plan")
    assert re.search(r"(stop|remove) +worker/1 .*\(not in the inventory\)", plan)
    tfprov("up")
    assert set(tfprov.tasks()) == {"ps/0", "worker/0"}


def test_a_host_that_left_the_inventory_is_cleaned_up(tfprov: Local) -> None:
    two = INVENTORY.replace(
        "worker: {hosts: {localhost: }", "worker: {hosts: {localhost: , other: {ansible_connection: local}}"
    )
    tfprov.write(two)
    tfprov("up")
    tfprov.write(INVENTORY)
    assert re.search(r"worker/[23] +on other", tfprov("plan"))
    tfprov("down")
    assert tfprov.processes() == []


def test_logs_have_their_task_in_front(tfprov: Local) -> None:
    tfprov.write(INVENTORY)
    tfprov("up")
    until(lambda: tfprov("logs").count("| up") == 3, "every task has printed")
    assert f"--job_name=worker', '--task_index=1', '--ps_hosts=127.0.0.1:{tfprov.port}'" in tfprov("logs", "worker/1")
    assert tfprov("logs", "-n", "0") == ""
    follower = tfprov.start("logs", "-f", "worker/0")
    assert follower.stdout is not None
    assert follower.stdout.readline().startswith("worker/0 | up ['--job_name=worker', '--task_index=0'")
    tfprov("down")
    assert rest_of(follower) == ""


def test_exec_runs_beside_the_task_with_its_environment_and_exit_code(tfprov: Local) -> None:
    tfprov.write(INVENTORY)
    tfprov("up")
    assert tfprov("exec", "worker/1", "--", "printenv", "TFPROV_TASK") == "worker/1\n"
    assert '"task": {"index": 1, "type": "worker"}' in tfprov("exec", "worker/1", "--", "printenv", "TF_CONFIG")
    tfprov("exec", "worker/1", "--", "sh", "-c", "exit 7", code=7)
    assert "no such command" in tfprov("exec", "worker/1", "--", "no-such-command", code=1)


def test_a_playbook_of_the_users_own_is_played(tfprov: Local) -> None:
    tfprov.write(INVENTORY)
    book = tfprov.directory / "mine.yml"
    book.write_text(
        "- hosts: all\n  tasks:\n    - start:\n    - command: echo it runs\n      tags: [talk]\n"
        "    - stop: {remove: true}\n      when: evaluator\n"
    )
    assert "would start" in tfprov("play", str(book), "--check")
    assert tfprov.pids() == {}
    assert "localhost | it runs" in tfprov("play", str(book))
    assert len(tfprov.pids()) == 3
    assert tfprov("play", str(book), "-t", "talk") == "localhost | it runs\n"
    assert tfprov("play", "--show", "up").startswith("# What `tfprov up` does.")


def test_a_failing_task_is_started_again_up_to_its_limit(tfprov: Local) -> None:
    failing = "import sys, time; print('trying'); time.sleep(2); sys.exit(4)"
    policy = f'command: [python, -c, "{failing}"], restart: on-failure, max_restarts: 2'
    tfprov.write(INVENTORY.replace("tasks_per_host: 2", policy))
    output = tfprov("run", code=4)
    assert "error: worker/0: exited with code 4" in output
    assert output.partition("error:")[0].count("worker/0 | trying") == 3

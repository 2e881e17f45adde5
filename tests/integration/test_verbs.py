"""Every command on this machine, with stand-in programs instead of TensorFlow."""

import contextlib
import fcntl
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time

import pytest

from tests.support.local_cluster import SLEEPER, LocalCluster, read_to_end
from tests.support.waiting import LONG, until

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


def started(output: str) -> list[str]:
    return sorted(re.findall(r"^ok +start (\S+)", output, re.MULTILINE))


def test_a_second_up_changes_no_pid(local_cluster: LocalCluster) -> None:
    local_cluster.write(INVENTORY)
    assert started(local_cluster("up", fresh=True)) == ["ps/0", "worker/0", "worker/1"]
    before = local_cluster.pids()
    assert local_cluster("up", fresh=True) == "verbs: 1 ps, 2 workers on 1 host: nothing to do\n"
    assert local_cluster.pids() == before
    assert len(before) == 3


def test_a_killed_worker_is_named_and_only_it_is_started_again(local_cluster: LocalCluster) -> None:
    local_cluster.write(INVENTORY)
    local_cluster("up")
    before = local_cluster.pids()
    os.kill(int(before["worker/1"]), signal.SIGKILL)
    until(lambda: local_cluster.tasks()["worker/1"]["state"] == "failed", "the worker is seen to be dead")
    plan = local_cluster("plan")
    assert "start  worker/1" in plan
    assert "killed by SIGKILL" in plan
    assert started(local_cluster("up")) == ["worker/1"]
    after = local_cluster.pids()
    assert {task for task in before if before[task] != after[task]} == {"worker/1"}


def test_an_edited_flag_restarts_its_tasks_and_is_named(local_cluster: LocalCluster) -> None:
    local_cluster.write(INVENTORY)
    local_cluster("up")
    before = local_cluster.pids()
    local_cluster.write(INVENTORY.replace("tasks_per_host: 2", "tasks_per_host: 2, flags: {train_steps: 100}"))
    plan = local_cluster("plan")
    assert plan.count("(flags.train_steps: 2000 -> 100)") == 2
    assert "ps/0" not in plan
    local_cluster("up")
    after = local_cluster.pids()
    assert {task for task in before if before[task] != after[task]} == {"worker/0", "worker/1"}
    assert local_cluster("up").endswith("nothing to do\n")


def test_edited_code_is_delivered_and_restarts_its_tasks(local_cluster: LocalCluster) -> None:
    code = local_cluster.directory / "code"
    code.mkdir()
    (code / "train.py").write_text(SLEEPER)
    local_cluster.write(INVENTORY.replace("-c,", "train.py]\n      code: ./code #"))
    assert "deliver" in local_cluster("up")
    (code / "train.py").write_text(SLEEPER + "\n# edited")
    plan = local_cluster("plan")
    assert re.search(r"restart +worker/1 .*\(code: \w{12} -> \w{12}\)", plan)
    local_cluster("up")
    (code / "__pycache__").mkdir()
    (code / "__pycache__" / "train.pyc").write_text("made by running it")
    assert local_cluster("plan").endswith("nothing to do\n")


@pytest.mark.parametrize("when", ["before it serves", "later"])
def test_run_ends_with_the_chiefs_exit_code_and_its_last_lines(local_cluster: LocalCluster, when: str) -> None:
    go = local_cluster.directory / "go"
    waits = f"[time.sleep(0.1) for _ in iter(lambda: os.path.exists('{go}'), True)]"
    dying = f"import os, sys, time; print('dying'); {waits}; sys.exit(3)"
    local_cluster.write(INVENTORY.replace("tasks_per_host: 2", f'command: [python, -c, "{dying}"]'))
    if when == "before it serves":
        go.touch()
    process = local_cluster.start("run", fresh=True)
    if when == "later":
        until(lambda: len(local_cluster.pids()) == 2, "the tasks run", of=process)
        until(lambda: lock_is_free(local_cluster), "run has started the cluster", of=process)
        go.touch()
    output = read_to_end(process)
    assert process.returncode == 1, output  # 3 would say that another run holds the cluster
    assert "error: worker/0: exited with code 3\n  worker/0 | dying" in output
    assert local_cluster.processes() == []


def test_a_ps_is_stopped_when_the_chief_is_done(local_cluster: LocalCluster) -> None:
    done = "import time; time.sleep(1); print('trained')"
    local_cluster.write(INVENTORY.replace("tasks_per_host: 2", f'checkpoints: none, command: [python, -c, "{done}"]'))
    output = local_cluster("run")
    assert "worker/0 | trained" in output
    assert re.search(r"ok +stop ps/0", output)
    assert local_cluster.processes() == []
    kept = re.search(r"^logs are kept in (.*)$", output, re.MULTILINE)
    assert kept
    message, *lines = local_cluster("logs", "worker/0").splitlines()
    ended = r"worker/0 is not there any more \(exited with code 0, 20\S+ \d\d:\d\d:\d\d UTC\); its log is kept in "
    assert re.fullmatch(ended + re.escape(f"{kept[1]}/worker-0.log:"), message)
    assert lines == ["worker/0 | trained"]


def test_a_model_that_was_saved_elsewhere_is_kept_until_it_is_brought(local_cluster: LocalCluster) -> None:
    saving = "import pathlib; pathlib.Path('my.keras').write_text('weights')"
    local_cluster.write(INVENTORY.replace("tasks_per_host: 2", f'command: [python, -c, "{saving}"]'))
    assert "bring it with `tfprov gather --path my.keras`" in local_cluster("run", code=1)
    assert local_cluster.tasks()["worker/0"]["state"] == "finished"
    assert "brought to" in local_cluster("gather", "--path", "my.keras")
    assert (local_cluster.directory / "checkpoints" / "verbs" / "my.keras").read_text() == "weights"
    local_cluster("down")
    assert local_cluster("down") == "nothing to do: verbs is not there\n"


def test_a_finished_worker_is_finished_and_not_drift(local_cluster: LocalCluster) -> None:
    local_cluster.write(INVENTORY.replace("tasks_per_host: 2", 'command: [python, -c, "pass"]'))
    local_cluster("up")
    until(lambda: local_cluster.tasks()["worker/0"]["state"] == "finished", "the worker is done")
    assert local_cluster("plan").endswith("nothing to do\n")
    at_once = r"worker/0 on localhost ended with exit code 0, \d\.\d s after its start: does its `command:` .*\n"
    assert re.fullmatch(f"{at_once}worker/0 is done\n", local_cluster("wait"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing_running(local_cluster: LocalCluster, number: signal.Signals) -> None:
    local_cluster.write(INVENTORY)
    process = local_cluster.start("run", fresh=True)
    until(lambda: len(local_cluster.pids()) == 3, "the tasks run", of=process)
    process.send_signal(number)
    output, _ = process.communicate(timeout=LONG)
    assert process.returncode == 128 + number, output
    assert "interrupted: Ctrl-C again leaves at once" in output
    assert "Traceback" not in output
    assert local_cluster.processes() == []


def in_terminal(local_cluster: LocalCluster, *words: str) -> tuple["subprocess.Popen[bytes]", int]:
    """Start a verb in a terminal of its own, and return it with the other end of the terminal."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    # A session with the terminal as its own, as a shell in a window: the kernel sends it SIGHUP when the window goes.
    own = "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    argv = [sys.executable, "-c", own + "os.execv(sys.argv[1], sys.argv[1:])", *local_cluster.command(*words)]
    process = subprocess.Popen(
        argv, stdin=slave, stdout=slave, stderr=slave, env=local_cluster.env, cwd=local_cluster.directory
    )
    os.close(slave)
    return process, master


def read_until(master: int, text: bytes) -> None:
    """Read what a verb shows in its terminal, up to `text`; to its end if that is empty."""
    shown = b""
    with contextlib.suppress(OSError):  # nobody has the other end open any more
        while not text or text not in shown:
            shown += os.read(master, 65536)
    assert text in shown, shown.decode()


def answer_to_ctrl_c(local_cluster: LocalCluster, *words: str) -> float:
    """Press Ctrl-C in the terminal of a verb that follows the training, and return the seconds to its answer."""
    process, master = in_terminal(local_cluster, *words)
    limit = threading.Timer(LONG, process.kill)
    limit.start()
    try:
        read_until(master, b"waiting for the first step")
        pressed = time.monotonic()
        os.write(master, b"\x03")
        read_until(master, b"interrupted: Ctrl-C again leaves at once")
        answered = time.monotonic() - pressed
        read_until(master, b"")
        assert process.wait(LONG) == 130
        return answered
    finally:
        limit.cancel()
        process.kill()
        os.close(master)


def test_the_first_ctrl_c_is_answered_within_a_fifth_of_a_second(local_cluster: LocalCluster) -> None:
    local_cluster.write(INVENTORY)
    # What else runs on this machine may hold it up; that it waits for something shows every time.
    assert any(answer_to_ctrl_c(local_cluster, "run") < 0.2 for _ in range(5))
    assert local_cluster.processes() == []


def test_a_terminal_that_is_closed_leaves_the_training_running(local_cluster: LocalCluster) -> None:
    local_cluster.write(INVENTORY)
    process, master = in_terminal(local_cluster, "run")
    read_until(master, b"waiting for the first step")  # until then, a supervisor would bring up what is missing
    running = local_cluster.pids()
    assert len(running) == 3
    os.close(master)
    assert process.wait(LONG) == 129
    assert local_cluster.pids() == running
    assert local_cluster("plan").endswith("nothing to do\n")
    local_cluster("down")
    until(lambda: local_cluster.processes() == [], "the supervisor, which went on with the run, has ended, too")


def test_a_hang_up_prints_how_to_reattach(local_cluster: LocalCluster) -> None:
    local_cluster.write(INVENTORY)
    process = local_cluster.start("run", fresh=True)
    until(lambda: len(local_cluster.pids()) == 3 and lock_is_free(local_cluster), "run follows", of=process)
    process.send_signal(signal.SIGHUP)
    output, _ = process.communicate(timeout=LONG)
    assert process.returncode == 129
    assert output.endswith(
        "error: the terminal was closed: what runs goes on, and is taken down at its end; `tfprov attach` follows it\n"
    )
    assert len(local_cluster.pids()) == 3


def test_the_second_ctrl_c_leaves_at_once(local_cluster: LocalCluster) -> None:
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf'); time.sleep(600)"
    local_cluster.write(
        INVENTORY.replace(SLEEPER, stubborn).replace("restart: never", "restart: never\n      stop_grace: 120")
    )
    local_cluster("up")
    until(lambda: local_cluster("logs").count("deaf") == 3, "they hear nothing")
    running = local_cluster.pids().values()
    down = local_cluster.start("down", fresh=True)
    assert down.stdout is not None
    tasks = local_cluster.directory / "state/tfprov/clusters/verbs/hosts/localhost/tasks"
    until(lambda: [*tasks.glob("*/grace")], "it waits for one to stop", of=down)
    down.send_signal(signal.SIGINT)
    assert any("(Ctrl-C again to leave at once)" in line for line in down.stdout)
    down.send_signal(signal.SIGINT)
    rest = read_to_end(down)
    assert down.returncode == 130
    what = "left at once: ps/0, worker/0, worker/1 may still run"
    assert f"{what}; `tfprov status` shows them, `tfprov down` gathers and ends them\n" in rest
    for pid in running:  # so that the fixture need not wait for them either
        os.kill(int(pid), signal.SIGKILL)


def test_after_kill_9_down_finds_everything(local_cluster: LocalCluster) -> None:
    local_cluster.write(INVENTORY)
    process = local_cluster.start("run", fresh=True)
    until(lambda: len(local_cluster.pids()) == 3, "the tasks run", of=process)
    process.kill()
    process.wait()
    assert len(local_cluster.pids()) == 3
    local_cluster("down")
    assert local_cluster.processes() == []
    assert local_cluster("down") == "nothing to do: verbs is not there\n"


MANY = (
    "import os, pathlib, time; there = pathlib.Path(os.environ['TFPROV_CHECKPOINT_DIR']); "
    "[(there / f'many-{number:04}').write_text('x') for number in range(1010)]; "
    "(there / 'sparse.bin').touch(); os.truncate(there / 'sparse.bin', 1024**4); print('up'); time.sleep(600)"
)
"""Writes more than is gathered at a time, and then a file that takes minutes to read."""


def test_a_down_killed_while_it_gathers_leaves_nothing_running_and_the_next_completes_it(
    local_cluster: LocalCluster,
) -> None:
    local_cluster.write(INVENTORY.replace("tasks_per_host: 2", f'command: [python, -c, "{MANY}"]'))
    local_cluster("up")
    until(lambda: local_cluster("logs", "worker/0") == "worker/0 | up\n", "it has written")
    gathered = local_cluster.directory / "checkpoints" / "verbs"
    down = local_cluster.start("down", fresh=True)
    until(
        lambda: (gathered / "many-0999").exists() and "many-0999" in (gathered / "manifest.json").read_text(), of=down
    )
    down.kill()
    assert "gathered into" not in read_to_end(down)
    assert local_cluster.processes() == []
    [sparse] = (local_cluster.directory / "state").rglob("sparse.bin")
    os.truncate(sparse, 2 * 1024**3)
    output = local_cluster("down")
    assert "gathered into" in output
    assert ": 11 files, 2.1 GB\n" in output
    assert (gathered / "sparse.bin").stat().st_blocks == 0
    assert len([*gathered.glob("many-*")]) == 1010
    assert local_cluster("down") == "nothing to do: verbs is not there\n"


def test_the_second_of_two_ups_names_the_lock_holder(local_cluster: LocalCluster) -> None:
    slow = INVENTORY.replace("ready: start", "start_timeout: 600")
    local_cluster.write(slow)
    process = local_cluster.start("up")
    until(lambda: len(local_cluster.pids()) == 3, "the tasks run", of=process)
    output = local_cluster("up", "-e", "tfprov.flags.train_steps=1", code=3)
    assert "cluster verbs is in use by `tfprov up` of" in output
    assert f"(pid {process.pid}" in output
    process.kill()
    process.wait()
    local_cluster("down")


def lock_is_free(local_cluster: LocalCluster) -> bool:
    with (local_cluster.directory / "state/tfprov/clusters/verbs/lock").open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_down_works_while_run_follows_in_another_terminal(local_cluster: LocalCluster) -> None:
    local_cluster.write(INVENTORY)
    process = local_cluster.start("run")
    until(lambda: len(local_cluster.pids()) == 3, "the tasks run", of=process)
    until(lambda: lock_is_free(local_cluster), "run has started the cluster", of=process)
    local_cluster("down")
    output, _ = process.communicate(timeout=LONG)
    assert process.returncode != 0
    assert local_cluster.processes() == []
    assert "Traceback" not in output


def test_a_port_in_use_is_reported_with_its_owner(local_cluster: LocalCluster) -> None:
    local_cluster.write(INVENTORY)
    with socket.socket() as owner:
        owner.bind(("127.0.0.1", local_cluster.port + 1))
        owner.listen()
        planned, output = local_cluster("plan"), local_cluster("up", code=1)
    taken = rf"localhost: port {local_cluster.port + 1} for worker/0 is taken by \S+ \(pid {os.getpid()}\)"
    assert re.search(f"^in the way: {taken}", planned, re.MULTILINE)
    assert re.search(taken, output)
    assert started(output) == [], "also where nothing is in the way"
    assert local_cluster.processes() == []
    assert started(local_cluster("up")) == ["ps/0", "worker/0", "worker/1"]


def test_a_command_that_cannot_be_started_is_refused_before_anything_is_built(local_cluster: LocalCluster) -> None:
    source = local_cluster.directory / "src"
    source.mkdir()
    (source / "train.py").write_text("print(1)\n")
    for verb, command, words in (
        ("run", "[pyhton, train.py]", "this machine has no program pyhton; did you mean python?"),
        ("up", "[python, trian.py]", f"trian.py is not in the code ({source}); did you mean train.py?"),
    ):
        local_cluster.write(INVENTORY.replace(f'[python, -c, "{SLEEPER}"]', f"{command}\n      code: ./src"))
        assert local_cluster(verb, code=2) == f"{local_cluster.inventory}:6:7: error: `command`: {words}\n"
    assert f"ps/0, worker/0, worker/1: {words}" in local_cluster("check", code=1)
    assert not (local_cluster.directory / "state").exists()


def test_partial_keeps_the_started_tasks(local_cluster: LocalCluster) -> None:
    local_cluster.write(INVENTORY)
    with socket.socket() as owner:
        owner.bind(("127.0.0.1", local_cluster.port + 1))
        owner.listen()
        local_cluster("up", "--partial", code=1)
    assert started(local_cluster("up")) == ["worker/0"]


def test_a_task_that_left_the_inventory_is_stopped(local_cluster: LocalCluster) -> None:
    local_cluster.write(INVENTORY)
    local_cluster("up")
    local_cluster.write(INVENTORY.replace("tasks_per_host: 2", "tasks_per_host: 1"))
    plan = local_cluster("plan")
    assert re.search(r"(stop|remove) +worker/1 .*\(not in the inventory\)", plan)
    local_cluster("up")
    assert set(local_cluster.tasks()) == {"ps/0", "worker/0"}


def test_a_host_that_left_the_inventory_is_cleaned_up(local_cluster: LocalCluster) -> None:
    two = INVENTORY.replace(
        "worker: {hosts: {localhost: }", "worker: {hosts: {localhost: , other: {ansible_connection: local}}"
    )
    local_cluster.write(two)
    local_cluster("up")
    local_cluster.write(INVENTORY)
    assert re.search(r"worker/[23] +on other", local_cluster("plan"))
    local_cluster("down")
    assert local_cluster.processes() == []


def test_logs_have_their_task_in_front(local_cluster: LocalCluster) -> None:
    local_cluster.write(INVENTORY)
    local_cluster("up")
    until(lambda: local_cluster("logs").count("| up") == 3, "every task has printed")
    assert f"--job_name=worker', '--task_index=1', '--ps_hosts=127.0.0.1:{local_cluster.port}'" in local_cluster(
        "logs", "worker/1"
    )
    assert local_cluster("logs", "-n", "0") == ""
    follower = local_cluster.start("logs", "-f", "worker/0")
    assert follower.stdout is not None
    assert follower.stdout.readline().startswith("worker/0 | up ['--job_name=worker', '--task_index=0'")
    local_cluster("down")
    assert read_to_end(follower) == ""


def test_exec_runs_beside_the_task_with_its_environment_and_exit_code(local_cluster: LocalCluster) -> None:
    local_cluster.write(INVENTORY)
    local_cluster("up")
    assert local_cluster("exec", "worker/1", "--", "printenv", "TFPROV_TASK") == "worker/1\n"
    assert '"task": {"index": 1, "type": "worker"}' in local_cluster("exec", "worker/1", "--", "printenv", "TF_CONFIG")
    local_cluster("exec", "worker/1", "--", "sh", "-c", "exit 7", code=7)
    assert "no such command" in local_cluster("exec", "worker/1", "--", "no-such-command", code=1)


def test_a_playbook_of_the_users_own_is_played(local_cluster: LocalCluster) -> None:
    local_cluster.write(INVENTORY)
    book = local_cluster.directory / "mine.yml"
    book.write_text(
        "- hosts: all\n  tasks:\n    - start:\n    - command: echo it runs\n      tags: [talk]\n"
        "    - stop: {remove: true}\n      when: evaluator\n"
    )
    assert "would start" in local_cluster("play", str(book), "--check")
    assert local_cluster.pids() == {}
    assert "localhost | it runs" in local_cluster("play", str(book))
    assert len(local_cluster.pids()) == 3
    assert local_cluster("play", str(book), "-t", "talk") == "localhost | it runs\n"
    assert local_cluster("play", "--show", "up").startswith("# What `tfprov up` does.")


def test_a_failing_task_is_started_again_up_to_its_limit(local_cluster: LocalCluster) -> None:
    failing = "import os, sys, time; print('trying', os.getpid()); time.sleep(2); sys.exit(5)"
    policy = f'command: [python, -c, "{failing}"], restart: on-failure, max_restarts: 2'
    local_cluster.write(INVENTORY.replace("tasks_per_host: 2", policy))
    output = local_cluster("run", code=5)
    assert "error: worker/0: exited with code 5" in output
    assert output.partition("error:")[0].count("worker/0 | trying") == 3, "the last words are others each time"

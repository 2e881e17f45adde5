"""Watch a training on this machine: rates, stragglers, restarts, crash loops, and its TensorBoard."""

import http.client
import json
import os
import re
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_cluster import LocalCluster, read_to_end
from tests.support.waiting import LONG, until
from tests.support.warm import AnyProcess

TRAINING = """
import faulthandler, json, os, pathlib, signal, sys, time

faulthandler.register(signal.SIGUSR1)
task, here = os.environ["TFPROV_TASK"], pathlib.Path(os.environ["TFPROV_CHECKPOINT_DIR"])
is_chief = task == "worker/0"
print("up", task, flush=True)


def write(name, data):
    beside = here / f".{name}"
    beside.write_text(json.dumps(data))
    beside.replace(here / name)


def stands_still():
    while (here / "stand").exists():
        time.sleep(0.1)


began, steps, pause = time.time(), 0, 0.2 if task == "worker/1" else 0.05
resumed, lost = (401, 448) if (here / "before").exists() else (None, None)
(here / "before").touch()
if is_chief:
    write("placement.json", {"variables": [{"name": "W", "device": "/job:ps/task:0", "shape": [2, 3], "bytes": 24}]})
while not task.startswith("ps/") and not (here / "done").exists():
    stands_still()
    if (here / "fails").exists():
        print(*(f"reason {n}" for n in range(30)), sep="\\n", flush=True)
        sys.exit(5)
    steps += 1
    rate = steps / (time.time() - began)
    progress = {"task": task, "step": 500 + steps, "steps": steps, "rate": rate, "examples_rate": 32 * rate}
    write("progress.json", {**progress, "at": time.time(), "resumed": resumed, "lost": lost})
    time.sleep(pause)
while task.startswith("ps/"):
    time.sleep(1)
"""
"""A training without TensorFlow that says how far it is, as tfprov's runtime does; worker/1 is the slow one."""

INVENTORY = """
all:
  vars:
    tfprov:
      cluster: watching
      checkpoints: none
      code: ./code
      command: [python, training.py]
      ready: start
      restart: on-failure
      max_restarts: 1
      stop_grace: 1
      port: PORT
  children:
    ps: {hosts: {localhost: }}
    worker: {hosts: {localhost: }, vars: {tfprov: {tasks_per_host: 3}}}
"""


def up(local_cluster: LocalCluster, text: str = INVENTORY) -> None:
    code = local_cluster.directory / "code"
    code.mkdir()
    (code / "training.py").write_text(TRAINING)
    local_cluster.write(text)
    local_cluster("up")


def say(local_cluster: LocalCluster, task: str, word: str) -> Path:
    """Have a task do something: `stand`, `fails`, `done`."""
    name = task.replace("/", "-")
    path = (
        local_cluster.directory / "state/tfprov/clusters/watching/hosts/localhost/tasks" / name / "checkpoints" / word
    )
    path.touch()
    return path


def status(local_cluster: LocalCluster) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(local_cluster("status", "--json"))
    return result


def compared(local_cluster: LocalCluster) -> dict[str, Any]:
    """Wait until the speeds of all three are known, and the first steps no longer count for much; return the status."""

    def look() -> dict[str, Any] | None:
        result = status(local_cluster)
        slowest = result["slowest"]
        return result if slowest and (slowest["task"], slowest["tasks"]) == ("worker/1", 3) else None

    result: dict[str, Any] = until(look, "worker/1 is the slowest of three")
    return result


def read_until(process: AnyProcess, what: str) -> str:
    """Return what a verb prints, up to the line with `what` in it; `rest_of` has the rest."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if what in line:
            return "".join(lines)
    pytest.fail("".join(lines))


def kill(local_cluster: LocalCluster, task: str) -> None:
    os.kill(int(local_cluster.pids()[task]), signal.SIGKILL)


# --- status ----------------------------------------------------------------------------------------------------------


def test_status_shows_every_tasks_own_speed_and_the_slowest(local_cluster: LocalCluster) -> None:
    up(local_cluster)
    result = compared(local_cluster)
    assert 0 < result["slowest"]["rate"] < result["slowest"]["median"]
    by_task = {task["task"]: task for task in result["tasks"]}
    assert by_task["ps/0"]["pace"] is None
    assert by_task["worker/2"]["pace"]["examples_rate"] > by_task["worker/1"]["pace"]["examples_rate"]
    output = local_cluster("status")
    assert re.search(r"^TASK +STATE +UPTIME +RESTARTS +STEPS/S +EXAMPLES/S +HOST", output, re.MULTILINE), output
    assert re.search(r"^worker/1 +running +(\d+m )?\d+s +0 +\d+\.\d +\d+\.\d +localhost", output, re.MULTILINE), output
    assert re.search(
        r"^slowest: worker/1 with [\d.]+ steps/s, \d+% of the median [\d.]+ of 3 tasks$", output, re.MULTILINE
    ), output
    printed = re.search(r"^worker/0: step ([\d,]+) .* examples/s \(\d+s ago\)$", output, re.MULTILINE)
    assert printed, output
    assert int(printed[1].replace(",", "")) > 500
    assert "went back" not in output


def test_status_shows_which_ps_holds_which_variable(local_cluster: LocalCluster) -> None:
    up(local_cluster)
    placed = "worker/0 has not written placement.json"
    until(lambda: placed not in local_cluster.run("status", "--placement").stdout, "the chief has written it")
    assert local_cluster("status", "--placement") == (
        "VARIABLE  TASK  SHAPE   SIZE\nW         ps/0  [2, 3]  24 B\nps/0: 1 variable, 24 B\n"
    )
    message = json.loads(local_cluster("status", "--placement", "--json"))
    assert message["tasks"] == {"ps/0": {"variables": 1, "bytes": 24}}


def test_a_restarted_chief_reports_the_lost_steps(local_cluster: LocalCluster) -> None:
    up(local_cluster)
    until(lambda: status(local_cluster)["progress"], "it trains")
    follower = local_cluster.start("wait")
    kill(local_cluster, "worker/0")
    until(lambda: status(local_cluster)["went_back"], "it goes on")
    assert "worker/0: went back 448 -> 401\n" in local_cluster("status")
    assert local_cluster.tasks()["worker/0"]["restarts"] == 1
    # It may say how far it is before its supervisor has recorded that it runs.
    until(lambda: local_cluster.tasks()["worker/0"]["state"] == "running", "its start is recorded")
    # What it has written before its supervisor recorded the start is of an earlier process, as far as anybody knows.
    until(lambda: (status(local_cluster)["progress"] or {"step": 0})["step"] > 540, "it trains on")
    for task in ("worker/0", "worker/1", "worker/2"):
        say(local_cluster, task, "done")
    output, _ = follower.communicate(timeout=LONG)
    assert follower.returncode == 0, output
    assert output.count("was started again") <= 1  # it may have begun to look after that


# --- restarts and crash loops ----------------------------------------------------------------------------------------


def test_a_restart_is_reported_once_and_the_run_continues_to_its_end(local_cluster: LocalCluster) -> None:
    (local_cluster.directory / "code").mkdir()
    (local_cluster.directory / "code" / "training.py").write_text(TRAINING)
    local_cluster.write(INVENTORY)
    run = local_cluster.start("run")
    output = read_until(run, "worker/2 | up")
    compared(local_cluster)
    for task in ("worker/1", "ps/0"):
        kill(local_cluster, task)
    until(
        lambda: {t["restarts"] for n, t in local_cluster.tasks().items() if n in ("worker/1", "ps/0")} == {1},
        "both again",
    )
    until(lambda: local_cluster("logs", "worker/1").count("up worker/1") == 2, "it is back")
    say(local_cluster, "worker/0", "done")
    output += read_to_end(run)
    assert run.returncode == 0, output
    for task in ("worker/1", "ps/0"):
        assert output.count(f"{task} ended with exit code 137 and was started again (1 of 1)\n") == 1, output
    assert output.count("worker/1 | up worker/1") == 2
    assert local_cluster.processes() == []


def test_a_task_over_its_limit_is_shown_with_its_last_twenty_lines(local_cluster: LocalCluster) -> None:
    up(local_cluster)
    follower = local_cluster.start("wait")
    say(local_cluster, "worker/2", "fails")
    until(lambda: local_cluster.tasks()["worker/2"]["state"] == "failed", "it is at its limit")
    output = local_cluster("status")
    assert re.search(r"^worker/2 +failed .* exited with code 5 after 1 restart$", output, re.MULTILINE), output
    assert [line for line in output.splitlines() if "| reason" in line] == [
        f"  worker/2 | reason {n}" for n in range(10, 30)
    ]
    assert local_cluster.tasks()["worker/0"]["state"] == "running"
    printed = read_until(follower, "the training goes on without worker/2\n")
    say(local_cluster, "worker/0", "fails")
    printed += read_to_end(follower)
    assert follower.returncode == 5, printed
    assert "worker/2: exited with code 5 after 1 restart\n  worker/2 | reason 10\n" in printed
    assert "error: worker/0: exited with code 5 after 1 restart\n  worker/0 | reason 10\n" in printed


# --- stragglers ------------------------------------------------------------------------------------------------------


def test_a_stalled_worker_is_named_and_its_stacks_are_in_its_log(local_cluster: LocalCluster) -> None:
    up(local_cluster)
    compared(local_cluster)
    follower = local_cluster.start("wait")
    stand = say(local_cluster, "worker/2", "stand")
    read_until(local_cluster.start("logs", "worker/2", "--follow"), "in stands_still")
    stand.unlink()
    output = read_until(follower, "has made no step")
    say(local_cluster, "worker/0", "done")
    output += read_to_end(follower)
    assert follower.returncode == 0, output
    (line,) = [line for line in output.splitlines() if "has made no step" in line]
    assert re.match(
        r"worker/2 on localhost has made no step for \d\d s while others do \(a step takes 0\.\d+ s\); ", line
    )
    assert line.endswith("its stacks are in `tfprov logs worker/2`")
    assert "Current thread" not in local_cluster("logs", "worker/1")


# --- tensorboard -----------------------------------------------------------------------------------------------------

BOARD = 'command: [python, -m, http.server, "BOARD_PORT", --bind, 127.0.0.1]'
"""A stand-in that answers."""


def with_board(local_cluster: LocalCluster, settings: str = BOARD) -> str:
    """Return the inventory with a tensorboard; those of a host would count for all its roles."""
    port = str(local_cluster.port + 4)
    message = f"{{tfprov: {{port: {port}, {settings.replace('BOARD_PORT', port)}}}}}"
    return INVENTORY.rstrip("\n") + f"\n    tensorboard: {{hosts: {{localhost: }}, vars: {message}}}\n"


def address(process: AnyProcess) -> tuple[str, str]:
    """Return what `tfprov tensorboard` says first, and the address in it."""
    assert process.stdout is not None
    line = process.stdout.readline()
    result = re.search(r"http://\S+/", line)
    assert result is not None, line + process.stdout.read()
    return line, result[0]


def test_the_way_to_the_tensorboard_is_shown_once_it_answers_and_stays_until_ctrl_c(
    local_cluster: LocalCluster,
) -> None:
    up(local_cluster, with_board(local_cluster))
    process = local_cluster.start("tensorboard")
    line, url = address(process)
    assert line.startswith(f"tensorboard/0 on localhost: http://127.0.0.1:{local_cluster.port + 4}/ (Ctrl-C ends this")
    with urllib.request.urlopen(url, timeout=LONG) as answer:
        assert answer.status == http.client.OK
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    rest = read_to_end(process)
    assert (process.returncode, rest) == (0, "")
    assert local_cluster.tasks()["tensorboard/0"]["state"] == "running"


def test_a_failed_tensorboard_is_reported_in_one_line(local_cluster: LocalCluster) -> None:
    up(local_cluster)
    output = local_cluster("tensorboard", code=2)
    assert output.startswith("error: cluster watching has no tensorboard; add the group `tensorboard`")
    local_cluster.write(with_board(local_cluster))
    assert "tensorboard/0: is not there on localhost; start it with `tfprov up`" in local_cluster("tensorboard", code=1)
    local_cluster("up")
    other = local_cluster("tensorboard", "--port", "1234", code=2)
    assert f"is on this machine and serves at http://127.0.0.1:{local_cluster.port + 4}/" in other


def test_a_tensorboard_that_ends_meanwhile_ends_the_way_to_it(local_cluster: LocalCluster) -> None:
    up(local_cluster, with_board(local_cluster))
    process = local_cluster.start("tensorboard")
    address(process)
    local_cluster("down")
    rest = read_to_end(process)
    assert process.returncode == 1
    assert "error: tensorboard/0: " in rest

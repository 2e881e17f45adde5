"""Watching a training on this machine: speeds, stragglers, restarts, crash loops, and the way to its TensorBoard."""

import http.client
import json
import os
import re
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.local import Local, local, rest_of
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
        sys.exit(4)
    steps += 1
    rate = steps / (time.time() - began)
    said = {"task": task, "step": 500 + steps, "steps": steps, "rate": rate, "examples_rate": 32 * rate}
    write("progress.json", {**said, "at": time.time(), "resumed": resumed, "lost": lost})
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


@pytest.fixture
def tfprov(tmp_path: Path) -> Iterator[Local]:
    yield from local(tmp_path)


def up(tfprov: Local, text: str = INVENTORY) -> None:
    code = tfprov.directory / "code"
    code.mkdir()
    (code / "training.py").write_text(TRAINING)
    tfprov.write(text)
    tfprov("up")


def say(tfprov: Local, task: str, word: str) -> Path:
    """Have a task do something: `stand`, `fails`, `done`."""
    name = task.replace("/", "-")
    path = tfprov.directory / "state/tfprov/clusters/watching/hosts/localhost/tasks" / name / "checkpoints" / word
    path.touch()
    return path


def status(tfprov: Local) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(tfprov("status", "--json"))
    return found


def compared(tfprov: Local) -> dict[str, Any]:
    """Wait until the speeds of all three are known, and the first steps no longer count for much; return the status."""

    def look() -> dict[str, Any] | None:
        found = status(tfprov)
        slowest = found["slowest"]
        return found if slowest and (slowest["task"], slowest["tasks"]) == ("worker/1", 3) else None

    found: dict[str, Any] = until(look, "worker/1 is the slowest of three")
    return found


def read_until(process: AnyProcess, what: str) -> str:
    """Return what a verb prints, up to the line with `what` in it; `rest_of` has the rest."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if what in line:
            return "".join(lines)
    pytest.fail("".join(lines))


def kill(tfprov: Local, task: str) -> None:
    os.kill(int(tfprov.pids()[task]), signal.SIGKILL)


# --- status ----------------------------------------------------------------------------------------------------------


def test_status_shows_every_tasks_own_speed_and_the_slowest(tfprov: Local) -> None:
    up(tfprov)
    found = compared(tfprov)
    assert 0 < found["slowest"]["rate"] < found["slowest"]["median"]
    by_task = {task["task"]: task for task in found["tasks"]}
    assert by_task["ps/0"]["pace"] is None
    assert by_task["worker/2"]["pace"]["examples_rate"] > by_task["worker/1"]["pace"]["examples_rate"]
    output = tfprov("status")
    assert re.search(r"^TASK +STATE +UPTIME +RESTARTS +STEPS/S +EXAMPLES/S +HOST", output, re.MULTILINE), output
    assert re.search(r"^worker/1 +running +\d+s +0 +\d+\.\d +\d+\.\d +localhost", output, re.MULTILINE), output
    assert re.search(
        r"^slowest: worker/1 with [\d.]+ steps/s, \d+% of the median [\d.]+ of 3 tasks$", output, re.MULTILINE
    ), output
    told = re.search(r"^worker/0: step (\d+) .* examples/s \(\d+s ago\)$", output, re.MULTILINE)
    assert told, output
    assert int(told[1]) > 500
    assert "went back" not in output


def test_status_says_which_ps_holds_which_variable(tfprov: Local) -> None:
    up(tfprov)
    placed = "worker/0 has not written placement.json"
    until(lambda: placed not in tfprov.run("status", "--placement").stdout, "the chief has written it")
    assert tfprov("status", "--placement") == (
        "VARIABLE  TASK  SHAPE   SIZE\nW         ps/0  [2, 3]  24 B\nps/0: 1 variable, 24 B\n"
    )
    said = json.loads(tfprov("status", "--placement", "--json"))
    assert said["tasks"] == {"ps/0": {"variables": 1, "bytes": 24}}


def test_a_chief_that_was_started_again_says_which_steps_were_lost(tfprov: Local) -> None:
    up(tfprov)
    until(lambda: status(tfprov)["progress"], "it trains")
    follower = tfprov.start("wait")
    kill(tfprov, "worker/0")
    until(lambda: status(tfprov)["went_back"], "it goes on")
    assert "worker/0: went back 448 -> 401\n" in tfprov("status")
    assert tfprov.tasks()["worker/0"]["restarts"] == 1
    assert tfprov.tasks()["worker/0"]["state"] == "running"
    until(lambda: status(tfprov)["progress"]["step"] > 540, "it trains on")
    for task in ("worker/0", "worker/1", "worker/2"):
        say(tfprov, task, "done")
    output, _ = follower.communicate(timeout=LONG)
    assert follower.returncode == 0, output
    assert output.count("was started again") <= 1  # it may have begun to look after that


# --- restarts and crash loops ----------------------------------------------------------------------------------------


def test_a_restart_is_told_once_and_the_run_goes_on_to_its_end(tfprov: Local) -> None:
    (tfprov.directory / "code").mkdir()
    (tfprov.directory / "code" / "training.py").write_text(TRAINING)
    tfprov.write(INVENTORY)
    run = tfprov.start("run")
    output = read_until(run, "worker/2 | up")
    compared(tfprov)
    for task in ("worker/1", "ps/0"):
        kill(tfprov, task)
    until(lambda: {t["restarts"] for n, t in tfprov.tasks().items() if n in ("worker/1", "ps/0")} == {1}, "both again")
    until(lambda: tfprov("logs", "worker/1").count("up worker/1") == 2, "it is back")
    say(tfprov, "worker/0", "done")
    output += rest_of(run)
    assert run.returncode == 0, output
    for task in ("worker/1", "ps/0"):
        assert output.count(f"{task} ended with exit code 137 and was started again (1 of 1)\n") == 1, output
    assert output.count("worker/1 | up worker/1") == 2
    assert tfprov.processes() == []


def test_a_task_over_its_limit_is_shown_with_its_last_twenty_lines(tfprov: Local) -> None:
    up(tfprov)
    follower = tfprov.start("wait")
    say(tfprov, "worker/2", "fails")
    until(lambda: tfprov.tasks()["worker/2"]["state"] == "failed", "it is at its limit")
    output = tfprov("status")
    assert re.search(r"^worker/2 +failed .* exited with code 4 after 1 restart$", output, re.MULTILINE), output
    assert [line for line in output.splitlines() if "| reason" in line] == [
        f"  worker/2 | reason {n}" for n in range(10, 30)
    ]
    assert tfprov.tasks()["worker/0"]["state"] == "running"
    told = read_until(follower, "the training goes on without worker/2\n")
    say(tfprov, "worker/0", "fails")
    told += rest_of(follower)
    assert follower.returncode == 4, told
    assert "worker/2: exited with code 4 after 1 restart\n  worker/2 | reason 10\n" in told
    assert "error: worker/0: exited with code 4 after 1 restart\n  worker/0 | reason 10\n" in told


# --- stragglers ------------------------------------------------------------------------------------------------------


def test_a_worker_that_stands_still_is_named_and_its_stacks_are_in_its_log(tfprov: Local) -> None:
    up(tfprov)
    compared(tfprov)
    follower = tfprov.start("wait")
    stand = say(tfprov, "worker/2", "stand")
    until(lambda: "in stands_still" in tfprov("logs", "worker/2"), "its stacks are taken")
    stand.unlink()
    say(tfprov, "worker/0", "done")
    output, _ = follower.communicate(timeout=LONG)
    assert follower.returncode == 0, output
    (line,) = [line for line in output.splitlines() if "has made no step" in line]
    assert re.match(
        r"worker/2 on localhost has made no step for \d\d s while others do \(a step takes 0\.\d+ s\); ", line
    )
    assert line.endswith("its stacks are in `tfprov logs worker/2`")
    assert "Current thread" not in tfprov("logs", "worker/1")


# --- tensorboard -----------------------------------------------------------------------------------------------------

BOARD = 'command: [python, -m, http.server, "BOARD_PORT", --bind, 127.0.0.1]'
"""A stand-in that answers."""


def with_board(tfprov: Local, settings: str = BOARD) -> str:
    """Return the inventory with a tensorboard; those of a host would count for all its roles."""
    port = str(tfprov.port + 4)
    said = f"{{tfprov: {{port: {port}, {settings.replace('BOARD_PORT', port)}}}}}"
    return INVENTORY.rstrip("\n") + f"\n    tensorboard: {{hosts: {{localhost: }}, vars: {said}}}\n"


def address(process: AnyProcess) -> tuple[str, str]:
    """Return what `tfprov tensorboard` says first, and the address in it."""
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"http://\S+/", line)
    assert found is not None, line + process.stdout.read()
    return line, found[0]


def test_the_way_to_the_tensorboard_is_shown_once_it_answers_and_stays_until_ctrl_c(tfprov: Local) -> None:
    up(tfprov, with_board(tfprov))
    process = tfprov.start("tensorboard")
    line, url = address(process)
    assert line.startswith(f"tensorboard/0 on localhost: http://127.0.0.1:{tfprov.port + 4}/ (Ctrl-C ends this")
    with urllib.request.urlopen(url, timeout=LONG) as answer:
        assert answer.status == http.client.OK
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    rest = rest_of(process)
    assert (process.returncode, rest) == (0, "")
    assert tfprov.tasks()["tensorboard/0"]["state"] == "running"


def test_what_is_wrong_with_a_tensorboard_is_one_line(tfprov: Local) -> None:
    up(tfprov)
    output = tfprov("tensorboard", code=2)
    assert output.startswith("error: cluster watching has no tensorboard; add the group `tensorboard`")
    tfprov.write(with_board(tfprov))
    assert "tensorboard/0: is not there on localhost; start it with `tfprov up`" in tfprov("tensorboard", code=1)
    tfprov("up")
    other = tfprov("tensorboard", "--port", "1234", code=2)
    assert f"is on this machine and serves at http://127.0.0.1:{tfprov.port + 4}/" in other


def test_a_tensorboard_that_ends_meanwhile_ends_the_way_to_it(tfprov: Local) -> None:
    up(tfprov, with_board(tfprov))
    process = tfprov.start("tensorboard")
    address(process)
    tfprov("down")
    rest = rest_of(process)
    assert process.returncode == 1
    assert "error: tensorboard/0: " in rest

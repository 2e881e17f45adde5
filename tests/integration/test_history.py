"""The history of real runs with processes of this machine: a killed controller, verbs that go on, a failed run."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.event_files import event
from tests.support.local_cluster import LocalCluster
from tests.support.waiting import LONG, until
from tfprov.formats.tfrecord import write_record
from tfprov.history.log_store import read_log

PROGRAM = """
import os, pathlib, time
to = pathlib.Path(os.environ["TFPROV_CHECKPOINT_DIR"]) / "events.out.tfevents.1"
records = pathlib.Path("records")
for number, record in enumerate(sorted(records.iterdir(), key=lambda path: int(path.name))):
    with to.open("ab") as file:
        file.write(record.read_bytes())
    print("step", number, flush=True)
    time.sleep(0.05)
while not pathlib.Path(os.environ["GO"]).exists():
    time.sleep(0.05)
"""
INVENTORY = """
all:
  vars:
    tfprov:
      cluster: history
      code: code
      command: [python, train.py]
      flags: {train_steps: 30}
      env: {GO: DIRECTORY/go, HF_TOKEN: a-token-that-nobody-sees}
      checkpoints: none
      ready: start
      restart: never
      port: PORT
  children:
    worker: {hosts: {localhost: }}
"""


def write_program(cluster: LocalCluster, steps: int = 30) -> None:
    """Write a program that writes an event file step by step, and then waits for the file `go`."""
    records = cluster.directory / "code" / "records"
    records.mkdir(parents=True)
    (records.parent / "train.py").write_text(PROGRAM)
    for step in range(steps):
        with (records / str(step)).open("wb") as file:
            write_record(file, event(1.7e9 + step, step, {"loss": 10.0 / (step + 1), "eval_accuracy": step / 100}))
    cluster.write(INVENTORY.replace("DIRECTORY", str(cluster.directory)))


def runs(cluster: LocalCluster) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cluster("runs", "--json"))["runs"]
    return found


def directories(cluster: LocalCluster) -> Path:
    return cluster.directory / "state" / "tfprov" / "clusters" / "history" / "runs"


def shown(cluster: LocalCluster) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cluster("runs", "show", "--json"))
    return found


def test_a_killed_run_is_readable_and_goes_on_with_the_next_verbs(local_cluster: LocalCluster) -> None:
    write_program(local_cluster)
    process = local_cluster.start("run", fresh=True)
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if "step 29" in line:
            break
    until(lambda: runs(local_cluster)[0]["last_step"] == 29, "the last step is recorded", of=process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(LONG)
    (one,) = runs(local_cluster)
    assert (one["outcome"], one["last_step"], one["steps"], one["supervised"]) == ("interrupted", 29, 30, False)
    assert one["loss"] == pytest.approx(10.0 / 30)
    record = shown(local_cluster)
    assert record["tasks"]["worker/0"]["state"] == "running"
    assert record["description"]["versions"]["tfprov"]
    assert record["description"]["settings"]["worker"]["localhost"]["env"]["HF_TOKEN"] == "******"
    (directory,) = directories(local_cluster).glob("2*")
    assert all(b"a-token-that" not in path.read_bytes() for path in directory.rglob("*") if path.is_file())

    (local_cluster.directory / "go").touch()
    assert local_cluster("wait").endswith("worker/0 is done\n")
    assert runs(local_cluster)[0]["outcome"] == "up"
    local_cluster("down")
    (one,) = runs(local_cluster)
    assert (one["run"], one["outcome"], one["exit_code"]) == (directory.name, "succeeded", 0)
    assert one["quality"] == {"eval_accuracy": 0.28999999165534973}
    text = local_cluster("runs", "show", directory.name[:12])
    assert re.search(r"^worker/0 +localhost +exited +0 +0 ", text, re.MULTILINE)
    assert "loss by step" in text
    kept = local_cluster.directory / "checkpoints" / "history"
    assert json.loads((kept / "manifest.json").read_text())["run"] == directory.name
    beside = kept / "logs" / directory.name
    assert json.loads((beside / "end.json").read_text())["outcome"] == "succeeded"
    assert logged(directory) == [f"step {n}" for n in range(30)]


def logged(directory: Path) -> list[str]:
    """Return the recorded lines of the worker."""
    return [line.text for line in read_log(directory / "logs", "worker/0")]


def test_runs_are_compared_and_removed_after_one_failed_and_one_was_left_alone(local_cluster: LocalCluster) -> None:
    write_program(local_cluster, 6)
    (local_cluster.directory / "go").touch()
    failing = INVENTORY.replace("train.py]", '-c, "import sys; sys.exit(7)"]')
    local_cluster.write(failing.replace("DIRECTORY", str(local_cluster.directory)))
    local_cluster("run", code=7)
    local_cluster.write(INVENTORY.replace("DIRECTORY", str(local_cluster.directory)).replace("steps: 30", "steps: 6"))
    local_cluster("up")
    until(lambda: local_cluster.tasks()["worker/0"]["state"] == "finished", "it is done, and nobody followed it")
    local_cluster("down")
    failed, left = runs(local_cluster)
    assert (failed["outcome"], failed["exit_code"], left["outcome"]) == ("failed", 7, "succeeded")
    assert left["last_step"] == 5, "from the event file"
    assert len(json.loads(local_cluster("runs", "show", "--json"))["curve"]) == 6
    assert logged(directories(local_cluster) / left["run"]) == [f"step {n}" for n in range(6)], "from the kept logs"
    table = local_cluster("runs", "compare", failed["run"], left["run"], "--html", "page.html")
    assert re.search(r"^worker.flags.train_steps +30 +6$", table, re.MULTILINE)
    assert re.search(r"^outcome +failed +succeeded$", table, re.MULTILINE)
    assert "<polyline" in (local_cluster.directory / "page.html").read_text()
    assert "error: no run `nothing`; the closest are" in local_cluster("runs", "show", "nothing", code=2)
    assert local_cluster("runs", "prune", "--keep", "1") == f"removed {failed['run']} of history\n"
    assert local_cluster("runs", "rm", left["run"][-6:]) == f"removed {left['run']} of history\n"
    assert local_cluster("runs") == "no runs yet: `tfprov run` and `tfprov up` begin one\n"

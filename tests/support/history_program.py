"""A program that writes an event file step by step, for tests of the history of real runs, and what `runs` says of them."""

import json
from pathlib import Path
from typing import Any

from tests.support.event_files import event
from tests.support.local_cluster import LocalCluster
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
    answer: list[dict[str, Any]] = json.loads(cluster("runs", "--json"))["runs"]
    return answer


def directories(cluster: LocalCluster) -> Path:
    return cluster.directory / "state" / "tfprov" / "clusters" / "history" / "runs"


def shown(cluster: LocalCluster) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(cluster("runs", "show", "--json"))
    return answer


def logged(directory: Path) -> list[str]:
    """Return the recorded lines of the worker."""
    return [line.text for line in read_log(directory / "logs", "worker/0")]

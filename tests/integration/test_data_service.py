"""tf.data's service with real TensorFlow: its dispatcher is killed, and the training gets the rest of its data."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.strategies import QUALITY
from tests.support.local_cluster import LocalCluster
from tests.support.paths import PROGRAMS
from tests.support.waiting import LONG, until

pytestmark = pytest.mark.tensorflow

INVENTORY = """
all:
  vars:
    tfprov:
      cluster: served
      strategy: single
      code: CODE
      command: [python, reader.py]
      ready: start
      env: {TF_CPP_MIN_LOG_LEVEL: "2"}
      port: PORT
  children:
    worker: {hosts: {localhost: }}
    dispatcher: {hosts: {localhost: }, vars: {tfprov: {ready: port}}}
    data_worker: {hosts: {localhost: }, vars: {tfprov: {ready: port, tasks_per_host: 2}}}
"""
COUNT = 400
READER = f"""
import os, time
import tensorflow as tf

service = tf.data.experimental.service
records = tf.data.Dataset.range({COUNT})
numbers = []
for number in records.apply(service.distribute(service.ShardingPolicy.DYNAMIC, os.environ["TFPROV_DATA_SERVICE"])):
    numbers.append(int(number))
    print("record", len(numbers), flush=True)
    while len(numbers) == {COUNT // 2} and not os.path.exists(os.environ["GO"]):
        time.sleep(0.02)
twice, missing = len(numbers) - len(set(numbers)), {COUNT} - len(set(numbers))
print(f"end: {{twice}} twice, {{missing}} missing", flush=True)
"""


def test_a_killed_dispatcher_resumes_from_its_journal(local_cluster: LocalCluster) -> None:
    code = local_cluster.directory / "code"
    code.mkdir()
    (code / "reader.py").write_text(READER)
    go = local_cluster.directory / "go"
    local_cluster.write(INVENTORY.replace("CODE", str(code)).replace("env: {", f"env: {{GO: {go}, "))
    up = local_cluster("up")
    assert "dispatcher/0 serves" in up
    assert "data_worker/1 serves" in up
    until(lambda: "record 20\n" in local_cluster("logs", "worker/0"), "20 records")
    before = local_cluster.pids()["dispatcher/0"]
    os.kill(int(before), signal.SIGKILL)
    until(lambda: local_cluster.pids().get("dispatcher/0", before) != before, "it is started again")
    go.touch()
    until(lambda: "end:" in local_cluster("logs", "worker/0"), "all records")
    # A record that was on its way to a data worker when the dispatcher died is not sent again: at most once each.
    assert re.search(r"end: 0 twice, [0-2] missing", local_cluster("logs", "worker/0"))
    assert local_cluster.tasks()["dispatcher/0"]["restarts"] == 1
    remaining = {"dispatcher/0", "data_worker/0", "data_worker/1"}
    until(lambda: set(local_cluster.pids()) == remaining, "the reader has left")
    local_cluster("down")
    assert local_cluster.processes() == []


def test_the_shipped_inventory_trains_on_batches_of_the_data_workers(local_cluster: LocalCluster, digits: Path) -> None:
    settings = yaml.safe_load((PROGRAMS.parents[2] / "inventories" / "data-service.yml").read_text())
    settings["all"]["vars"]["tfprov"] |= {
        "code": str(PROGRAMS), "data": {"path": str(digits)}, "port": local_cluster.port,
        "checkpoints": {"to": "checkpoints"},
    }  # fmt: skip
    settings["all"]["vars"]["tfprov"]["flags"]["train_steps"] = 500
    local_cluster.write(yaml.safe_dump(settings))
    local_cluster("up")
    local_cluster("wait")
    output = until(
        lambda: re.search(r"\| macro-F1 (\d\.\d{4})$", local_cluster("logs", "evaluator/0", "--tail", "1").rstrip()),
        "it is measured",
    )
    assert isinstance(output, re.Match)
    assert float(output[1]) >= QUALITY
    (journal,) = (path for path in local_cluster.directory.rglob("journal") if path.is_dir())
    assert b"train" in b"".join(path.read_bytes() for path in journal.rglob("*") if path.is_file())
    local_cluster("down")


def test_a_port_in_use_is_reported_in_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "tfprov.runtime.data_service", "dispatcher", f"--port={port}", f"--work_dir={tmp_path}"],
            capture_output=True, text=True, check=False, timeout=LONG,
        )  # fmt: skip
    assert done.returncode == 1
    assert re.search(rf"^tfprov: error: the dispatcher .* cannot serve on port {port}: ", done.stderr, re.MULTILINE)

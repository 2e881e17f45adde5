"""A model server beside a training: it loads the newest export, reloads, and survives a damaged version."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.local_cluster import LocalCluster, open_local_cluster
from tests.support.tensorboard import close_web, web_address
from tests.support.waiting import LONG, until

pytestmark = pytest.mark.tensorflow

INVENTORY = """
all:
  vars:
    tfprov:
      cluster: served
      strategy: single
      code: code
      command: [python, train.py]
      ready: start
      checkpoints: none
      serving: {model_name: line}
      env: {TF_CPP_MIN_LOG_LEVEL: "2"}
      port: PORT
  children:
    worker: {hosts: {localhost: }}
    serving: {hosts: {localhost: }, vars: {tfprov: {ready: port}}}
"""
TRAIN = """
import pathlib, time
import tensorflow as tf
from tfprov import runtime

class Line(tf.Module):
    def __init__(self):
        self.slope = tf.Variable(2.0)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def serve(self, x):
        return {"y": self.slope * x}

task = runtime.multi_worker_mirrored()
with task.strategy.scope():
    line = Line()
signatures = {"serving_default": line.serve}
print("exported", task.export(line, 1, signatures), flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.05)
line.slope.assign(3.0)
print("exported", task.export(line, 2, signatures), flush=True)
"""


@pytest.fixture
def served_cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    for cluster in open_local_cluster(tmp_path):
        (tmp_path / "code").mkdir()
        (tmp_path / "code/train.py").write_text(TRAIN)
        cluster.write(INVENTORY)
        yield cluster


def ask(url: str, body: Any = None) -> Any:
    """Return the answer of the model server, as JSON, also of a refusal."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(url, data, timeout=LONG) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refusal:
        return json.load(refusal)


def test_the_newest_export_is_served_during_and_after_the_training(served_cluster: LocalCluster) -> None:
    assert "serving/0 serves on 127.0.0.1:" in served_cluster("up")
    process = served_cluster.start("serving")
    model = web_address(process, "serving/0", "the model server")
    assert model.endswith("/v1/models/line")
    rows = {"instances": [1.0, 2.0]}
    until(lambda: ask(f"{model}:predict", rows) == {"predictions": [2.0, 4.0]}, "version 1 is served")
    assert ask(f"{model}:predict", {"inputs": {"x": [5]}}) == {"outputs": [10.0]}
    assert (
        "no signature 'other'; it has serving_default"
        in ask(f"{model}:predict", {**rows, "signature_name": "other"})["error"]
    )
    assert ask(f"{model}:predict", {"instances": ["a"]})["error"]
    inputs = ask(f"{model}/metadata")["metadata"]["signature_def"]["signature_def"]["serving_default"]["inputs"]
    assert inputs["x"]["dtype"] == 1
    assert inputs["x"]["tensor_shape"]["dim"][0]["size"] == "-1"
    tasks = served_cluster.directory / "state/tfprov/clusters/served/hosts/localhost/tasks"
    (export,) = tasks.glob("worker-0/checkpoints/export")
    (export / "9").mkdir()
    (export / "9/saved_model.pb").write_bytes(b"torn")
    until(lambda: "cannot load version 9 of line" in served_cluster("logs", "serving/0"), "the damaged one is reported")
    assert ask(f"{model}:predict", rows) == {"predictions": [2.0, 4.0]}
    (export / "9/saved_model.pb").unlink()
    (tasks / "worker-0/work/go").touch()
    until(lambda: ask(f"{model}:predict", rows) == {"predictions": [3.0, 6.0]}, "version 2 is served")
    served_cluster("wait")
    assert ask(model)["model_version_status"][-1]["version"] == "2"
    close_web(process)
    assert served_cluster.tasks()["serving/0"]["state"] == "running"
    assert "nothing to do" in served_cluster("up")
    served_cluster("down")
    assert served_cluster.processes() == []


def test_a_model_server_does_not_delay_the_end_of_a_run(served_cluster: LocalCluster) -> None:
    (served_cluster.directory / "code/go").touch()
    printed = served_cluster("run")
    assert "worker/0" in printed
    assert served_cluster.processes() == []

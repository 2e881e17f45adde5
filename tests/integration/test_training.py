"""Real training on this machine: TensorFlow, one ps, two workers, a checkpoint that restores."""

import json
import os
import re
import signal

import pytest

from tests.support.local_cluster import LocalCluster
from tests.support.programs import read_back
from tests.support.waiting import until

pytestmark = pytest.mark.tensorflow

INVENTORY = """
all:
  vars:
    tfprov:
      cluster: linear
      code: PROGRAMS
      command: [python, linear.py]
      flags: {train_steps: 500, save_every_steps: 200}
      env: {TF_CPP_MIN_LOG_LEVEL: "2"}
      restart: never
      port: PORT
  children:
    ps: {hosts: {localhost: }}
    worker: {hosts: {localhost: }, vars: {tfprov: {tasks_per_host: 2}}}
"""


def test_run_trains_and_leaves_a_checkpoint_that_restores_where_it_is_moved_to(local_cluster: LocalCluster) -> None:
    local_cluster.write(INVENTORY)
    output = local_cluster("run", fresh=True)
    assert re.search(r"worker/0 \| done: step=50\d loss=0\.0\d+ W=(1\.9|2\.0)\d+ b=-?0\.0\d+", output), output
    assert "tensors read" in output
    assert local_cluster.processes() == []
    moved = local_cluster.directory / "moved"
    (local_cluster.directory / "checkpoints" / "linear").rename(moved)
    values = read_back(moved)
    assert abs(values["W"] - 2) < 0.05
    assert abs(values["b"]) < 0.05
    assert values["global_step"] >= 500
    assert list(moved.glob("events.out.tfevents.*"))
    manifest = json.loads((moved / "manifest.json").read_text())
    assert manifest["checkpoints"][-1]["tensors"] == 3


def test_status_shows_the_chiefs_step_and_gather_takes_only_new_files(local_cluster: LocalCluster) -> None:
    local_cluster.write(INVENTORY.replace("500", "1000000, pause: 0.003"))
    local_cluster("up")
    progress = local_cluster.until_step(300)
    assert 0 < progress["loss"] < 5
    assert progress["steps_per_second"] > 0
    assert "chief" in local_cluster("status")
    local_cluster("gather")
    first = json.loads((local_cluster.directory / "checkpoints/linear/manifest.json").read_text())
    assert first["checkpoints"], "something was saved"
    local_cluster.until_step(progress["step"] + 400)
    local_cluster("down")
    after = json.loads((local_cluster.directory / "checkpoints/linear/manifest.json").read_text())
    assert after["checkpoints"][-1]["step"] > first["checkpoints"][-1]["step"]
    assert {name: after["files"][name] for name in first["files"] if ".data-" in name} == {
        name: entry for name, entry in first["files"].items() if ".data-" in name
    }
    # The other worker steps on while the chief saves: the tensor may be past the step in the name, but by no whole save.
    step = after["checkpoints"][-1]["step"]
    assert step <= read_back(local_cluster.directory / "checkpoints" / "linear")["global_step"] < step + 200


def test_a_killed_chief_resumes_at_the_step_of_its_ps(local_cluster: LocalCluster) -> None:
    local_cluster.write(INVENTORY.replace("500", "1000000, pause: 0.003"))
    local_cluster("up")
    local_cluster.until_step(500)
    os.kill(int(local_cluster.pids()["worker/0"]), signal.SIGKILL)
    until(lambda: local_cluster.tasks()["worker/0"]["state"] == "failed", "the chief is seen to be dead")
    plan = local_cluster("plan")
    step = int(re.search(r"the training goes on from step (\d+)", plan)[1])  # type: ignore[index]
    assert step >= 200
    assert "start  worker/0" in plan
    assert "worker/1" not in plan
    local_cluster("up")
    kept = until(
        lambda: re.search(r"goes on at step (\d+), which the ps", local_cluster("logs", "worker/0")), "it goes on"
    )
    assert int(kept[1]) >= step
    local_cluster.until_step(int(kept[1]) + 100)
    local_cluster("down")
    gathered = json.loads((local_cluster.directory / "checkpoints/linear/manifest.json").read_text())
    assert gathered["checkpoints"][-1]["step"] > step


def test_the_textbook_program_is_run_unchanged_by_tfprov(local_cluster: LocalCluster) -> None:
    textbook = INVENTORY.replace("linear.py", "textbook.py").replace("cluster: linear", "cluster: textbook")
    flags = 'flags: {train_steps: 300, checkpoint_dir: "{{ checkpoint_dir }}"}'
    local_cluster.write(re.sub(r"flags: \{.*\}", flags, textbook, count=1))
    local_cluster("run")
    assert local_cluster.processes() == []
    values = read_back(local_cluster.directory / "checkpoints" / "textbook")
    assert values["global_step"] >= 300


def test_tf_config_is_enough_for_a_program_without_flags(local_cluster: LocalCluster) -> None:
    local_cluster.write(INVENTORY.replace("port:", "wiring: tf_config\n      port:"))
    output = local_cluster("run")
    assert "done: step=50" in output
    assert read_back(local_cluster.directory / "checkpoints" / "linear")["global_step"] >= 500


def test_a_second_training_keeps_the_first_ones_checkpoints(local_cluster: LocalCluster) -> None:
    local_cluster.write(INVENTORY)
    local_cluster("run")
    first = (local_cluster.directory / "checkpoints/linear/manifest.json").read_bytes()
    assert "held an earlier run (step 5" in local_cluster("run")
    assert (local_cluster.directory / "checkpoints/linear.1/manifest.json").read_bytes() == first
    read_back(local_cluster.directory / "checkpoints" / "linear.1")
    read_back(local_cluster.directory / "checkpoints" / "linear")

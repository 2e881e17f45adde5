"""The textbook's program with TensorFlow's default saver, its tasks in directories of their own as on hosts of their own.

`../checkpoints` is every task's own checkpoint directory, seen from where it works: so the ps writes its variables on
"its" disk, as it does on another machine, and not on the chief's.
"""

import json
import os
import re
import signal
from pathlib import Path

import pytest

from tests.support.local_cluster import LocalCluster
from tests.support.paths import PROGRAMS
from tests.support.programs import read_back
from tests.support.waiting import until

pytestmark = pytest.mark.tensorflow

INVENTORY = """
all:
  vars:
    tfprov:
      cluster: textbook
      code: PROGRAMS
      command: [python, textbook.py]
      flags: {train_steps: 300, checkpoint_dir: ../checkpoints}
      env: {TF_CPP_MIN_LOG_LEVEL: "0"}
      restart: never
      port: PORT
  children:
    ps: {hosts: {localhost: }}
    worker: {hosts: {localhost: }}
"""
ORIGIN = "its index and 1 shard came from ps/0 (the program's saver writes each ps's part on that ps's host)"
TORN = "worker/0: the saver left its shards on ps/0 and ps/1 and could not merge them across hosts; save with"


def test_shards_on_the_ps_are_gathered_and_restored(local_cluster: LocalCluster) -> None:
    local_cluster.write(INVENTORY)
    output = local_cluster("run")
    assert f"model.ckpt-300: {ORIGIN}" in output
    assert "model.ckpt-300 (3 tensors read)" in output
    target = local_cluster.directory / "checkpoints" / "textbook"
    manifest = json.loads((target / "manifest.json").read_text())
    assert manifest["checkpoints"][-1] == {"prefix": "model.ckpt-300", "step": 300, "tensors": 3, "from_ps": True}
    assert read_back(target)["global_step"] == 300
    assert local_cluster.processes() == []

    assert "`--resume` would go on from step 300" in local_cluster("plan")
    local_cluster.write(INVENTORY.replace("train_steps: 300", "train_steps: 500"))
    output = local_cluster("run", "--resume")
    assert "the training goes on from step 300 (gathered)" in output
    assert not re.search(r"worker/0 \| step 200\b", output)
    assert re.search(r"worker/0 \| step 400\b", output)
    after = json.loads((target / "manifest.json").read_text())
    assert after["run"] == manifest["run"], "it is the same training"
    assert [saved["step"] for saved in after["checkpoints"]][-2:] == [300, 500]
    assert read_back(target)["global_step"] == 500
    assert [path.name for path in target.parent.iterdir()] == ["textbook"]


def paced(directory: Path) -> Path:
    """Return a directory with the textbook's program at some 300 steps a second at most, with a summary every 10 steps.

    TensorFlow writes summaries to their file by 4 KiB: of every 100 steps, as by default, that is once in 3,500 steps.
    """
    text = (PROGRAMS / "textbook.py").read_text()
    step, every = "            _, step, loss_value", "        checkpoint_dir=flags.checkpoint_dir,\n"
    assert step in text
    assert every in text
    text = text.replace(every, f"{every}        save_summaries_steps=10,\n        log_step_count_steps=10,\n")
    (code := directory / "paced").mkdir()
    (code / "textbook.py").write_text(text.replace(step, f"            __import__('time').sleep(0.003)\n{step}"))
    return code


def test_a_chief_that_is_killed_gets_its_checkpoint_from_where_it_was_gathered_to(
    local_cluster: LocalCluster, tmp_path: Path
) -> None:
    local_cluster.write(
        INVENTORY.replace("PROGRAMS", str(paced(tmp_path))).replace("train_steps: 300", "train_steps: 1000000")
    )
    local_cluster("up")
    local_cluster.until_step(100)
    os.kill(int(local_cluster.pids()["worker/0"]), signal.SIGKILL)
    until(lambda: local_cluster.tasks()["worker/0"]["state"] == "failed", "the chief is seen to be dead")
    assert "worker/0 cannot go on by itself" in local_cluster("plan")
    assert "is not gathered; run `tfprov gather` first" in local_cluster("up", "--resume", code=1)
    assert ORIGIN in local_cluster("gather")
    local_cluster("up", "--resume")
    local_cluster.until_step(100)
    local_cluster("down")


def test_the_shards_of_two_ps_that_cannot_be_merged_are_explained(local_cluster: LocalCluster) -> None:
    two = INVENTORY.replace(
        "ps: {hosts: {localhost: }", "ps: {hosts: {localhost: }, vars: {tfprov: {tasks_per_host: 2}}"
    )
    local_cluster.write(two)
    # It fails as soon as it is there: on a busy machine before `up` has seen that it serves, or only after that.
    local_cluster.run("up", "--partial")
    until(lambda: local_cluster.tasks()["worker/0"]["state"] == "failed", "its first save fails")
    assert TORN in local_cluster("gather", code=1)
    assert not (local_cluster.directory / "checkpoints").exists()
    assert TORN in local_cluster("down", code=1)
    assert local_cluster.processes() == []

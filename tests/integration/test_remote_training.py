"""TensorFlow for real, each task in a container of its own host, over SSH.

One training shows what only hosts of their own show; the textbook's savers train there in `make matrix`, and as processes
in `test_sharded.py`.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.boards import BOARD, assert_only_reads, board_address, close_board, losses, page_text
from tests.support.images import Images
from tests.support.remote import Cluster, cluster, training
from tests.support.testhosts import Lab
from tests.support.waiting import LONG, until

pytestmark = pytest.mark.tensorflow

READ = """
import sys, json
import tensorflow as tf
path = tf.train.latest_checkpoint(sys.argv[1])
reader = tf.train.load_checkpoint(path)
print(json.dumps({name: reader.get_tensor(name).tolist() for name in reader.get_variable_to_shape_map()}))
"""


@pytest.fixture
def remote_cluster(lab: Lab, images: Images, tmp_path: Path, cache: Path) -> Iterator[Cluster]:
    images.train()  # so that the build below finds every layer made
    for made in cluster(lab, tmp_path):
        made.env["XDG_CACHE_HOME"] = str(cache)
        yield made


def restored(directory: Path) -> dict[str, float]:
    """Read every tensor of the newest checkpoint in `directory`, as a user's program would."""
    done = subprocess.run(
        [sys.executable, "-c", READ, str(directory)], capture_output=True, text=True, check=True, timeout=LONG
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_training_on_three_hosts_shows_its_loss_comes_back_whole_and_goes_on(
    remote_cluster: Cluster, images: Images
) -> None:
    one, two, three, _ = remote_cluster.lab.hosts
    settings = training(remote_cluster.directory, images.train_arguments(), train_steps=1_000_000)
    roles = {"ps": [one], "worker": [two, three], "tensorboard": [two]}
    remote_cluster.write(roles, settings)
    assert f"{BOARD} serves on 127.0.0.1:6006" in remote_cluster("up")
    assert_only_reads(two)
    process = remote_cluster.start("tensorboard")
    url = board_address(process)
    assert "<title>TensorBoard</title>" in (page_text(url) or "")
    until(lambda: losses(url), "the TensorBoard has read the events")
    close_board(process)

    remote_cluster("down")
    assert not any(remote_cluster.containers().values())
    gathered = remote_cluster.directory / "checkpoints" / "lab"
    step = newest(gathered)["step"]
    assert step > 0

    settings["flags"]["train_steps"] = step + 2000
    remote_cluster.write(roles, settings)
    output = remote_cluster("run", "--resume")
    assert f"the training goes on from step {step} (gathered)" in output
    assert "done: step=" in output
    tensors = restored(gathered)
    assert tensors["W"] == pytest.approx(2, abs=0.1)
    assert tensors["global_step"] >= step + 2000
    assert newest(gathered)["tensors"] == len(tensors)
    assert not any(remote_cluster.containers().values())


def newest(directory: Path) -> dict[str, Any]:
    """Return the manifest's entry of the newest checkpoint in `directory`."""
    entry: dict[str, Any] = json.loads((directory / "manifest.json").read_text())["checkpoints"][-1]
    return entry


@pytest.mark.matrix
def test_the_textbooks_shards_are_fetched_from_one_ps(remote_cluster: Cluster, images: Images) -> None:
    one, two, three, _ = remote_cluster.lab.hosts
    settings = training(remote_cluster.directory, images.train_arguments(), "textbook.py")
    settings["flags"] |= {"checkpoint_dir": "{{ checkpoint_dir }}"}
    remote_cluster.write({"ps": [one], "worker": [two, three]}, settings)
    printed = remote_cluster("run")
    assert "ps/0" in next(line for line in printed.splitlines() if "came from" in line)
    assert restored(remote_cluster.directory / "checkpoints" / "lab")["W"] == pytest.approx(2, abs=0.1)
    assert not any(remote_cluster.containers().values())


@pytest.mark.matrix
def test_the_textbooks_saver_with_two_ps_is_explained_and_nothing_broken_is_called_whole(
    remote_cluster: Cluster, images: Images
) -> None:
    one, two, three, four = remote_cluster.lab.hosts
    settings = training(remote_cluster.directory, images.train_arguments(), "textbook.py")
    settings["flags"] |= {"checkpoint_dir": "{{ checkpoint_dir }}"}
    remote_cluster.write({"ps": [one, four], "worker": [two, three]}, settings)
    done = remote_cluster.run("run")
    assert done.returncode != 0
    said = done.stdout
    assert any("sharded=False" in line and "ps/0" in line and "ps/1" in line for line in said.splitlines()), said
    assert not list((remote_cluster.directory / "checkpoints").glob("lab/*.index"))

"""TensorFlow for real, each task in a container of its own host, over SSH."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.images import Images
from tests.support.remote import Cluster, cluster, training
from tests.support.testhosts import Lab
from tests.support.waiting import LONG

pytestmark = pytest.mark.tensorflow

READ = """
import sys, json
import tensorflow as tf
path = tf.train.latest_checkpoint(sys.argv[1])
reader = tf.train.load_checkpoint(path)
print(json.dumps({name: reader.get_tensor(name).tolist() for name in reader.get_variable_to_shape_map()}))
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The controller's cache: the image is exported into it once for all tests here."""
    return tmp_path_factory.mktemp("cache")


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


def test_three_hosts_train_and_the_checkpoint_comes_back_whole(remote_cluster: Cluster, images: Images) -> None:
    one, two, three, _ = remote_cluster.lab.hosts
    remote_cluster.write(
        {"ps": [one], "worker": [two, three]}, training(remote_cluster.directory, images.train_arguments())
    )
    printed = remote_cluster("run")
    assert "done: step=" in printed
    tensors = restored(remote_cluster.directory / "checkpoints" / "lab")
    assert tensors["W"] == pytest.approx(2, abs=0.1)
    assert tensors["global_step"] >= 2000
    assert not any(remote_cluster.containers().values())
    manifest = json.loads((remote_cluster.directory / "checkpoints/lab/manifest.json").read_text())
    assert manifest["checkpoints"][-1]["tensors"] == len(tensors)


def test_the_textbooks_shards_are_fetched_from_one_ps(remote_cluster: Cluster, images: Images) -> None:
    one, two, three, _ = remote_cluster.lab.hosts
    settings = training(remote_cluster.directory, images.train_arguments(), "textbook.py")
    settings["flags"] |= {"checkpoint_dir": "{{ checkpoint_dir }}"}
    remote_cluster.write({"ps": [one], "worker": [two, three]}, settings)
    printed = remote_cluster("run")
    assert "ps/0" in next(line for line in printed.splitlines() if "came from" in line)
    assert restored(remote_cluster.directory / "checkpoints" / "lab")["W"] == pytest.approx(2, abs=0.1)
    assert not any(remote_cluster.containers().values())


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

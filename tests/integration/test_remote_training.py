"""The textbook's savers, each task in a container of its own host: in `make matrix`; as processes in `test_sharded.py`.

What only hosts of their own show of other trainings is in `test_strategies.py`.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.images import Images
from tests.support.lab_cluster import LabCluster, open_lab_cluster, training
from tests.support.testhosts import Lab
from tests.support.waiting import LONG

pytestmark = [pytest.mark.tensorflow, pytest.mark.matrix]

READ = """
import sys, json
import tensorflow as tf
path = tf.train.latest_checkpoint(sys.argv[1])
reader = tf.train.load_checkpoint(path)
print(json.dumps({name: reader.get_tensor(name).tolist() for name in reader.get_variable_to_shape_map()}))
"""


@pytest.fixture
def remote_cluster(training_lab: Lab, images: Images, tmp_path: Path, train_cache: Path) -> Iterator[LabCluster]:
    for made in open_lab_cluster(training_lab, tmp_path):
        made.env["XDG_CACHE_HOME"] = str(train_cache)
        yield made


def restored(directory: Path) -> dict[str, float]:
    """Read every tensor of the newest checkpoint in `directory`, as a user's program would."""
    done = subprocess.run(
        [sys.executable, "-c", READ, str(directory)], capture_output=True, text=True, check=True, timeout=LONG
    )
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_the_textbooks_shards_are_fetched_from_one_ps(remote_cluster: LabCluster, images: Images) -> None:
    one, two, three, _ = remote_cluster.lab.hosts
    settings = training(remote_cluster.directory, images.train_arguments(), "textbook.py")
    settings["flags"] |= {"checkpoint_dir": "{{ checkpoint_dir }}"}
    remote_cluster.write({"ps": [one], "worker": [two, three]}, settings)
    printed = remote_cluster("run")
    assert "ps/0" in next(line for line in printed.splitlines() if "came from" in line)
    assert restored(remote_cluster.directory / "checkpoints" / "lab")["W"] == pytest.approx(2, abs=0.1)
    assert not any(remote_cluster.containers().values())


def test_the_textbooks_saver_with_two_ps_is_explained_and_nothing_broken_is_called_whole(
    remote_cluster: LabCluster, images: Images
) -> None:
    one, two, three, four = remote_cluster.lab.hosts
    settings = training(remote_cluster.directory, images.train_arguments(), "textbook.py")
    settings["flags"] |= {"checkpoint_dir": "{{ checkpoint_dir }}"}
    remote_cluster.write({"ps": [one, four], "worker": [two, three]}, settings)
    done = remote_cluster.run("run")
    assert done.returncode != 0
    message = done.stdout
    assert any("sharded=False" in line and "ps/0" in line and "ps/1" in line for line in message.splitlines()), message
    assert not list((remote_cluster.directory / "checkpoints").glob("lab/*.index"))
